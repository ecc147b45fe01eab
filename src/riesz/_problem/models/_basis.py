"""Orthonormal bases of functions of one variable: what tensor trains are made of."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check


class AbstractBasis(eqx.Module):
    """The map from t to (phi_1(t), ..., phi_size(t)), functions that are orthonormal in the mean over an interval."""

    low: jax.Array = eqx.field(converter=_check.leaf)
    high: jax.Array = eqx.field(converter=_check.leaf)
    size: int = eqx.field(static=True)

    def __check_init__(self):
        _check.scalar("low", self.low)
        _check.scalar("high", self.high)
        _check.count("size", self.size)
        _check.ordered(self.low, self.high)

    @property
    @abc.abstractmethod
    def orders(self) -> jax.Array:
        """How fast each function varies: its degree or frequency."""

    @abc.abstractmethod
    def __call__(self, t: Any) -> jax.Array:
        """The values of all functions at t, of shape (size,)."""


class Legendre(AbstractBasis):
    r"""Polynomials up to degree size - 1 on an interval, $\phi_k(t) = \sqrt{2k + 1}\, P_k(s)$ with s in [-1, 1].

    $\frac{1}{b - a} \int_a^b \phi_k \phi_l\, dt = \delta_{kl}$, so that the first one is 1.

    **Arguments:**

    - `low`, `high`: the interval.
    - `size`: the number of polynomials.

    ```python
    D, theta0 = riesz.linear(riesz.Legendre(-1.0, 1.0, 8), size=8)
    ```
    """

    @property
    def orders(self) -> jax.Array:
        return jnp.arange(self.size)

    def __call__(self, t: Any) -> jax.Array:
        """The values of all polynomials at t, by (k + 1) P_{k+1} = (2k + 1) s P_k - k P_{k-1}, in a loop."""
        s = (2 * t - self.low - self.high) / (self.high - self.low)

        def recur(pair: tuple[jax.Array, jax.Array], k: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            here, after = pair  # P_k and P_{k+1}
            return (after, ((2 * k + 3) * s * after - (k + 1) * here) / (k + 2)), here

        k = jnp.arange(self.size, dtype=s.dtype)
        return jnp.sqrt(2 * k + 1) * jax.lax.scan(recur, (jnp.ones_like(s), s), k)[1]


class Fourier(AbstractBasis):
    r"""Trigonometric functions on an interval, $1, \sqrt2 \cos s, \sqrt2 \sin s, \sqrt2 \cos 2s, \dots$

    Here $s = 2\pi (t - a)/(b - a)$. The functions have period b - a and are orthonormal in the mean over [a, b].

    **Arguments:**

    - `low`, `high`: the interval, whose length is the period.
    - `size`: the number of functions; with an odd number every cosine has its sine.

    ```python
    D, theta0 = riesz.linear(riesz.Fourier(0.0, 1.0, 9), size=9)
    ```
    """

    @property
    def orders(self) -> jax.Array:
        return (jnp.arange(self.size) + 1) // 2

    def __call__(self, t: Any) -> jax.Array:
        s = 2 * jnp.pi * (t - self.low) / (self.high - self.low)
        angles = s * jnp.arange(1, self.size // 2 + 1, dtype=s.dtype)
        pairs = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).reshape(-1)
        return jnp.concatenate([jnp.ones(1, s.dtype), 2**0.5 * pairs[: self.size - 1]])
