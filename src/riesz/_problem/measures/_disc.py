"""Discs of the plane, and their boundaries, the circles."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from ... import _check
from ._domain import AbstractDomain, MonteCarlo
from ._points import Points
from ._tensor import gauss_jacobi


class Disc(AbstractDomain):
    """The points of the plane whose distance from the centre is at most the radius."""

    centre: jax.Array
    radius: jax.Array

    @property
    def volume(self) -> jax.Array:
        return jnp.pi * self.radius**2

    def at(self, share: jax.Array, angle: jax.Array) -> jax.Array:
        """The points with this share of the disc's area closer to the centre, in this direction."""
        direction = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        return self.centre[None, :] + (self.radius * jnp.sqrt(share))[:, None] * direction

    def uniform(self, key: Any, n: int) -> jax.Array:
        share, angle = jax.random.uniform(key, (2, n), self.centre.dtype)
        return self.at(share, 2 * jnp.pi * angle)


class Circle(AbstractDomain):
    """The boundary of a disc."""

    inside: Disc

    @property
    def volume(self) -> jax.Array:
        return 2 * jnp.pi * self.inside.radius

    def uniform(self, key: Any, n: int) -> jax.Array:
        angle = 2 * jnp.pi * jax.random.uniform(key, (n,), self.inside.centre.dtype)
        return self.inside.at(jnp.ones_like(angle), angle)


def _disc(centre: Any, radius: Any) -> Disc:
    middle = _check.floating("centre", _check.number("centre", centre))
    if middle.shape != (2,):
        raise ValueError(f"centre must be a point of the plane, two numbers, but its shape is {middle.shape}.")
    found = _check.array("radius", _check.scalar("radius", radius, above=0.0))
    if jnp.issubdtype(found.dtype, jnp.floating) and not found.weak_type and found.dtype != middle.dtype:
        raise TypeError(f"centre and radius must have one dtype, but they are {middle.dtype} and {found.dtype}.")
    return Disc(middle, found.astype(middle.dtype))


def disc(centre: Any, radius: Any, n: int) -> Points:
    r"""A quadrature on a disc of the plane, exact for polynomials of total degree up to 2n - 1.

    2n equispaced points on each of n/2 circles, rounded up, whose squared radii are Gauss-Legendre points. All points
    lie inside, all weights are positive and sum to the area.

    **Arguments:**

    - `centre`: two numbers.
    - `radius`: a positive number.
    - `n`: half the number of points per circle, and twice that of circles.

    ```python
    loss = riesz.residual(riesz.laplacian, 1.0, riesz.disc((0, 0), 1, 30))
    ```
    """
    domain, n = _disc(centre, radius), _check.count("n", n)
    # A polynomial of degree 2n - 1 has, on average over an angle, n - 1 as its degree in the squared radius.
    rings = gauss_jacobi(-(-n // 2), 0, domain.centre.dtype)
    ring, place = (index.reshape(-1) for index in jnp.indices((rings.x.shape[0], 2 * n)))
    angle = (jnp.pi / n) * (place + 0.5 * (ring % 2)).astype(domain.centre.dtype)
    weights = domain.volume / (2 * n) * rings.weights[ring]
    return Points(domain.at(rings.x[ring], angle), weights, None, domain=domain)


def monte_carlo_disc(centre: Any, radius: Any, n: int) -> MonteCarlo:
    """Uniform points in a disc of the plane, drawn anew each step, with weights that sum to its area.

    **Arguments:**

    - `centre`: two numbers.
    - `radius`: a positive number.
    - `n`: the number of points per step.

    ```python
    over = riesz.monte_carlo_disc((0, 0), 1, 500)
    ```
    """
    return MonteCarlo(_disc(centre, radius), _check.count("n", n))


def circle(centre: Any, radius: Any, n: int) -> Points:
    """Equispaced points on a circle, with equal weights that sum to its length.

    Exact for polynomials of total degree below n; for smooth functions errors fall faster than any power of n.

    **Arguments:**

    - `centre`: two numbers.
    - `radius`: a positive number.
    - `n`: the number of points.

    ```python
    loss = riesz.residual(riesz.identity, 0.0, riesz.circle((0, 0), 1, 50))
    ```
    """
    domain, n = Circle(_disc(centre, radius)), _check.count("n", n)
    angle = (2 * math.pi / n) * jnp.arange(n, dtype=domain.inside.centre.dtype)
    over = domain.evenly(domain.inside.at(jnp.ones_like(angle), angle))
    return Points(over.x, over.weights, None, domain=domain)
