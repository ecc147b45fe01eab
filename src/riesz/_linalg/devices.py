r"""Matrices over many devices: where their parts lie, and the QR factorisation of one whose rows are spread.

A mesh here has one axis. Sums over what is spread become all-reduces by XLA's own partitioner; LAPACK's routines know
nothing of parts, so QR is done in two stages by hand.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .reflectors import Reflectors


def placed(array: jax.Array, mesh: Mesh, axis: int | None) -> jax.Array:
    """The array with one axis in equal parts over the devices; whole on each of them where that is None."""
    spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, mesh.axis_names)
    return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, spec))


class SpreadReflectors(eqx.Module):
    r"""The matrix Q of a tall matrix whose rows are spread over devices, by two stages (TSQR).

    Every device factorises its own rows, $\Psi_i = Q_i R_i$; the small $R_i$ are gathered, n min(N/n, d) rows of d, and
    factorised once more, $[R_i] = Q' R$. So $Q = \mathrm{diag}(Q_i)\, Q'$, and no row leaves its device.
    """

    own: Reflectors
    """Of every device, side by side along a first axis."""
    top: Reflectors
    mesh: Mesh = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    """The rows of the matrix, which were filled up with zeros to equal parts."""

    @classmethod
    def of(cls, matrix: jax.Array, mesh: Mesh) -> tuple["SpreadReflectors", jax.Array]:
        """Q and R of a matrix with at least as many rows as columns."""
        parts = cls._parts(matrix, mesh)
        own, R = _each(mesh, Reflectors.of, parts)
        top, R = Reflectors.of(placed(R.reshape(-1, matrix.shape[1]), mesh, None))
        return cls(own, top, mesh, matrix.shape[0]), R

    @staticmethod
    def _parts(x: jax.Array, mesh: Mesh) -> jax.Array:
        """The rows of every device along a first axis."""
        whole = jnp.pad(x, ((0, -x.shape[0] % mesh.size), (0, 0)))
        return placed(whole, mesh, 0).reshape(mesh.size, -1, x.shape[1])

    def transposed(self, x: jax.Array) -> jax.Array:
        """The product Q^T x."""
        columns = x.reshape(x.shape[0], -1)
        inside = _each(self.mesh, lambda Q, x: Q.transposed(x), self.own, self._parts(columns, self.mesh))
        found = self.top.transposed(placed(inside.reshape(-1, columns.shape[1]), self.mesh, None))
        return found.reshape(-1, *x.shape[1:])

    def __matmul__(self, y: jax.Array) -> jax.Array:
        """The product Q y."""
        inside = self.top @ y.reshape(y.shape[0], -1)
        each = _each(self.mesh, lambda Q, y: Q @ y, self.own, self._parts(inside, self.mesh))
        return each.reshape(-1, *y.shape[1:])[: self.rows]

    def array(self) -> jax.Array:
        """Q itself."""
        return self @ jnp.eye(self.top.factors.shape[0], dtype=self.top.packed.dtype)


def _each(mesh: Mesh, f: Any, *parts: Any) -> Any:
    """What a function gives on every device for its own part, the only one along the first axis."""
    own = lambda tree: jax.tree.map(lambda array: array[0], tree)
    one = lambda *trees: jax.tree.map(lambda array: array[None], f(*map(own, trees)))
    spread = PartitionSpec(mesh.axis_names)
    return jax.shard_map(one, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)(*parts)


def reflectors(matrix: jax.Array, mesh: Mesh | None) -> tuple[Any, jax.Array]:
    """Q and R of a matrix with at least as many rows as columns, whose rows are spread over a mesh, if any."""
    return Reflectors.of(matrix) if mesh is None else SpreadReflectors.of(matrix, mesh)
