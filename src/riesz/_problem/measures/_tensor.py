"""Fixed quadratures on boxes, products of a rule in every coordinate, with weights that sum to the volume."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from scipy.special import roots_jacobi

from ... import _check
from ._box import Box, box
from ._points import Points
from ._product import cross


def gauss_jacobi(n: int, power: int, dtype: Any) -> Points:
    """The n points in (0, 1) that integrate polynomials of degree 2n - 1 against a multiple of (1 - t)^power.

    Weights sum to 1. Power 0 is the rule of Gauss and Legendre.
    """
    nodes, weights = roots_jacobi(n, power, 0)
    return Points(jnp.asarray((nodes + 1) / 2, dtype), jnp.asarray(weights / weights.sum(), dtype), None)


def gauss(low: jax.Array, high: jax.Array, n: int) -> Points:
    """The Gauss-Legendre rule on an interval."""
    unit = gauss_jacobi(n, 0, low.dtype)
    return Points(low + (high - low) * unit.x, (high - low) * unit.weights, None)


def _equispaced(low: jax.Array, high: jax.Array, n: int) -> Points:
    return Points(jnp.linspace(low, high, n), jnp.full(n, (high - low) / n), None)


def counts(n: Any, dimensions: int) -> list[int]:
    """The number of points in every dimension."""
    each = list(n) if isinstance(n, Sequence) and not isinstance(n, str) else [n] * dimensions
    if len(each) != dimensions:
        raise ValueError(f"n must be one number or one per dimension ({dimensions}), but it is {_check.shown(n)}.")
    return [_check.count("n", c) for c in each]


def _tensor(domain: Box, n: Any, rule: Callable[[jax.Array, jax.Array, int], Points]) -> Points:
    """The product of a rule in every coordinate."""
    axes = [rule(*edge, c) for edge, c in zip(domain.edges, counts(n, domain.low.size), strict=True)]
    over = cross(*axes)
    return Points(over.x.reshape(-1, *domain.low.shape), over.weights, None, domain=domain)


def grid(low: Any, high: Any, n: int | Sequence[int]) -> Points:
    """Equispaced points on a box, end points included, with equal weights that sum to the volume.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per dimension, one for all or one each.

    ```python
    riesz.grid(0.0, 1.0, 1000), riesz.grid((0, 0), (1, 1), 30)
    ```
    """
    return _tensor(box(low, high), n, _equispaced)


def gauss_legendre(low: Any, high: Any, n: int | Sequence[int]) -> Points:
    """Gauss-Legendre points on a box, exact for polynomials of degree up to 2n - 1 in every coordinate.

    All points lie inside, all weights are positive and sum to the volume.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per dimension, one for all or one each.

    ```python
    riesz.gauss_legendre(0.0, 1.0, 20), riesz.gauss_legendre((0, 0), (1, 2), (20, 40))
    ```
    """
    return _tensor(box(low, high), n, gauss)
