r"""Lifting: a function on a box that has given values on its sides, made of these values alone."""

import jax

from .._types import Function
from .measures import Box


def lift(b: Function, domain: Box) -> Function:
    r"""Transfinite interpolation between the sides of a box.

    With the projections $P_i$ onto functions that are linear in $x_i$ between two sides, it is b less
    $\prod_i (I - P_i)\, b$.
    """
    parts = []
    for axis, edge in enumerate(domain.edges):
        parts.append(_between(b, axis, *edge))
        b = _less(b, parts[-1])
    return lambda x: sum(part(x) for part in parts)


def _between(b: Function, axis: int, low: jax.Array, high: jax.Array) -> Function:
    def linear(x: jax.Array) -> jax.Array:
        flat = x.reshape(-1)
        share = (flat[axis] - low) / (high - low)
        at = lambda end: b(flat.at[axis].set(end).reshape(x.shape))
        return (1 - share) * at(low) + share * at(high)

    return linear


def _less(b: Function, part: Function) -> Function:
    return lambda x: b(x) - part(x)


def inward(x: jax.Array, domain: Box) -> jax.Array:
    """Points, moved by a millionth of the way to the middle of the box."""
    return x + 1e-6 * ((domain.low + domain.high) / 2 - x)
