"""Boxes: uniform points drawn anew each step, and low-discrepancy points."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ._domain import AbstractDomain, MonteCarlo
from ._points import AbstractMeasure, Points


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
    low, high = (_check.array(name, _check.number(name, corner)) for name, corner in (("low", low), ("high", high)))
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
    found = Box(low, high)
    for edge in found.edges:
        _check.ordered(*edge)
    return found


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


def _sequence(dimensions: int, n: int, seed: int | None) -> jax.Array:
    """The first n points of Sobol's sequence in the unit box, scrambled where there is a seed."""
    from scipy.stats import qmc  # here, because it takes a second to import

    # SciPy warns unless it is asked for a power of two.
    points = qmc.Sobol(dimensions, scramble=seed is not None, rng=seed).random_base2((n - 1).bit_length())
    return jnp.asarray(points[:n])


def sobol(low: Any, high: Any, n: int, seed: int = 0) -> Points:
    """The first n points of Sobol's low-discrepancy sequence on a box, with equal weights that sum to the volume.

    They fill the box more evenly than random points, in any dimension: for smooth functions errors fall almost like
    1/n, not like 1/sqrt(n). Powers of two are best.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points.
    - `seed`: the seed of the scrambling, a random change that keeps points evenly spread and off the corners.

    ```python
    over = riesz.sobol((0,) * 5, (1,) * 5, 1024)
    ```
    """
    domain, n = box(low, high), _check.count("n", n)
    x = domain.fill(_sequence(domain.low.size, n, _check.count("seed", seed, least=0)))
    return dataclasses.replace(domain.evenly(x), domain=domain)


class QuasiMonteCarlo(AbstractMeasure):
    """Evenly spread points of the unit box, all shifted by one random vector modulo 1, then moved into a box."""

    domain: Box = eqx.field()
    unit: jax.Array
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, at: Any = None) -> Points:
        """Freshly shifted points; each by itself is uniform, so integrals are unbiased."""
        shift = jax.random.uniform(key, (1, self.unit.shape[1]), self.unit.dtype)
        return self.domain.evenly(self.domain.fill((self.unit + shift) % 1))


def quasi_monte_carlo(low: Any, high: Any, n: int) -> QuasiMonteCarlo:
    """Sobol's points on a box, shifted at random each step, with weights that sum to the volume.

    Integrals are unbiased, as with `riesz.monte_carlo`, and have far less variance where functions are smooth. The
    shift is that of Cranley and Patterson: one uniform vector for all points, modulo the box.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per step; powers of two are best.

    ```python
    loss = riesz.residual(riesz.laplacian, source, riesz.quasi_monte_carlo((0, 0), (1, 1), 512))
    ```
    """
    domain = box(low, high)
    unit = _sequence(domain.low.size, _check.count("n", n), None)
    return QuasiMonteCarlo(domain, unit.astype(domain.low.dtype))
