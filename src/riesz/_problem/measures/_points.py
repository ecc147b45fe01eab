"""What every measure answers, and fixed points with weights and data: the measure that every other one draws."""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ... import _check

if TYPE_CHECKING:
    from ._domain import AbstractDomain


class AbstractMeasure(eqx.Module):
    """A measure that can be drawn: `draw` gives the points, weights and data of one step."""

    drawn: eqx.AbstractClassVar[bool]
    """Whether every step sees new points, and so needs a key."""
    adapts = False
    """Whether `minimise` places the points anew now and then, by `replaced(step, at)`."""
    # Without an annotation it is no field, so that subclasses may have it as a field or as a property, or not at all.
    domain = cast("AbstractDomain | None", None)
    """Where fresh points of the measure can be drawn; None where this is not known."""

    @abc.abstractmethod
    def draw(self, key: Any, at: Any = None) -> "Points":
        """The points of one step; `at` is what is known at the current theta: `at.features(x)`, `at.residual(x)`."""

    @property
    def count(self) -> int:
        """The number of points of one step."""
        return jax.eval_shape(lambda: self.draw(jax.random.key(0))).weights.shape[0]

    def fresh(self, key: Any, n: int | None = None) -> "Points | None":
        """New points, uniform on the domain, with equal weights that sum to its volume; None where there is no domain.

        **Arguments:**

        - `key`: a random key.
        - `n`: the number of points; as many as one step has by default.
        """
        domain = self.domain
        return None if domain is None else domain.evenly(domain.uniform(key, self.count if n is None else n))

    def __add__(self, other: Any) -> "AbstractMeasure":
        from ._union import union  # which is made of measures

        return union(self, _check.kind("the other side of +", other, AbstractMeasure, "a measure"))

    def __radd__(self, other: Any) -> "AbstractMeasure":
        return self if isinstance(other, int) and other == 0 else self + other  # sum() starts at 0


class Points(AbstractMeasure):
    """The measure mu_m = sum_j w_j delta_{x_j}, with data_j attached to x_j."""

    x: jax.Array
    weights: jax.Array
    data: jax.Array | None
    mesh: Mesh | None = eqx.field(static=True, default=None)
    """The devices over which the points lie, in equal parts; None where they are not spread."""
    domain: "AbstractDomain | None" = None
    """Where the points lie; None where this is not known, and for the points of a step, which need no domain."""
    drawn: ClassVar[bool] = False

    def draw(self, key: Any = None, at: Any = None) -> "Points":
        """The points without their domain, whose arrays have no axis of points."""
        return self if self.domain is None else dataclasses.replace(self, domain=None)

    def take(self, chosen: jax.Array) -> "Points":
        """The points with the given indices, their weights and data, without a domain."""
        return jax.tree.map(lambda array: array[chosen], self.draw())

    def filled(self, count: int) -> "Points":
        """The same measure on the same domain with the first `count` points once more, with weight zero."""
        # By NumPy, which compiles nothing.
        fill = lambda array: jnp.asarray(np.pad(array, [(0, count), *[(0, 0)] * (array.ndim - 1)], mode="wrap"))
        weights = jnp.asarray(np.pad(self.weights, (0, count)))
        return dataclasses.replace(jax.tree.map(fill, self.draw()), weights=weights, domain=self.domain)

    def spread(self, mesh: Mesh) -> "Points":
        """The same measure with its points over all devices, filled up to equal parts with copies of weight zero."""
        count = -self.weights.shape[0] % mesh.size
        fill = lambda array: jnp.pad(array, [(0, count), *[(0, 0)] * (array.ndim - 1)], mode="edge")
        filled = Points(fill(self.x), jnp.pad(self.weights, (0, count)), jax.tree.map(fill, self.data))
        placed = jax.lax.with_sharding_constraint(filled, NamedSharding(mesh, PartitionSpec(mesh.axis_names)))
        return Points(placed.x, placed.weights, placed.data, mesh)

    def __rmul__(self, factor: Any) -> "Points":
        """The points with scaled weights and without a domain, whose volume would no longer be their mass."""
        return Points(self.x, factor * self.weights, self.data)


def points(x: Any, data: Any = None, weights: Any = None) -> Points:
    r"""The measure $\sum_j w_j \delta_{x_j}$ of given points, an average unless weights say otherwise.

    **Arguments:**

    - `x`: the points, along the first axis; shape (m,) means scalar points.
    - `data`: what the loss compares with at each point (values, labels), along the first axis.
    - `weights`: non-negative, one per point; 1/m by default.

    ```python
    over = riesz.points(x, data=y)
    ```
    """
    x = _check.floating("x", x)
    if x.ndim == 0 or x.shape[0] == 0:
        raise ValueError(f"x must hold at least one point along its first axis, but its shape is {x.shape}.")
    _check.finite_rows("x", x)
    m = x.shape[0]
    if data is not None:
        data = _check.array("data", data)
        if data.ndim == 0 or data.shape[0] != m:
            raise ValueError(f"data must have one row for each of the {m} points, but its shape is {data.shape}.")
    weights = jnp.full(m, 1 / m, x.dtype) if weights is None else _check.array("weights", weights)
    if weights.shape != (m,):
        raise ValueError(f"weights must have shape ({m},), one per point, but it is {weights.shape}.")
    for name, part in (("data", data), ("weights", weights)):
        if part is not None:
            if jnp.issubdtype(part.dtype, jnp.inexact) and part.dtype != x.dtype:
                raise TypeError(f"{name} and x must have one dtype, but they are {part.dtype} and {x.dtype}.")
            _check.finite_rows(name, part)
    weights = weights.astype(x.dtype)
    if not _check.is_traced(weights) and (np.asarray(weights) < 0).any():
        worst = int(np.argmax(np.asarray(weights) < 0))
        raise ValueError(f"weights must not be negative, but weights[{worst}] is {weights[worst]}.")
    return Points(x, weights, data)
