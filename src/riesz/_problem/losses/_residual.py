"""The residual of an equation, differential or not."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Function, Operator
from ..integral import Integral, half_square
from ..measures import AbstractMeasure


class Residual(eqx.Module):
    """The operator that takes v to A v - f."""

    operator: Operator
    source: Any

    def __call__(self, v: Function) -> Function:
        image = self.operator(v)

        def residual(x: Any) -> jax.Array:
            z = image(x)
            f = jnp.asarray(self.source(x) if callable(self.source) else self.source, z.dtype)
            if f.shape not in ((), z.shape) and not f.size == z.size == 1:
                raise _check.Mismatch(f"source must match A v in residual: {z.shape} and {f.shape} per point.")
            return z - jnp.broadcast_to(f, z.shape) if f.shape == () else z - f.reshape(z.shape)

        return residual


def residual(operator: Operator, source: Any, over: AbstractMeasure) -> Integral:
    r"""The residual of an equation $A v = f$, $\frac12 \int |(A v)(x) - f(x)|^2 \, d\mu$.

    The source is evaluated at the points of each step, so points may be drawn.

    **Arguments:**

    - `operator`: A, a function of functions; linear or not.
    - `source`: f, a function of a point or a number.
    - `over`: the measure to integrate over.

    ```python
    loss = riesz.residual(riesz.laplacian, source, interior) + 10.0 * riesz.residual(riesz.identity, 0.0, boundary)
    ```
    """
    _check.function("operator", operator)
    if not callable(source):
        source = _check.array("source", _check.number("source", source))
    return Integral(half_square, over, Residual(operator, source))
