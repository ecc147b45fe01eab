"""The first of several values whose condition holds."""

from typing import Any

import jax
import jax.numpy as jnp


def choose(*cases: tuple[Any, Any]) -> Any:
    """The first value whose condition holds; the values are pytrees of one structure, and the last one's must hold."""
    (condition, value), *rest = cases
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), value, choose(*rest)) if rest else value
