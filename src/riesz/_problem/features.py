"""Features: the values (A v)(x_j) and rows d(A v)(x_j)/dtheta of a model at theta, assembled point by point.

An operator acts on functions, so z_j = (A D(theta))(x_j) depends on x_j alone, and one pass of reverse mode
per point gives value and rows together. Differentiating the batch instead costs a thousand times more. The points
are the last axis of what is stored, so that the rows are one matrix by columns, as LAPACK reads it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Operator, Parametrisation, Vector
from .points_last import points_last


class Features(eqx.Module):
    """z_j = (A D(theta))(x_j) and its derivative in theta, for every point."""

    values: jax.Array
    """z, of shape (m, ...): one z_j a point, in the shape that the operator gave it."""
    rows: jax.Array | None
    """dz/dtheta, of shape (m, p, d), with z_j flattened to R^p; None where they are assembled in chunks."""


def evaluate(D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array) -> jax.Array:
    """The values z_j = (A D(theta))(x_j): one forward pass."""
    return jax.vmap(operator(D(theta)))(x)


def along(D: Parametrisation, operator: Operator, theta: Vector, delta: Vector, x: jax.Array) -> jax.Array:
    """The tangent function psi(theta)^T delta under A at the points: one JVP, no rows."""
    return jax.jvp(lambda theta: evaluate(D, operator, theta, x), (theta,), (delta,))[1]


def bend(D: Parametrisation, operator: Operator, theta: Vector, delta: Vector, x: jax.Array) -> jax.Array:
    """The second derivative of (A D(theta + t delta))(x_j) at t = 0: one nested JVP, no rows."""
    return jax.jvp(lambda theta: along(D, operator, theta, delta, x), (theta,), (delta,))[1]


def features(D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array) -> Features:
    """Values and rows at every point, from one pass of reverse mode per point."""

    def at(point: Any) -> tuple[jax.Array, jax.Array]:
        z, pullback = jax.vjp(lambda theta: operator(D(theta))(point), theta)
        basis = jnp.eye(z.size, dtype=z.dtype).reshape(z.size, *z.shape)
        return z, jax.vmap(lambda covector: pullback(covector)[0])(basis)

    return Features(*points_last(at, x))


def flat(values: jax.Array) -> jax.Array:
    """Values of shape (m, ...) as (m, p)."""
    return values.reshape(values.shape[0], -1)
