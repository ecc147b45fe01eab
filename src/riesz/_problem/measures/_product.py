"""Products of measures: boxes from intervals, space and time from both."""

import dataclasses
import functools
import operator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ... import _check
from ..features import flat
from ._domain import AbstractDomain, domains_of
from ._points import AbstractMeasure, Points


@jax.jit  # one small program, not one for each of its operations
def cross(*factors: Points) -> Points:
    """Every combination of the factors' points, coordinates side by side in shape (m, n), the last factor fastest."""
    indices = jnp.indices([factor.x.shape[0] for factor in factors]).reshape(len(factors), -1)
    parts = [factor.take(chosen) for factor, chosen in zip(factors, indices, strict=True)]
    x = jnp.concatenate([flat(part.x) for part in parts], axis=1)
    weights = functools.reduce(operator.mul, [part.weights for part in parts])
    return Points(x, weights, next((part.data for part in parts if part.data is not None), None))


class ProductDomain(AbstractDomain):
    """Every pair of a point of one domain and a point of the other."""

    a: AbstractDomain
    b: AbstractDomain

    @property
    def volume(self) -> jax.Array:
        return self.a.volume * self.b.volume

    def uniform(self, key: Any, n: int) -> jax.Array:
        first, second = jax.random.split(key)
        return jnp.concatenate([flat(self.a.uniform(first, n)), flat(self.b.uniform(second, n))], axis=1)


def _domain(a: AbstractMeasure, b: AbstractMeasure) -> ProductDomain | None:
    both = domains_of(a, b)
    return None if both is None else ProductDomain(*both)


class Product(AbstractMeasure):
    """The product of two measures, one of them drawn anew each step."""

    a: AbstractMeasure
    b: AbstractMeasure
    drawn: ClassVar[bool] = True

    @property
    def domain(self) -> ProductDomain | None:
        return _domain(self.a, self.b)

    def draw(self, key: Any, at: Any = None) -> Points:
        """The product of one draw of each; neither factor gets tangent rows, which need points of the product."""
        first, second = jax.random.split(key)
        return cross(self.a.draw(first), self.b.draw(second))


def shapes_of(name: str, measure: Any) -> Points:
    """The shapes that a measure draws by itself."""
    _check.kind(name, measure, AbstractMeasure, "a measure, such as riesz.grid(0, 1, 20)")
    if measure.adapts:
        raise ValueError(f"{name} must not be adaptive: let the whole adapt instead, as riesz.adaptive(...).")
    with _check.explained(f"{name} must draw its points without the tangent space"):
        over = jax.eval_shape(lambda: measure.draw(jax.random.key(0) if measure.drawn else None))
    if over.x.ndim > 2:
        raise ValueError(f"{name} must have scalar or vector points, but the shape of a point is {over.x.shape[1:]}.")
    return over


def product(a: AbstractMeasure, b: AbstractMeasure) -> Points | Product:
    r"""The product measure $a \otimes b$: every pair of points, with the product of their weights.

    It is fixed where both factors are, else drawn anew each step. n points times k points are n k points. The
    product has the data of the factor that carries them. For Christoffel points on a product, take
    `riesz.christoffel(riesz.product(a, b), n)`.

    **Arguments:**

    - `a`, `b`: two measures; a point of the product has the coordinates of a, then those of b.

    ```python
    inside = riesz.product(riesz.monte_carlo((0, 0), (1, 1), 50), riesz.gauss_legendre(0, 2, 10))
    walls = riesz.product(riesz.boundary((0, 0), (1, 1), 10), riesz.gauss_legendre(0, 2, 10))
    ```
    """
    first, second = shapes_of("a", a), shapes_of("b", b)
    if first.x.dtype != second.x.dtype:
        raise TypeError(f"a and b must have one dtype, but they are {first.x.dtype} and {second.x.dtype}.")
    if first.data is not None and second.data is not None:
        raise ValueError("a and b must not both carry data: give the data of the pairs to riesz.points instead.")
    if isinstance(a, Points) and isinstance(b, Points):
        return dataclasses.replace(cross(a.draw(), b.draw()), domain=_domain(a, b))
    return Product(a, b)
