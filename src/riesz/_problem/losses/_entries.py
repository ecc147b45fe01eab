"""Densities of single residuals, by SciPy's names: what `riesz.fit` makes of the entries of a residual vector."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ... import _check
from ..integral import half_square


def _huber(scale: jax.Array, z: jax.Array) -> jax.Array:
    scale, size = jnp.asarray(scale, z.dtype), jnp.abs(z)
    return jnp.where(size <= scale, 0.5 * z**2, scale * (size - 0.5 * scale))


def _soft_l1(scale: jax.Array, z: jax.Array) -> jax.Array:
    # The same number without the difference, which loses the digits of small residuals.
    return z**2 / (1 + jnp.sqrt(1 + (z / jnp.asarray(scale, z.dtype)) ** 2))


def _cauchy(scale: jax.Array, z: jax.Array) -> jax.Array:
    scale = jnp.asarray(scale, z.dtype)
    return 0.5 * scale**2 * jnp.log1p((z / scale) ** 2)


def _arctan(scale: jax.Array, z: jax.Array) -> jax.Array:
    scale = jnp.asarray(scale, z.dtype)
    return 0.5 * scale**2 * jnp.arctan((z / scale) ** 2)


class Robust(eqx.Module):
    """The density of a function rho of the squared residual, in units of the scale."""

    rho: Callable[[Any], Any]
    scale: jax.Array

    def __call__(self, z: jax.Array) -> jax.Array:
        scale = jnp.asarray(self.scale, z.dtype)
        return 0.5 * scale**2 * self.rho((z / scale) ** 2)


ROBUST = {"huber": _huber, "soft_l1": _soft_l1, "cauchy": _cauchy, "arctan": _arctan}


def density_by_name(loss: Any, scale: Any) -> Callable[[Any], Any]:
    r"""The density $\frac{C^2}{2} \rho\big((z/C)^2\big)$ of a loss that SciPy names, or of a function rho."""
    _check.scalar("scale", scale, above=0.0)
    if loss == "linear":
        return half_square
    if callable(loss):
        return Robust(loss, _check.leaf(scale))
    if not isinstance(loss, str) or loss not in ROBUST:
        names = ", ".join(map(repr, ("linear", *ROBUST)))
        raise ValueError(f"loss must be a function or one of {names}, not {_check.shown(loss)}.")
    return Partial(ROBUST[loss], _check.leaf(scale))
