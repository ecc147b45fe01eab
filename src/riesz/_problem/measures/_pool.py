"""Points of a pool, drawn anew each step: mini-batches, and Christoffel points, where the tangent space needs them."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._linalg.rows import Stored
from ..._linalg.solvers import QRSVD
from ._domain import AbstractDomain
from ._points import AbstractMeasure, Points


class Minibatch(AbstractMeasure):
    """n of m points without replacement, drawn anew each step; weights w_j m/n keep integrals unbiased."""

    points: Points
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, at: Any = None) -> Points:
        m = self.points.x.shape[0]
        chosen = jax.random.choice(key, m, (self.n,), replace=False)
        return (m / self.n) * self.points.take(chosen)


def minibatch(points: Points, n: int) -> Minibatch:
    """Mini-batches of n of the given points, drawn anew each step without replacement.

    **Arguments:**

    - `points`: what `riesz.points` or `riesz.grid` returned.
    - `n`: the batch size.

    ```python
    loss = riesz.least_squares(riesz.minibatch(riesz.points(x, data=y), 64))
    ```
    """
    _check.kind("points", points, Points, "fixed points, such as riesz.points(x, data=y)")
    m = points.x.shape[0]
    if _check.count("n", n) > m:
        raise ValueError(f"n must be at most the number of points, {m}, but it is {n}.")
    return Minibatch(points, int(n))


class Christoffel(AbstractMeasure):
    """n points of a pool, drawn each step with replacement, by their leverage in the current tangent space."""

    pool: Points
    n: int = eqx.field(static=True)
    uniform: jax.Array
    cutoff: jax.Array
    drawn: ClassVar[bool] = True

    @property
    def domain(self) -> AbstractDomain | None:
        return self.pool.domain

    @property
    def count(self) -> int:
        return self.n

    def draw(self, key: Any, at: Any = None) -> Points:
        if at is None:
            raise ValueError("at must be given, because Christoffel points follow the tangent space.")
        law = self.law(at.features(self.pool.x))
        chosen = jax.random.choice(key, law.shape[0], (self.n,), p=law)
        return (1 / (self.n * law[chosen])) * self.pool.take(chosen)

    def law(self, rows: jax.Array) -> jax.Array:
        """The probability of every point of the pool, from the tangent rows of shape (m, p, d)."""
        m, p, d = rows.shape
        weights = self.pool.weights
        even = weights / jnp.sum(weights)
        psi = (jnp.sqrt(weights)[:, None, None] * rows).reshape(m * p, d)
        leverage = jnp.sum(QRSVD()(Stored(psi)).leverage(self.cutoff).reshape(m, p), axis=1)
        total = jnp.sum(leverage)
        # Without parameters, and where all rows are zero or some overflow, points are drawn by their weights.
        leading = jnp.where(total > 0, leverage / total, even)
        return self.uniform * even + (1 - self.uniform) * leading


def christoffel(pool: Points, n: int, uniform: Any = 0.1, cutoff: Any = 1e-8) -> Christoffel:
    r"""Points drawn each step where the current tangent space needs them, with weights that keep integrals unbiased.

    With $k_j = w_j \sum_i |\varphi_i(x_j)|^2$ for an orthonormal basis $\varphi_i$ of the tangent space on the pool,
    point j is drawn with replacement and the probability
    $p_j = (1 - u)\, k_j / \sum_i k_i + u\, w_j / \sum_i w_i$, and has the weight $w_j / (n p_j)$. The loss and the Gram
    matrix are unbiased, and of the order of d log d points keep the Gram matrix of d parameters well conditioned,
    however local the tangent functions are. Each step computes the rows on the whole pool and factorises them once.

    **Arguments:**

    - `pool`: fixed points, such as a fine grid; drawn points keep their data.
    - `n`: the number of points per step.
    - `uniform`: u, the share of points drawn by their weights alone. It bounds every new weight by the pool's mass
      divided by u n, so that the loss is well integrated also where all tangent functions are small.
    - `cutoff`: tangent directions shorter than this share of the longest one are left out of the basis.

    ```python
    loss = riesz.residual(riesz.laplacian, source, riesz.christoffel(riesz.grid((0, 0), (1, 1), 100), 500))
    ```
    """
    _check.kind("pool", pool, Points, "fixed points, such as riesz.grid(0, 1, 1000)")
    if not _check.is_traced(pool.weights) and not np.asarray(pool.weights).any():
        raise ValueError("pool must have a positive weight, but all its weights are 0.")
    _check.scalar("uniform", uniform, above=0.0, below=1.0)
    _check.scalar("cutoff", cutoff, least=0.0, below=1.0)
    return Christoffel(pool, _check.count("n", n), _check.leaf(uniform), _check.leaf(cutoff))
