"""Domains in which uniform points can be drawn, boxes first, and the measure that draws them anew each step."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ._points import AbstractMeasure, Points


class AbstractDomain(eqx.Module):
    """A set of finite volume in which uniform points can be drawn."""

    @property
    @abc.abstractmethod
    def volume(self) -> jax.Array:
        """Its length, area or volume."""

    @abc.abstractmethod
    def uniform(self, key: Any, n: int) -> jax.Array:
        """Uniform points of it, n of them along the first axis."""


class MonteCarlo(AbstractMeasure):
    """n uniform points on a domain, drawn anew each step, each with weight volume / n."""

    domain: AbstractDomain
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
        return Points(self.domain.uniform(key, self.n), jnp.full(self.n, self.domain.volume / self.n), None)


class Box(AbstractDomain):
    """The points between two corners: shape () for scalar points, (n,) for vector points."""

    low: jax.Array
    high: jax.Array

    @property
    def volume(self) -> jax.Array:
        return jnp.prod(self.high - self.low)

    @property
    def edges(self) -> list[tuple[jax.Array, jax.Array]]:
        """The interval of every coordinate."""
        return list(zip(self.low.reshape(-1), self.high.reshape(-1), strict=True))

    def uniform(self, key: Any, n: int) -> jax.Array:
        return jax.random.uniform(key, (n, *self.low.shape), self.low.dtype, self.low, self.high)

    def fill(self, unit: jax.Array) -> jax.Array:
        """Points of the unit box, of shape (m, n), moved into this one."""
        low, high = self.low.reshape(1, -1), self.high.reshape(1, -1)
        return (low + (high - low) * unit.astype(low.dtype)).reshape(-1, *self.low.shape)


def box(low: Any, high: Any) -> Box:
    """The box between the corners that a user gave."""
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
    return Box(low, high)


def monte_carlo(low: Any, high: Any, n: int) -> MonteCarlo:
    """Uniform points on a box, drawn anew each step, with weights that sum to the volume.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per step.

    ```python
    loss = riesz.residual(riesz.laplacian, source, riesz.monte_carlo((0, 0), (1, 1), 500))
    ```
    """
    return MonteCarlo(box(low, high), _check.count("n", n))
