"""The loss of an initial condition: what a function is to begin with, known once and for all."""

from typing import Any

import jax
import jax.numpy as jnp

from ... import _check
from ..integral import AbstractLoss, Integral
from ..measures import AbstractMeasure, Points
from ..operators import time_derivative
from ._data import half_squared_error, least_squares


def initial(before: Any, over: AbstractMeasure, order: int = 1) -> AbstractLoss:
    r"""An initial condition as a term of the loss, $\frac12 \int |v - g|^2 \, d\mu$ over points at the initial time.

    Of second order it is $\frac12 \int |v - g|^2 + |\partial_t v - \partial_t g|^2 \, d\mu$. The values of g are data,
    found once, so that g costs the steps nothing, and another g compiles nothing. Give the term a weight well above
    one: an error at the beginning stays in the solution.

    **Arguments:**

    - `before`: g, a function of points (x, t); or a number. In `riesz.march` it is `before`.
    - `over`: fixed points (x, t0), such as `riesz.product(space, riesz.points([t0]))`; or the time t0 alone, as
      `riesz.points([t0])`.
    - `order`: 1 or 2, the order in time of the equation.

    ```python
    start = riesz.product(riesz.gauss_legendre(0.0, 1.0, 20), riesz.points([0.0]))
    loss = 100.0 * riesz.initial(lambda x: jnp.sin(jnp.pi * x[0]), start, order=2)
    ```
    """
    _check.kind("over", over, AbstractMeasure, "a measure, such as riesz.product(space, riesz.points([t0]))")
    if over.drawn:
        raise ValueError("over must be fixed points for initial, which finds the values there once.")
    if not callable(before):
        number = _check.leaf(_check.number("before", before))
        before = lambda x: number
    _check.order(order)
    points = over.draw(None)
    value = least_squares(_with_data(before, points))
    if order == 1:
        return value
    return value + Integral(half_squared_error, _with_data(time_derivative(before), points), time_derivative)


def _with_data(f: Any, over: Points) -> Points:
    """The points with the values of a function as their data."""
    with _check.explained("before must be a function of the points of over, but it fails"):
        data = jnp.asarray(jax.vmap(f)(over.x), over.x.dtype)
    _check.finite_rows("before", data)
    return Points(over.x, over.weights, data)
