r"""An elliptic equation, $-\nabla\cdot(a \nabla u) + c\, u = f$ with u = g on the boundary, and what is left of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function
from .measures import Box
from .operators import divergence, gradient, laplacian

CHUNK = 1024
"""At how many points at a time a function is evaluated."""


def scalar(v: Function) -> Function:
    """The function with values of shape (); one value may also have shape (1,)."""

    def value(x: Any) -> jax.Array:
        z = jnp.asarray(v(x))
        if z.size != 1:
            raise _check.Mismatch(f"v must have one value at every point, but its values have shape {z.shape}.")
        return z.reshape(())

    return value


class Elliptic(eqx.Module):
    """The coefficients a and c and the source f, each a number or a function; a may be a matrix."""

    a: Any
    c: Any
    f: Any

    def number(self, name: str, x: jax.Array) -> jax.Array:
        """The coefficient c or the source f at a point."""
        return self._at(name, x, ((), (1,))).reshape(())

    def diffusion(self, x: jax.Array) -> jax.Array:
        """The coefficient a at a point: a number or an n x n matrix."""
        value = self._at("a", x, ((), (1,), (x.size, x.size)))
        return value if value.ndim == 2 and x.ndim == 1 else value.reshape(())

    def _at(self, name: str, x: jax.Array, shapes: tuple[tuple[int, ...], ...]) -> jax.Array:
        part = getattr(self, name)
        with _check.explained(f"{name} must be a function of a point, but it fails at shape {x.shape}"):
            value = jnp.asarray(part(x) if callable(part) else part)
        if value.shape not in shapes:
            kind = "a number at every point, or an n x n matrix" if name == "a" else "a number at every point"
            raise _check.Mismatch(f"{name} must give {kind}, but its shape is {value.shape}.")
        return value.astype(jnp.result_type(x, float))

    def flux(self, v: Function) -> Function:
        r"""The field $a \nabla v$."""

        def field(x: jax.Array) -> jax.Array:
            a, slope = self.diffusion(x), gradient(scalar(v))(x)
            return a @ slope if a.ndim else a * slope

        return field

    def diverging(self, v: Function) -> Function:
        r"""The function $\nabla\cdot(a \nabla v)$: a Laplacian, unless a is a matrix."""

        def image(x: jax.Array) -> jax.Array:
            a = self.diffusion(x)
            if a.ndim:
                return divergence(self.flux(v))(x)
            bent = a * jnp.reshape(laplacian(v)(x), ())
            if not callable(self.a):
                return bent
            return bent + jnp.sum(gradient(self.diffusion)(x) * gradient(scalar(v))(x))

        return image

    def __call__(self, v: Function) -> Function:
        """The left side, a function."""
        return lambda x: self.number("c", x) * scalar(v)(x) - self.diverging(v)(x)

    def known(self, v: Function) -> Callable[[jax.Array], "Known"]:
        """What is known of v at a point."""

        def at(x: jax.Array) -> Known:
            a, c, value, diverging = self.diffusion(x), self.number("c", x), scalar(v)(x), self.diverging(v)(x)
            residual = self.number("f", x) + diverging - c * value
            lowest = jnp.where(jnp.allclose(a, a.T), jnp.linalg.eigvalsh(a)[0], jnp.nan) if a.ndim else a
            return Known(residual, value, self.flux(v)(x).reshape(-1), diverging, lowest, c)

        return at

    def constants(self, domain: Box) -> tuple[jax.Array, jax.Array] | None:
        """The diagonal of a, and c, where a is a constant diagonal matrix and c is a constant; else None."""
        if callable(self.a) or callable(self.c):
            return None
        a = jnp.asarray(self.a, domain.low.dtype)
        matrix = a if a.ndim == 2 else a.reshape(()) * jnp.eye(domain.low.size, dtype=a.dtype)
        diagonal = jnp.diag(matrix)
        return (diagonal, jnp.asarray(self.c, a.dtype)) if bool(jnp.all(matrix == jnp.diag(diagonal))) else None


class Known(NamedTuple):
    """What is known of a function v at points."""

    residual: jax.Array
    value: jax.Array
    flux: jax.Array
    diverging: jax.Array
    """The divergence of the flux, by differentiation."""
    a: jax.Array
    """The lowest eigenvalue of a; NaN where a is not symmetric."""
    c: jax.Array


def at_points(f: Function, *points: jax.Array) -> tuple[Any, ...]:
    """The values of a function, which may be pytrees, at several sets of points, a thousand points at a time."""
    run = jax.jit(jax.vmap(f))

    def values(x: jax.Array) -> Any:
        m = x.shape[0]
        whole = jnp.concatenate([x, jnp.broadcast_to(x[:1], (-m % CHUNK, *x.shape[1:]))])
        found = [run(part) for part in whole.reshape(-1, CHUNK, *x.shape[1:])]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts)[:m], *found)

    return tuple(map(values, points))
