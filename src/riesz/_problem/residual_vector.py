"""Residual vectors: terms whose values come all at once, from one function of v."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function, Parametrisation, Vector
from .features import Whole
from .integral import AbstractTerm, half_square
from .measures import AbstractMeasure, Points


class Entries(AbstractMeasure):
    """The indices of a residual vector, as points: the counting measure unless weights say otherwise."""

    data: jax.Array | None
    weights: jax.Array | None
    drawn: ClassVar[bool] = False

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
        """The indices, where the weights or the data tell how many there are."""
        known = self.data if self.weights is None else self.weights
        if known is None:
            raise ValueError("weights or data must tell how many entries there are.")
        return self.of(known.shape[0], known.dtype)

    def of(self, n: int, dtype: Any) -> Points:
        """The first n indices."""
        weights = jnp.ones(n, dtype) if self.weights is None else self.weights.astype(dtype)
        data = None if self.data is None else self.data.astype(dtype)
        return Points(jnp.arange(n, dtype=dtype), weights, data)


def _half_squared_error(z: jax.Array, data: jax.Array) -> jax.Array:
    return 0.5 * (z - data) ** 2


class ResidualVector(AbstractTerm):
    r"""A term whose values come all at once, $\sum_i w_i\, \ell(r_i(v), \mathrm{data}_i)$ with $r(v) \in \mathbb{R}^N$.

    For residuals that are not values of one function at separate points: coupled equations, integrals of v, the
    residuals of a curve fit. The rows are the Jacobian of $\theta \mapsto r(D(\theta))$ in forward or reverse mode,
    whichever is shorter; the density acts entry by entry.

    **Arguments:**

    - `residual`: a function of v = D(theta) that returns an array of any shape.
    - `density`: a function of one entry, or of one entry and its datum; z^2/2, or (z - data)^2/2 with data, by default.
    - `data`, `weights`: one per entry; weights are 1 by default, so that the loss is a sum.

    ```python
    x = jnp.linspace(0.0, 1.0, 50)
    D = lambda theta: lambda t: theta[0] * jnp.exp(-theta[1] * t)
    loss = riesz.ResidualVector(lambda v: v(x) - y)
    ```
    """

    density: Callable[..., Any]
    over: AbstractMeasure
    operator: Any
    factor: jax.Array

    def __init__(
        self, residual: Callable[[Function], Any], density: Callable[..., Any] | None = None, data: Any = None,
        weights: Any = None,
    ):  # fmt: skip
        default = half_square if data is None else _half_squared_error
        self.density = default if density is None else _check.function("density", density)
        self.operator = Whole(_check.function("residual", residual))
        given = {"data": data, "weights": weights}
        checked = {name: None if part is None else _check.floating(name, part) for name, part in given.items()}
        for name, part in checked.items():
            if part is not None and part.ndim != 1:
                raise ValueError(f"{name} must have one number per residual, but its shape is {part.shape}.")
            if part is not None:
                _check.number(name, part, least=0.0 if name == "weights" else None)
        self.over = Entries(checked["data"], checked["weights"])
        self.factor = _check.leaf(1.0)

    def draw_points(self, key: Any, D: Parametrisation, theta: Vector) -> Points:
        entries = jax.eval_shape(lambda theta: self.operator(D(theta)), theta)
        if entries.size == 0 or not jnp.issubdtype(entries.dtype, jnp.floating):
            raise _check.Mismatch(
                f"residual must return at least one floating-point number, not {entries.size} of dtype {entries.dtype}."
            )
        n, over = entries.size, self.over.of(entries.size, entries.dtype)  # type: ignore[attr-defined]
        for name, part in (("data", over.data), ("weights", over.weights)):
            if part is not None and part.shape[0] != n:
                raise _check.Mismatch(f"{name} must have one number per residual, so {n} of them, not {part.shape[0]}.")
        return self.factor * over
