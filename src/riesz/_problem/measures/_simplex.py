"""Simplices: segments, triangles, tetrahedra, in a space of their own dimension or a higher one."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ._domain import AbstractDomain, MonteCarlo
from ._points import Points
from ._product import cross
from ._tensor import gauss_jacobi


class Simplex(AbstractDomain):
    """The convex hull of k + 1 vertices, given as rows; numbers are the two ends of a segment."""

    vertices: jax.Array

    @property
    def dimension(self) -> int:
        """The dimension k of the simplex, which may be lower than that of the space."""
        return self.vertices.shape[0] - 1

    @property
    def heights(self) -> jax.Array:
        """The distance of each vertex from the flat through those before it; their product is k! times the volume."""
        rows = self.vertices.reshape(self.dimension + 1, -1)
        return jnp.abs(jnp.diagonal(jnp.linalg.qr((rows[1:] - rows[:1]).T, mode="r")))

    @property
    def volume(self) -> jax.Array:
        return jnp.prod(self.heights) / math.factorial(self.dimension)

    def uniform(self, key: Any, n: int) -> jax.Array:
        return barycentric(key, n, self.dimension, self.vertices.dtype) @ self.vertices


def barycentric(key: Any, n: int, k: int, dtype: Any) -> jax.Array:
    """The barycentric coordinates of uniform points: exponential variables divided by their sum."""
    exponential = jax.random.exponential(key, (n, k + 1), dtype)
    return exponential / jnp.sum(exponential, axis=1, keepdims=True)


def rule(k: int, n: int, dtype: Any) -> tuple[jax.Array, jax.Array]:
    """The barycentric coordinates of n^k points of a k-dimensional simplex, and their weights, which sum to one."""
    # t_i is the share that vertex i takes of what the vertices before it left over; (1 - t_i)^(k-i) is its density.
    shares = cross(*(gauss_jacobi(n, k - i, dtype) for i in range(1, k + 1)))
    ones = jnp.ones_like(shares.x[:, :1])
    left = jnp.concatenate([ones, jnp.cumprod(1 - shares.x, axis=1)], axis=1)
    return left * jnp.concatenate([shares.x, ones], axis=1), shares.weights


def _simplex(vertices: Any) -> Simplex:
    domain = Simplex(_check.floating("vertices", _check.number("vertices", vertices)))
    shape = domain.vertices.shape
    space = shape[1] if len(shape) == 2 else 1
    if len(shape) not in (1, 2) or not 2 <= shape[0] <= space + 1:
        raise ValueError(f"vertices must be 2 to n + 1 points of R^n along the first axis, but its shape is {shape}.")
    if not _check.is_traced(domain.vertices):
        heights = np.asarray(domain.heights)
        rounding = 10 * np.finfo(heights.dtype).eps * np.abs(np.asarray(domain.vertices)).max()
        if heights.min() <= rounding:
            raise ValueError("vertices must span a simplex, but one of them lies in the flat through the others.")
    return domain


def simplex(vertices: Any, n: int) -> Points:
    r"""A quadrature on a simplex, exact for polynomials of total degree up to 2n - 1.

    A product of n Gauss-Jacobi points in each of k collapsed coordinates, n^k in all: inside the simplex, with
    positive weights that sum to its k-dimensional volume.

    **Arguments:**

    - `vertices`: k + 1 points of R^n along the first axis, k at most n: a triangle of the plane or of space, a
      tetrahedron. Two numbers are a segment with scalar points.
    - `n`: the number of points per collapsed coordinate.

    ```python
    triangle = riesz.simplex([(0, 0), (1, 0), (0, 1)], 10)
    ```
    """
    domain, n = _simplex(vertices), _check.count("n", n)
    shares, weights = rule(domain.dimension, n, domain.vertices.dtype)
    return Points(shares @ domain.vertices, domain.volume * weights, None, domain=domain)


def monte_carlo_simplex(vertices: Any, n: int) -> MonteCarlo:
    """Uniform points in a simplex, drawn anew each step, with weights that sum to its volume.

    **Arguments:**

    - `vertices`: as for `riesz.simplex`.
    - `n`: the number of points per step.

    ```python
    triangle = riesz.monte_carlo_simplex([(0, 0), (1, 0), (0, 1)], 500)
    ```
    """
    return MonteCarlo(_simplex(vertices), _check.count("n", n))
