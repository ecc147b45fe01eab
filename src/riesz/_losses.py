"""The named losses: each a few lines on `Integral`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import _check
from ._integral import Integral
from ._measures import AbstractMeasure, Minibatch, Points
from ._types import Function, Operator


def _matched(loss: str, z: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
    """The value and the data in one shape; (1,) and () are equal, any other difference is an error."""
    if data is None:
        raise _check.Mismatch(f"over must carry data for {loss}, such as riesz.points(x, data=y).")
    data = jnp.asarray(data, z.dtype)
    if z.shape == data.shape:
        return z, data
    if z.size == data.size == 1:
        return z.reshape(()), data.reshape(())
    raise _check.Mismatch(f"data must match the model in {loss}: values are {z.shape}, data is {data.shape} per point.")


def _half_squared_error(z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("least_squares", z, data)
    return 0.5 * jnp.sum((z - data) ** 2)


def least_squares(over: AbstractMeasure) -> Integral:
    r"""Least-squares regression, $\frac12 \int |v(x) - y|^2 \, d\mu$.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values.

    ```python
    loss = riesz.least_squares(riesz.points(x, data=y))
    ```
    """
    return Integral(_half_squared_error, over)


class Residual(eqx.Module):
    """The operator v -> A v - f."""

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


def _half_square(z: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum(z**2)


def residual(operator: Operator, source: Any, over: AbstractMeasure) -> Integral:
    r"""The residual of an equation $A v = f$, $\frac12 \int |(A v)(x) - f(x)|^2 \, d\mu$.

    The source is evaluated where the points are, so that it serves drawn points too.

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
        _check.number("source", source)
        source = jnp.asarray(source)
    return Integral(_half_square, over, Residual(operator, source))


def _logistic(z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("logistic", z, data)
    return jnp.sum(jax.nn.softplus(z) - data * z)


def logistic(over: AbstractMeasure) -> Integral:
    r"""Binary cross-entropy on logits, $\int \log(1 + e^{v}) - y v \, d\mu$ with labels y in {0, 1}.

    **Arguments:**

    - `over`: a measure whose data are labels in {0, 1}, or probabilities between them.

    ```python
    loss = riesz.logistic(riesz.points(x, data=labels))
    ```
    """
    fixed = over.points if isinstance(over, Minibatch) else over
    if isinstance(fixed, Points) and fixed.data is not None and not _check.is_traced(fixed.data):
        labels = np.asarray(fixed.data)
        if ((labels < 0) | (labels > 1)).any():
            raise ValueError(
                f"data must be labels in {{0, 1}} for logistic, but it holds {labels.min()} to {labels.max()}."
            )
    return Integral(_logistic, over)
