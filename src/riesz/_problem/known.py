"""What is known of a term at the current parameters, for measures whose points follow it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Operator, Parametrisation
from .features import features, image


class Known(eqx.Module):
    """The rows and the residual of one term at theta, at any points of its domain."""

    D: Parametrisation
    theta: jax.Array
    operator: Operator
    density: Callable[..., Any] | None
    """The density, a function of z alone; None where there is none, or where it needs data."""

    def features(self, x: jax.Array) -> jax.Array:
        """The tangent rows dz/dtheta at some points, of shape (m, p, d)."""
        rows = features(self.D, self.operator, self.theta, x).jacobians
        assert rows is not None
        return rows

    def residual(self, x: jax.Array) -> jax.Array:
        r"""The size of the residual at some points, $\sqrt{2\, \ell(z)}$: |A v - f| for an equation."""
        if self.density is None:
            raise ValueError("the residual is known only where the density needs no data, as for riesz.residual(...).")
        values = image(self.operator, self.D(self.theta), x)
        return jnp.sqrt(2 * jnp.maximum(jax.vmap(self.density)(values), 0))
