"""Matrices over many devices: where their parts lie. A mesh here has one axis."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def placed(array: jax.Array, mesh: Mesh, axis: int | None) -> jax.Array:
    """The array with one axis in equal parts over the devices; whole on each of them where that is None."""
    spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, mesh.axis_names)
    return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, spec))
