"""Residual vectors: terms whose values come all at once, from one function of v."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function, Parametrisation, Vector
from .features import MODES, Whole, traced
from .integral import AbstractTerm, half_square
from .measures import Points


def _entries(name: str, given: Any, **bounds: float) -> jax.Array | None:
    """One number per entry of a residual vector, or None."""
    if given is None:
        return None
    part = _check.floating(name, given)
    if part.ndim != 1:
        raise ValueError(f"{name} must have one number per residual, but its shape is {part.shape}.")
    return _check.number(name, part, **bounds)


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
    - `mode`: `"forward"` or `"reverse"`; `"auto"` for the shorter of the two.

    ```python
    x = jnp.linspace(0.0, 1.0, 50)
    D = lambda theta: lambda t: theta[0] * jnp.exp(-theta[1] * t)
    loss = riesz.ResidualVector(lambda v: v(x) - y)
    ```
    """

    density: Callable[..., Any]
    over: None
    data: jax.Array | None
    weights: jax.Array | None
    operator: Any
    factor: jax.Array

    def __init__(
        self, residual: Callable[[Function], Any], density: Callable[..., Any] | None = None, data: Any = None,
        weights: Any = None, mode: str = "auto",
    ):  # fmt: skip
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {_check.shown(mode)}.")
        default = half_square if data is None else _half_squared_error
        self.density = default if density is None else _check.function("density", density)
        self.operator = Whole(_check.function("residual", residual), mode)
        self.data, self.weights = _entries("data", data), _entries("weights", weights, least=0.0)
        self.over, self.factor = None, _check.leaf(1.0)

    def draw_points(self, key: Any, D: Parametrisation, theta: Vector) -> Points:
        # Of a `Whole` operator no point is looked at; its program is remembered.
        entries = traced(D, self.operator, theta, jax.ShapeDtypeStruct((1,), theta.dtype))[1]
        if entries.size == 0 or not jnp.issubdtype(entries.dtype, jnp.floating):
            raise _check.Mismatch(
                f"residual must return at least one floating-point number, not {entries.size} of dtype {entries.dtype}."
            )
        n, dtype = entries.size, entries.dtype
        for name, part in (("data", self.data), ("weights", self.weights)):
            if part is not None and part.shape[0] != n:
                raise _check.Mismatch(f"{name} must have one number per residual, so {n} of them, not {part.shape[0]}.")
        weights = jnp.ones(n, dtype) if self.weights is None else self.weights.astype(dtype)
        data = None if self.data is None else self.data.astype(dtype)
        return self.factor * Points(jnp.arange(n, dtype=dtype), weights, data)
