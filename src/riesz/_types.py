"""The types that the whole package speaks."""

from collections.abc import Callable
from typing import Any, TypeAlias

from jaxtyping import Array, Float, PRNGKeyArray, Shaped

Vector: TypeAlias = Float[Array, " d"]
"""Parameters theta, tangent coefficients delta, covectors: elements of R^d."""

Rows: TypeAlias = Float[Array, "rows d"]
"""The weighted rows Psi of a tangent space."""

Key: TypeAlias = PRNGKeyArray | Shaped[Array, "2"]

Function: TypeAlias = Callable[[Any], Any]
"""A function v in V: a Python function from a point to a scalar or a vector."""

Parametrisation: TypeAlias = Callable[[Any], Function]
"""D: `D(theta)` returns a function."""

Operator: TypeAlias = Callable[[Function], Function]
"""A or L_x: `A(v)` is a function."""
