"""The boundary of a box: faces in space, sides in the plane, the two ends of an interval."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ... import _check
from ._box import Box, box
from ._domain import AbstractDomain, MonteCarlo
from ._points import Points
from ._product import cross
from ._tensor import counts, gauss


class Boundary(AbstractDomain):
    """The points of a box with one coordinate at an end of its interval."""

    inside: Box

    @property
    def areas(self) -> jax.Array:
        """The area of one of the two faces across each coordinate."""
        return self.inside.volume / (self.inside.high - self.inside.low).reshape(-1)

    @property
    def volume(self) -> jax.Array:
        return 2 * jnp.sum(self.areas)

    def uniform(self, key: Any, n: int) -> jax.Array:
        """Uniform points of the box, moved to a face that is drawn by its area."""
        points, across, side = jax.random.split(key, 3)
        low, high = self.inside.low.reshape(1, -1), self.inside.high.reshape(1, -1)
        x = self.inside.uniform(points, n).reshape(n, -1)
        chosen = jax.random.choice(across, x.shape[1], (n,), p=self.areas / jnp.sum(self.areas))
        ends = jnp.where(jax.random.bernoulli(side, shape=(n, 1)), high, low)
        on_face = jnp.arange(x.shape[1])[None, :] == chosen[:, None]
        return jnp.where(on_face, ends, x).reshape(n, *self.inside.low.shape)


def boundary(low: Any, high: Any, n: int | Sequence[int] | None = None) -> Points:
    """Points on the boundary of a box, with weights that integrate its surface measure.

    Each face has its Gauss-Legendre rule: exact for polynomials of degree up to 2n - 1, and no point on an edge,
    where it would belong to two faces. The boundary of an interval is its two ends, each with weight 1.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per dimension, one for all or one each; an interval needs none.

    ```python
    sides = riesz.boundary((0, 0), (1, 1), 30)
    ```
    """
    domain = box(low, high)
    dimensions = domain.low.size
    if n is None and dimensions > 1:
        raise ValueError("n must be given: the number of points per dimension on every face.")
    rules = [gauss(*edge, c) for edge, c in zip(domain.edges, counts(1 if n is None else n, dimensions), strict=True)]
    one = jnp.ones_like(domain.low, shape=1)
    faces = [
        cross(*(Points(end.reshape(1), one, None) if axis == across else rule for axis, rule in enumerate(rules)))
        for across, ends in enumerate(domain.edges)
        for end in ends
    ]
    x, weights = (jnp.concatenate(parts) for parts in zip(*((face.x, face.weights) for face in faces), strict=True))
    return Points(x.reshape(-1, *domain.low.shape), weights, None, domain=Boundary(domain))


def monte_carlo_boundary(low: Any, high: Any, n: int) -> MonteCarlo:
    """Uniform points on the boundary of a box, drawn anew each step, with weights that sum to its area.

    **Arguments:**

    - `low`, `high`: the corners; numbers give scalar points, sequences vector points.
    - `n`: the number of points per step, on all faces together.

    ```python
    sides = riesz.monte_carlo_boundary((0, 0), (1, 1), 100)
    ```
    """
    return MonteCarlo(Boundary(box(low, high)), _check.count("n", n))
