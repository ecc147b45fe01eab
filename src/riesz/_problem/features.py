"""Features: the values z_j = (A v)(x_j) of a model at theta and their derivatives in theta.

An operator acts on functions, so z_j = (A D(theta))(x_j) depends on x_j alone, and one pass of reverse mode per point
gives value and rows together. Differentiating the batch instead costs a thousand times more.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Function, Operator, Parametrisation, Vector
from .points_last import points_last

MANY = 20_000
"""Rows with more numbers per value are computed with the points last, which is quicker to run and slower to compile."""


MODES = ("auto", "forward", "reverse")
"""How a Jacobian is computed: in the mode with the fewer passes, or in one of the two."""


class Whole(eqx.Module):
    """An operator whose image is not a function but one vector, r(v) in R^N: all entries come from one evaluation."""

    residual: Callable[[Function], Any]
    mode: str = eqx.field(static=True, default="auto")

    def __call__(self, v: Function) -> jax.Array:
        return jnp.ravel(jnp.asarray(self.residual(v)))


class Features(eqx.Module):
    """z_j = (A D(theta))(x_j) and its derivative in theta, for every point."""

    values: jax.Array
    """z, of shape (m, ...): one z_j per point, in the shape that the operator gave it."""
    jacobians: jax.Array | None
    """dz/dtheta, of shape (m, p, d), with z_j flattened to R^p; None where rows are not stored."""


def image(operator: Operator, v: Function, x: jax.Array) -> jax.Array:
    """The values z_j = (A v)(x_j) at the points; the entries of a `Whole` operator are its points."""
    return operator(v) if isinstance(operator, Whole) else jax.vmap(operator(v))(x)  # type: ignore[return-value]


def traced(D: Parametrisation, operator: Operator, theta: Vector, x: Any) -> tuple[Any, Any]:
    """The traced program of z at one point, a function of theta first, and the shape of z with an axis of points.

    Of a `Whole` operator, the program of all its values. It is remembered, because several checks ask for it.
    """
    shape = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    arrays, rest = eqx.partition((operator, D), eqx.is_array)
    leaves, structure = jax.tree.flatten(jax.tree.map(shape, arrays))
    known, outline = jax.tree.flatten(rest)
    one = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    arguments = shape(theta), one, tuple(leaves), structure, tuple(known), outline
    try:
        hash(arguments)
    except TypeError:
        return _traced.__wrapped__(*arguments)
    return _traced(*arguments)


@functools.lru_cache(maxsize=32)
def _traced(theta: Any, x: Any, leaves: Any, structure: Any, known: Any, outline: Any) -> tuple[Any, Any]:
    def values(theta: Vector, x: jax.Array, leaves: Any) -> jax.Array:
        arrays, rest = jax.tree.unflatten(structure, leaves), jax.tree.unflatten(outline, known)
        operator, D = eqx.combine(arrays, rest)
        return image(operator, D(theta), x)

    return jax.make_jaxpr(values, return_shape=True)(theta, x, leaves)


def evaluate(D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array) -> jax.Array:
    """The values z_j = (A D(theta))(x_j): one forward pass."""
    return image(operator, D(theta), x)


def along(D: Parametrisation, operator: Operator, theta: Vector, delta: Vector, x: jax.Array) -> jax.Array:
    """The tangent function psi(theta)^T delta under A at the points: one JVP, no rows."""
    return jax.jvp(lambda theta: evaluate(D, operator, theta, x), (theta,), (delta,))[1]


def bend(D: Parametrisation, operator: Operator, theta: Vector, delta: Vector, x: jax.Array) -> jax.Array:
    """The second derivative of (A D(theta + t delta))(x_j) at t = 0: one nested JVP, no rows."""
    return jax.jvp(lambda theta: along(D, operator, theta, delta, x), (theta,), (delta,))[1]


def pull(D: Parametrisation, operator: Operator, theta: Vector, covectors: jax.Array, x: jax.Array) -> Vector:
    """The covector sum_j covector_j^T dz_j/dtheta: no rows, in forward mode where a loop has no reverse mode."""
    values = lambda theta: flat(evaluate(D, operator, theta, x))
    try:
        return jax.vjp(values, theta)[1](covectors)[0]
    except ValueError as error:
        if not _has_no_reverse_mode(error):
            raise
    return jax.jacfwd(lambda theta: jnp.sum(values(theta) * covectors))(theta)


def pull_sizes(D: Parametrisation, operator: Operator, theta: Vector, covectors: jax.Array, x: jax.Array) -> Vector:
    """The sum of the sizes of what `pull` adds up, sum_j |covector_j|^T |dz_j/dtheta|."""
    rows = features(D, operator, theta, x).jacobians
    return jnp.einsum("mpd,mp->d", jnp.abs(rows), jnp.abs(covectors))  # type: ignore[arg-type]


def derivative(f: Callable[[Vector], jax.Array], theta: Vector, mode: str = "auto") -> tuple[jax.Array, jax.Array]:
    """The value z of f and its Jacobian, of shape (p, d), in the mode with the fewer passes or in one that is named.

    Reverse mode takes one pass per entry of z, forward mode one per parameter. Loops of unknown length have no reverse
    mode, functions with a `custom_vjp` no forward mode.
    """
    try:
        if mode != "forward":
            z, pullback = jax.vjp(lambda theta: jnp.asarray(f(theta)), theta)
            if z.size == 1:
                return z, pullback(jnp.ones_like(z))[0].reshape(1, -1)
            if z.size <= theta.size or mode == "reverse":
                return _in_reverse(z, pullback)
    except ValueError as error:
        if not _has_no_reverse_mode(error):
            raise
    push = lambda direction: jax.jvp(f, (theta,), (direction,))
    try:
        z, columns = jax.vmap(push, out_axes=(None, -1))(jnp.eye(theta.size, dtype=theta.dtype))
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
        return _in_reverse(*jax.vjp(f, theta))
    return z, columns.reshape(-1, theta.size)


def _in_reverse(z: jax.Array, pullback: Callable[[jax.Array], Any]) -> tuple[jax.Array, jax.Array]:
    basis = jnp.eye(z.size, dtype=z.dtype).reshape(z.size, *z.shape)
    return z, jax.vmap(lambda covector: pullback(covector)[0])(basis)


def _has_no_reverse_mode(error: Exception) -> bool:
    return "Reverse-mode differentiation does not work" in str(error)


def features(D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array) -> Features:
    """Values and rows at every point, from one pass per point; of a `Whole` operator, from one Jacobian."""
    if isinstance(operator, Whole):
        values, rows = derivative(lambda theta: operator(D(theta)), theta, operator.mode)
        return Features(values, rows[:, None, :])
    at = lambda point: derivative(lambda theta: operator(D(theta))(point), theta)
    if x.shape[0] * theta.size > MANY:
        return Features(*points_last(at, x))
    values, rows = jax.vmap(at, out_axes=-1)(x)
    return Features(jnp.moveaxis(values, -1, 0), jnp.moveaxis(rows, -1, 0))


def values_alone(D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array) -> Features:
    """Values at every point without rows: one forward pass."""
    return Features(evaluate(D, operator, theta, x), None)


def flat(values: jax.Array) -> jax.Array:
    """Values of shape (m, ...) as (m, p)."""
    return values.reshape(values.shape[0], -1)
