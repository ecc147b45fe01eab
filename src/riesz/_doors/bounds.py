"""Bounds as users give them, as a box of parameters."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.auto import Auto, Box
from .._methods.schemes import AbstractMethod
from .._problem.parametrise import Layout
from .._types import Vector


def _side(name: str, bound: Any, layout: Layout, params: Any, dtype: Any, default: float) -> jax.Array:
    """One side of the bounds as a vector, from a number, an array, or a pytree of the structure of params."""
    # None is no bound, alone or for single parameters.
    bound = jax.tree.map(lambda side: default if side is None else side, bound, is_leaf=lambda side: side is None)
    if jax.tree.structure(bound) != layout.treedef:
        if jax.tree.structure(bound) != jax.tree.structure(0.0) and not isinstance(bound, list | tuple):
            raise ValueError(f"{name} of bounds must be a number, or have the structure of params.")
        bound = np.asarray(bound, float)
        sizes = sum(np.size(leaf) for leaf in jax.tree.leaves(params))
        if bound.ndim and bound.size != sizes:
            raise ValueError(f"{name} of bounds must be one number, or one per parameter ({sizes}), not {bound.shape}.")
        vector = np.broadcast_to(np.ravel(bound), sizes) if bound.ndim else np.full(sizes, bound)
    else:
        pairs = zip(jax.tree.leaves(bound), layout.shapes, strict=True)
        vector = np.concatenate([np.broadcast_to(np.asarray(side, float), shape).ravel() for side, shape in pairs])
    if np.isnan(vector).any():
        raise ValueError(f"{name} of bounds must not be NaN.")
    return jnp.asarray(vector, dtype)


def as_box(bounds: Any, layout: Layout, params: Any, theta0: Vector, name: str) -> Box | None:
    """The box that bounds describe, with the start, of the given name, in it; None where there are no bounds."""
    if bounds is None:
        return None
    sides = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") and hasattr(bounds, "ub") else bounds
    if not isinstance(sides, tuple | list) or len(sides) != 2:
        raise ValueError(f"bounds must be a pair (low, high), not {_check.shown(bounds)}.")
    low = _side("low", sides[0], layout, params, theta0.dtype, -np.inf)
    high = _side("high", sides[1], layout, params, theta0.dtype, np.inf)
    if not bool(jnp.all(low < high)):
        at = int(jnp.argmin(low < high))
        raise ValueError(
            f"low must lie below high in bounds, but for parameter {at} they are {low[at]} and {high[at]}."
        )
    inside = (low <= theta0) & (theta0 <= high)
    if not bool(jnp.all(inside)):
        at = int(jnp.argmin(inside))
        raise ValueError(f"{name} must lie within bounds, but parameter {at} is {theta0[at]}, not in "
                         f"[{low[at]}, {high[at]}].")  # fmt: skip
    return None if bool(jnp.all(jnp.isinf(low) & jnp.isinf(high))) else Box(low, high)


def bounded(method: AbstractMethod, box: Box | None) -> AbstractMethod:
    """The method within a box."""
    if box is None:
        return method
    if not isinstance(method, Auto):
        raise ValueError("method must be riesz.auto() where there are bounds: other methods know none.")
    return dataclasses.replace(method, box=box)
