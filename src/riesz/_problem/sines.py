r"""Products of sines, the eigenfunctions on a box of $-\sum_i a_i \partial_i^2 + c$ with constant coefficients."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .measures import Box

SPHERES = (2.0, 2 * np.pi, 4 * np.pi)
"""The area of the unit sphere in one, two and three dimensions."""


class Sines(eqx.Module):
    """The first products of sines on a box of at most three dimensions, with unit norm in L2."""

    domain: Box
    a: jax.Array
    """The constants a_i, one per coordinate."""
    c: jax.Array
    count: int = eqx.field(static=True)
    """How many sines there are in every coordinate."""

    @property
    def frequencies(self) -> jax.Array:
        r"""$\sqrt{a_i}\, k\, \pi / L_i$, of shape (n, count)."""
        sides = (self.domain.high - self.domain.low).reshape(-1, 1)
        return jnp.sqrt(self.a)[:, None] * jnp.pi * jnp.arange(1, self.count + 1)[None, :] / sides

    @property
    def eigenvalues(self) -> jax.Array:
        """One for every product, with one axis per coordinate."""
        add = lambda sums, squares: sums[..., None] + jnp.expand_dims(squares, tuple(range(sums.ndim)))
        return functools.reduce(add, self.frequencies**2) + self.c

    @property
    def beyond(self) -> jax.Array:
        """The lowest eigenvalue of all other products."""
        first = self.frequencies[:, 0]
        lowest = jnp.sum(first**2) + jnp.min(((self.count + 1) ** 2 - 1) * first**2)
        return lowest + self.c

    @property
    def tallest(self) -> jax.Array:
        """The largest value of each product."""
        return jnp.sqrt(2.0**self.a.size / self.domain.volume)

    @property
    def tail(self) -> jax.Array:
        r"""At least $\max_x (\sum_k \phi_k(x)^2 / \Lambda_k^2)^{1/2}$ over all other products.

        The sum over k is at most the integral of $|y|^{-4}$, $y_i = \sqrt{a_i}\, \pi k_i / L_i$, outside the ball that
        the cube of the first frequencies holds.
        """
        n, first = self.a.size, self.frequencies[:, 0]
        outside = SPHERES[n - 1] / 2**n * jnp.min(self.count * first) ** (n - 4) / (4 - n)
        return self.tallest * jnp.sqrt(outside / jnp.prod(first))

    def matrices(self, axes: tuple[jax.Array, ...]) -> list[jax.Array]:
        """The sines of every coordinate at the nodes of its axis."""
        edges = self.domain.edges
        angle = lambda x, low, high: jnp.pi * ((x - low) / (high - low))[:, None] * jnp.arange(1, self.count + 1)[None]
        return [jnp.sqrt(2 / (b - a)) * jnp.sin(angle(x, a, b)) for x, (a, b) in zip(axes, edges, strict=True)]

    def largest(self, coefficients: jax.Array) -> jax.Array:
        r"""At least the largest absolute value of a combination.

        A trigonometric polynomial of degree N is at most $1 / \cos(\pi N / m)$ times its largest value at m equispaced
        points of its period (Ehlich and Zeller); here m is 32 N.
        """
        axes = tuple(jnp.linspace(*edge, 16 * self.count + 1) for edge in self.domain.edges)
        values = transform(coefficients, [matrix.T for matrix in self.matrices(axes)])
        return jnp.max(jnp.abs(values)) / np.cos(np.pi / 32) ** self.a.size


def transform(values: jax.Array, matrices: list[jax.Array]) -> jax.Array:
    """An array with each of its axes multiplied by a matrix."""
    for matrix in matrices:
        values = jnp.tensordot(values, matrix, axes=(0, 0))
    return values
