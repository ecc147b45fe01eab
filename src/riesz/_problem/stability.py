r"""How large a function can be that solves $-\nabla\cdot(a \nabla e) + c\, e = r$ with zero values on the boundary.

All constants are known. What enters is a box that holds the domain, its volume, and lower bounds of a and c.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .measures import Box

ZEROS = {1: np.pi / 2, 2: 2.404825557695773, 3: np.pi}
"""The first zero of the Bessel function of order n/2 - 1, whose square is the lowest eigenvalue of the unit ball."""

PEAKS = {1: 1 / np.sqrt(6), 2: 1 / np.sqrt(8 * np.pi), 3: 1 / np.sqrt(12 * np.pi)}
"""The L2 norm of Green's function of the unit ball at its centre."""


class Stability(eqx.Module):
    """Constants in front of norms of r."""

    first: jax.Array
    r"""A lower bound of the lowest eigenvalue: $\|e\|_{L2} \le \|r\|_{L2} / \lambda$, and the energy norm is at most
    $\|r\|_{L2} / \sqrt\lambda$."""
    by_largest: jax.Array
    r"""$\max |e| \le C \max |r|$."""
    by_norm: jax.Array
    r"""$\max |e| \le C \|r\|_{L2}$; infinite in more than three dimensions."""
    by_energy: jax.Array
    """max |e| is at most C times the energy norm; infinite in more than one dimension."""


def stability(domain: Box, volume: jax.Array, a: jax.Array, c: jax.Array, constant: bool) -> Stability:
    r"""The constants of a domain in a box.

    The lowest eigenvalue is at least that of the box, $\sum_i a_i \pi^2 / L_i^2 + c$ (Friedrichs), and that of the ball
    of the same volume (Faber and Krahn). The largest value is at most that on this ball (Talenti), 1/c (maximum
    principle), and, where a is constant, that between two parallel sides of the box, $L_i^2 / (8 a_i)$.

    **Arguments:**

    - `a`: numbers a_i such that the matrix a, less diag(a_i), is positive semidefinite everywhere.
    - `c`: a lower bound of c.
    - `constant`: whether a is diag(a_i) everywhere.
    """
    n = a.size
    sides = (domain.high - domain.low).reshape(-1)
    mean = jnp.exp(jnp.mean(jnp.log(a)))  # coordinates x_i / sqrt(a_i) make a the identity
    radius = (volume / (np.pi ** (n / 2) / math.gamma(n / 2 + 1))) ** (1 / n)
    first = jnp.sum(a * (np.pi / sides) ** 2)
    largest = jnp.minimum(radius**2 / (2 * n * mean), jnp.where(c > 0, 1 / jnp.where(c > 0, c, 1), jnp.inf))
    if constant:
        largest = jnp.minimum(largest, jnp.min(sides**2 / (8 * a)))
    none = jnp.asarray(jnp.inf)
    return Stability(
        first=jnp.maximum(first, mean * (ZEROS[n] / radius) ** 2 if n in ZEROS else 0.0) + c,
        by_largest=largest,
        by_norm=PEAKS[n] * radius ** (2 - n / 2) / mean if n in PEAKS else none,
        by_energy=jnp.sqrt(sides[0] / a[0]) / 2 if n == 1 else none,
    )
