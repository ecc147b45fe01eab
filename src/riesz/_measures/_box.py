"""Measures on boxes; they integrate dx, so that weights sum to the volume."""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from ._base import AbstractMeasure
from ._points import Points


def _box(low: Any, high: Any) -> tuple[jax.Array, jax.Array]:
    """The two corners: shape () for scalar points, (n,) for vector points."""
    _check.number("low", low)
    _check.number("high", high)
    low, high = _check.array("low", low), _check.array("high", high)
    strict = [corner.dtype for corner in (low, high) if jnp.issubdtype(corner.dtype, jnp.floating)]
    if len(set(strict)) > 1 and not (low.weak_type or high.weak_type):
        raise TypeError(f"low and high must have one dtype, but they are {low.dtype} and {high.dtype}.")
    dtype = jnp.result_type(low, high, float)
    low, high = low.astype(dtype), high.astype(dtype)
    if low.shape != high.shape or low.ndim > 1 or low.size == 0:
        raise ValueError(
            f"low and high must be two numbers or two sequences of one length, "
            f"but their shapes are {low.shape} and {high.shape}."
        )
    if not (_check.is_traced(low) or _check.is_traced(high)):
        for a, b in zip(np.ravel(low), np.ravel(high), strict=True):
            if not a < b:
                raise ValueError(f"low must lie below high, but they are {a} and {b}.")
    return low, high


def grid(low: Any, high: Any, n: int | Sequence[int]) -> Points:
    """Equispaced points on a box, end points included, with equal weights that sum to the volume.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per dimension, one for all or one each.

    ```python
    riesz.grid(0.0, 1.0, 1000), riesz.grid((0, 0), (1, 1), 30)
    ```
    """
    low, high = _box(low, high)
    dimensions = low.size
    counts = list(n) if isinstance(n, Sequence) else [n] * dimensions
    if len(counts) != dimensions:
        raise ValueError(f"n must be one number or one per dimension ({dimensions}), but it is {_check.shown(n)}.")
    counts = [_check.count("n", c) for c in counts]
    axes = [jnp.linspace(a, b, c) for a, b, c in zip(low.reshape(-1), high.reshape(-1), counts, strict=True)]
    mesh = jnp.stack([axis.reshape(-1) for axis in jnp.meshgrid(*axes, indexing="ij")], axis=-1)
    total = math.prod(counts)
    weights = jnp.full(total, jnp.prod(high - low) / total)
    return Points(mesh.reshape((total, *low.shape)), weights, None)


class MonteCarlo(AbstractMeasure):
    """n uniform points on a box, drawn anew each step, each with weight volume / n."""

    low: jax.Array
    high: jax.Array
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
        """Fresh uniform points."""
        x = jax.random.uniform(key, (self.n, *self.low.shape), self.low.dtype, self.low, self.high)
        return Points(x, jnp.full(self.n, jnp.prod(self.high - self.low) / self.n), None)


def monte_carlo(low: Any, high: Any, n: int) -> MonteCarlo:
    """Uniform points on a box, drawn anew each step, with weights that sum to the volume.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points of a step.

    ```python
    loss = riesz.residual(riesz.laplacian, source, riesz.monte_carlo((0, 0), (1, 1), 500))
    ```
    """
    return MonteCarlo(*_box(low, high), n=_check.count("n", n))
