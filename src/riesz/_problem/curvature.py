"""The second derivative of a density: zero, the identity, diagonal or full, read off its traced program.

Where each entry of l''(z) t depends on no entry of t but its own, l'' is diagonal, and one product with the vector of
ones gives it: nothing of size p x p is ever formed, however many values a point has.
"""

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import Literal

from .. import _check
from .programs import is_entrywise, needed, reached


class Curvature(enum.Enum):
    """What is known of l''(z) before any z is."""

    ZERO = "zero for every z: the density is linear"
    IDENTITY = "the identity for every z, as for least squares"
    DIAGONAL = "diagonal"
    FULL = "a p x p matrix"


def product(density: Callable[..., Any], direction: jax.Array, z: jax.Array, *data: Any) -> jax.Array:
    """The product l''(z) t with a direction t."""
    return jax.jvp(lambda z: jax.grad(density)(z, *data), (z,), (direction,))[1]


def diagonal(density: Callable[..., Any], z: jax.Array, *data: Any) -> jax.Array:
    """The diagonal of l''(z) where it is diagonal: the product l''(z) 1."""
    return product(density, jnp.ones_like(z), z, *data)


def curvature_of(density: Callable[..., Any], z: jax.ShapeDtypeStruct, *data: Any) -> Curvature:
    """What l'' is, from the shapes of z and, where the density takes them, the data of one point.

    It is remembered for a plain function of z alone, of which several checks ask; another density may hold numbers that
    decide it.
    """
    plain = isinstance(density, types.FunctionType) and density.__closure__ is None and not data
    return _remembered(density, z.shape, z.dtype) if plain else _looked_at(density, z, *data)


@functools.lru_cache(maxsize=32)
def _remembered(density: Callable[..., Any], shape: tuple[int, ...], dtype: Any) -> Curvature:
    return _looked_at(density, jax.ShapeDtypeStruct(shape, dtype))


def _looked_at(density: Callable[..., Any], z: jax.ShapeDtypeStruct, *data: Any) -> Curvature:
    """What the traced program of l'' shows."""
    program = jax.make_jaxpr(lambda *a: product(density, *a))(z, z, *data).jaxpr
    is_diagonal = z.size == 1 or is_entrywise(program, [v is program.invars[0] for v in program.invars])
    second = (lambda *a: diagonal(density, *a)) if is_diagonal else jax.hessian(density)
    fixed = _constant(second, z, *data)
    if fixed is not None and not fixed.any():
        return Curvature.ZERO
    expected = np.ones(z.size) if is_diagonal else np.eye(z.size).reshape(-1)
    if fixed is not None and np.array_equal(fixed, expected):
        return Curvature.IDENTITY
    return Curvature.DIAGONAL if is_diagonal else Curvature.FULL


def is_quadratic(density: Callable[..., Any], z: jax.ShapeDtypeStruct, *data: Any) -> bool:
    """Whether the traced program shows that l''(z) is the same for every z, whatever it is for other data."""
    program = jax.make_jaxpr(lambda z, *data: diagonal(density, z, *data))(z, *data).jaxpr
    return not reached(program, program.invars[:1]).intersection(_variables(program.outvars))


def _constant(f: Callable[..., Any], *arguments: Any) -> np.ndarray | None:
    """The entries of a function's value where the traced program shows that it depends on no argument; else None."""
    closed = jax.make_jaxpr(f)(*arguments)
    depends = reached(closed.jaxpr, closed.jaxpr.invars).intersection(_variables(closed.jaxpr.outvars))
    if any(_check.is_traced(c) for c in closed.consts) or depends:
        return None
    zeros = [np.zeros(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
    with jax.ensure_compile_time_eval():
        (value,) = eval_jaxpr(closed.jaxpr.replace(eqns=needed(closed.jaxpr)), closed.consts, *zeros)
        return np.asarray(value).reshape(-1)


def _variables(outputs: Any) -> list[Any]:
    """Those outputs of a program that are not literal numbers."""
    return [v for v in outputs if not isinstance(v, Literal)]
