"""Low-discrepancy points on boxes, fixed or shifted anew each step."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ... import _check
from ._domain import Box, box
from ._points import AbstractMeasure, Points


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
    return Points(x, jnp.full(n, domain.volume / n), None)


class QuasiMonteCarlo(AbstractMeasure):
    """Evenly spread points of the unit box, all shifted by one random vector modulo 1, then moved into a box."""

    domain: Box
    unit: jax.Array
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
        """Freshly shifted points; each by itself is uniform, so integrals are unbiased."""
        n, dimensions = self.unit.shape
        shift = jax.random.uniform(key, (1, dimensions), self.unit.dtype)
        return Points(self.domain.fill((self.unit + shift) % 1), jnp.full(n, self.domain.volume / n), None)


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
