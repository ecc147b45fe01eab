"""Mini-batches of given points."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax

from ... import _check
from ._points import AbstractMeasure, Points


class Minibatch(AbstractMeasure):
    """n of m points without replacement, drawn anew each step; weights w_j m/n keep integrals unbiased."""

    points: Points
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
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
