"""Regression: losses of a model's values, or values and gradients, against data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..integral import Integral
from ..measures import AbstractMeasure
from ..operators import value_and_gradient
from ._data import known, matched, present


def _half_squared_error(z: jax.Array, data: Any) -> jax.Array:
    z, data = matched("least_squares", z, data)
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


class Huber(eqx.Module):
    """The density of r = z - data that is r^2/2 where |r| <= delta, else delta (|r| - delta/2)."""

    delta: jax.Array

    def __call__(self, z: jax.Array, data: Any) -> jax.Array:
        z, data = matched("huber", z, data)
        delta = jnp.asarray(self.delta, z.dtype)
        r, size = z - data, jnp.abs(z - data)
        return jnp.sum(jnp.where(size <= delta, 0.5 * r**2, delta * (size - 0.5 * delta)))


def huber(over: AbstractMeasure, delta: Any = 1.0) -> Integral:
    r"""Robust regression: squares of small errors, moduli of large ones, $\int h(v(x) - y) \, d\mu$.

    $$h(r) = \tfrac12 r^2 \text{ where } |r| \le \delta, \quad \delta\, (|r| - \tfrac12 \delta) \text{ elsewhere.}$$

    Its Hessian is zero at points with large errors: these add nothing to the Gauss-Newton metric, and where all errors
    are large the metric is zero. Start from a least-squares fit, or take `pseudo_huber`, or `W=riesz.L2()`.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values; vectors are summed entry by entry.
    - `delta`: the error beyond which the loss grows linearly.

    ```python
    loss = riesz.huber(riesz.points(x, data=y), delta=0.1)
    ```
    """
    return Integral(Huber(_check.leaf(_check.scalar("delta", delta, above=0.0))), over)


class PseudoHuber(eqx.Module):
    """The density delta^2 (sqrt(1 + (r/delta)^2) - 1) of r = z - data."""

    delta: jax.Array

    def __call__(self, z: jax.Array, data: Any) -> jax.Array:
        z, data = matched("pseudo_huber", z, data)
        r = z - data
        # The same number without the difference, which loses the digits of small errors.
        return jnp.sum(r**2 / (1 + jnp.sqrt(1 + (r / jnp.asarray(self.delta, z.dtype)) ** 2)))


def pseudo_huber(over: AbstractMeasure, delta: Any = 1.0) -> Integral:
    r"""Robust regression, smooth, $\int \delta^2 \big(\sqrt{1 + (v(x) - y)^2/\delta^2} - 1\big) \, d\mu$.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values; vectors are summed entry by entry.
    - `delta`: the error around which the loss turns from a square into a modulus.

    ```python
    loss = riesz.pseudo_huber(riesz.points(x, data=y), delta=0.1)
    ```
    """
    return Integral(PseudoHuber(_check.leaf(_check.scalar("delta", delta, above=0.0))), over)


def _poisson(z: jax.Array, data: Any) -> jax.Array:
    z, data = matched("poisson", z, data)
    return jnp.sum(jnp.exp(z) - data * z)


def poisson(over: AbstractMeasure) -> Integral:
    r"""Poisson regression with the logarithmic link, $\int e^{v} - y v \, d\mu$ with counts y.

    The model is the logarithm of the mean: the counts at x are Poisson with mean exp(v(x)).

    **Arguments:**

    - `over`: a measure whose data are counts, or any numbers from 0 on.

    ```python
    loss = riesz.poisson(riesz.points(x, data=counts))
    ```
    """
    counts = known(over)
    if counts is not None and (counts < 0).any():
        raise ValueError(f"data must be counts from 0 on for poisson, but it holds {counts.min()}.")
    return Integral(_poisson, over)


def _sobolev(z: jax.Array, data: Any) -> jax.Array:
    z, data = matched("sobolev", _row(z), _row(present("sobolev", data)))
    return 0.5 * jnp.sum((z - data) ** 2)


def _row(a: jax.Array) -> jax.Array:
    """One value with its gradient, without the axis of length 1 that a model with one value may put in front."""
    return a[0] if a.ndim == 2 and a.shape[0] == 1 else a


def sobolev(over: AbstractMeasure) -> Integral:
    r"""Regression of values and gradients, $\frac12 \int |v(x) - y|^2 + |\nabla v(x) - g|^2 \, d\mu$.

    **Arguments:**

    - `over`: a measure whose data hold (y, g) at each point, the value first: 1 + n entries for points of n
      coordinates, and shape (p, 1 + n) where the model has values in R^p.

    ```python
    loss = riesz.sobolev(riesz.points(x, data=jax.vmap(riesz.value_and_gradient(u))(x)))
    ```
    """
    return Integral(_sobolev, over, value_and_gradient)
