"""The first of several values whose condition holds."""

from typing import Any

import jax


def choose(*cases: tuple[Any, Any]) -> Any:
    """The first value whose condition holds; the values are pytrees of one structure, and the last one's must hold."""
    (condition, value), *rest = cases
    # Not jnp.where, which broadcasts and so takes three times as long to trace.
    return jax.tree.map(lambda a, b: jax.lax.select(condition, a, b), value, choose(*rest)) if rest else value
