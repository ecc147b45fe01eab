"""Points drawn from any law, with weights that make up for it."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ._points import AbstractMeasure, Points


class Importance(AbstractMeasure):
    """n points of a law with density q, drawn anew each step, with weights target(x) / (n q(x))."""

    propose: Callable[..., Any]
    density: Callable[..., Any]
    n: int = eqx.field(static=True)
    target: Callable[..., Any] | None
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, at: Any = None) -> Points:
        x = self.propose(key, self.n)
        target = 1.0 if self.target is None else jax.vmap(self.target)(x)
        return Points(x, target / (self.n * jax.vmap(self.density)(x)), None)


def importance(
    propose: Callable[..., Any], density: Callable[..., Any], n: int, target: Callable[..., Any] | None = None
) -> Importance:
    r"""Points drawn each step from a law of your choice, with the weights $f(x_j) / (n\, q(x_j))$.

    They integrate f(x) dx without bias if q is positive wherever f is. Choose q large where the integrand is large, and
    nowhere much smaller than f, because the weights are proportional to f/q.

    **Arguments:**

    - `propose`: the sampler, a function (key, n) -> n independent points along the first axis.
    - `density`: q, the normalised density of their law, a function of one point; it must be positive where points
      can fall.
    - `n`: the number of points per step.
    - `target`: f, a function of one point that is not negative; 1 by default, so that the measure is dx.

    ```python
    propose = lambda key, n: jax.random.uniform(key, (n,)) ** 2  # more points near 0
    over = riesz.importance(propose, lambda x: 1 / (2 * jnp.sqrt(x)), 200)
    ```
    """
    _check.function("propose", propose)
    functions = {"density": _check.function("density", density)}
    if target is not None:
        functions["target"] = _check.function("target", target)
    n = _check.count("n", n)
    with _check.explained("propose must be a function of (key, n), but it fails"):
        x = jax.eval_shape(lambda: jnp.asarray(propose(jax.random.key(0), n)))
    if x.ndim == 0 or x.shape[0] != n or not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"propose must return {n} points along the first axis, but it returns {_check.shown(x)}.")
    point = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    for name, function in functions.items():
        with _check.explained(f"{name} must be a function of one point, but it fails at shape {point.shape}"):
            value = jax.eval_shape(lambda point, function=function: jnp.asarray(function(point)), point)
        if value.shape != () or value.dtype != x.dtype:
            raise ValueError(f"{name} must return one {x.dtype} for one point, but it returns {_check.shown(value)}.")
    return Importance(propose, density, n, target)
