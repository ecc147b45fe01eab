"""Simple polygons of the plane, convex or not, and their boundaries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ._domain import AbstractDomain, MonteCarlo
from ._points import Points
from ._simplex import barycentric, rule
from ._triangulate import area, crossing, triangulate, turn


class Simplices(AbstractDomain):
    """Simplices of one kind that overlap nowhere, of shape (count, k + 1, n): triangles of a polygon, or its sides."""

    parts: jax.Array
    volumes: jax.Array

    @property
    def volume(self) -> jax.Array:
        return jnp.sum(self.volumes)

    def uniform(self, key: Any, n: int) -> jax.Array:
        """Uniform points of parts that are drawn by their volumes."""
        which, where = jax.random.split(key)
        chosen = jax.random.choice(which, self.parts.shape[0], (n,), p=self.volumes / self.volume)
        shares = barycentric(where, n, self.parts.shape[1] - 1, self.parts.dtype)
        return jnp.einsum("ji,jic->jc", shares, self.parts[chosen])

    def quadrature(self, n: int) -> Points:
        """The rule of `riesz.simplex` on every part."""
        # By NumPy, which compiles nothing for another number of parts.
        shares, weights = (np.asarray(part) for part in rule(self.parts.shape[1] - 1, n, self.parts.dtype))
        x = np.einsum("ji,sic->sjc", shares, self.parts).reshape(-1, self.parts.shape[2])
        weights = np.outer(self.volumes, weights).reshape(-1)
        return Points(jnp.asarray(x), jnp.asarray(weights), None, domain=self)


def _vertices(vertices: Any) -> tuple[np.ndarray, Any]:
    """The vertices of a simple polygon, in an order that turns to the left, and their dtype."""
    found = _check.floating("vertices", _check.number("vertices", vertices))
    if _check.is_traced(found):
        raise TypeError("vertices must be numbers, not traced by jax: the triangles of a polygon depend on them.")
    if found.ndim != 2 or found.shape[0] < 3 or found.shape[1] != 2:
        raise ValueError(f"vertices must be at least 3 points of the plane, but their shape is {found.shape}.")
    around = np.asarray(found, float)
    equal = np.argwhere(np.triu((around[:, None] == around[None]).all(axis=-1), 1))
    if equal.size:
        i, j = equal[0]
        raise ValueError(f"vertices must differ, but {i} and {j} are one point (the first is not repeated at the end).")
    if (turn(around[0], around[1], around) == 0).all():
        raise ValueError("vertices must be those of a polygon, but all of them lie on one line.")
    sides = crossing(around)
    if sides is not None:
        names = " and ".join(f"from {side} to {(side + 1) % len(around)}" for side in sides)
        raise ValueError(f"vertices must be those of a simple polygon, but its sides {names} touch or cross.")
    return around if area(around) > 0 else around[::-1], found.dtype


def _triangles(vertices: Any) -> Simplices:
    around, dtype = _vertices(vertices)
    parts = triangulate(around)
    areas = turn(*np.moveaxis(parts, 1, 0)) / 2
    return Simplices(jnp.asarray(parts, dtype), jnp.asarray(areas, dtype))


def polygon(vertices: Any, n: int) -> Points:
    r"""A quadrature on a simple polygon, convex or not, exact for polynomials of total degree up to 2n - 1.

    The polygon is cut into triangles, each with the n^2 points of `riesz.simplex`: all points lie inside, all weights
    are positive and sum to the area.

    **Arguments:**

    - `vertices`: points of the plane along the first axis, in order around the polygon, either way round.
    - `n`: the number of points per triangle and collapsed coordinate; k vertices give at most (k - 2) n^2 points.

    ```python
    corner = [(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)]  # an L
    loss = riesz.residual(riesz.laplacian, 1.0, riesz.polygon(corner, 15))
    ```
    """
    return _triangles(vertices).quadrature(_check.count("n", n))


def monte_carlo_polygon(vertices: Any, n: int) -> MonteCarlo:
    """Uniform points in a simple polygon, drawn anew each step, with weights that sum to its area.

    **Arguments:**

    - `vertices`: as for `riesz.polygon`.
    - `n`: the number of points per step.

    ```python
    over = riesz.monte_carlo_polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], 500)
    ```
    """
    return MonteCarlo(_triangles(vertices), _check.count("n", n))


def polygon_boundary(vertices: Any, n: int) -> Points:
    """A Gauss-Legendre rule on every side of a simple polygon, with weights that sum to their length.

    Exact for polynomials of degree up to 2n - 1, and no point is a vertex, where it would belong to two sides.

    **Arguments:**

    - `vertices`: as for `riesz.polygon`.
    - `n`: the number of points per side.

    ```python
    sides = riesz.polygon_boundary([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)], 20)
    ```
    """
    around, dtype = _vertices(vertices)
    sides = np.stack([around, np.roll(around, -1, axis=0)], axis=1)
    lengths = np.hypot(*(sides[:, 1] - sides[:, 0]).T)
    return Simplices(jnp.asarray(sides, dtype), jnp.asarray(lengths, dtype)).quadrature(_check.count("n", n))
