"""The loss: a sum of integrals of densities, with its value, its differential and its Hessian."""

import abc
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function, Operator, Parametrisation, Vector
from .curvature import Curvature, curvature_of, diagonal, is_quadratic
from .features import flat, image
from .known import Known
from .measures import AbstractMeasure, Points
from .operators import identity


def half_square(z: jax.Array) -> jax.Array:
    """The density |z|^2/2, whose Hessian is the identity."""
    return 0.5 * jnp.sum(z**2)


def takes_data(density: Callable[..., Any]) -> bool:
    """Whether a density is a function of (z, data), rather than of z alone."""
    try:
        parameters = inspect.signature(density).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) != 1


def at_one_point(arrays: Any) -> Any:
    """The shapes of arrays at one point, without their axis of points."""
    return jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape[1:], array.dtype), arrays)


class AbstractLoss(eqx.Module):
    """L(v) = sum_t factor_t * sum_j w_j l_t((A_t v)(x_j), data_j): losses add and scale."""

    terms: eqx.AbstractVar["tuple[AbstractTerm, ...]"]
    """The integrals that this loss is the sum of."""

    @property
    def drawn(self) -> bool:
        """Whether any term sees new points each step."""
        return any(term.over is not None and term.over.drawn for term in self.terms)

    @property
    def adapts(self) -> bool:
        """Whether points of any term are placed anew now and then."""
        return any(term.over is not None and term.over.adapts for term in self.terms)

    def replaced(self, step: Any, D: Parametrisation, theta: Vector) -> tuple[Points, ...]:
        """New points for every term that adapts, by what is known at theta."""
        adapting = enumerate(term for term in self.terms if term.over is not None and term.over.adapts)
        number = lambda index: jnp.asarray(step) * len(self.terms) + index  # no two terms draw alike
        return tuple(term.over.replaced(number(index), term.known(D, theta)) for index, term in adapting)

    def placed(self, points: tuple[Points, ...]) -> "AbstractLoss":
        """The same loss with the points of the terms that adapt."""
        where = lambda loss: [term.over.current for term in loss.terms if term.over is not None and term.over.adapts]
        return eqx.tree_at(where, self, list(points)) if points else self

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> tuple[Points, ...]:
        """The points of every term for one step, each term's factor in its weights."""
        own = lambda index: None if key is None else jax.random.fold_in(key, index)
        return tuple(term.draw_points(own(index), D, theta) for index, term in enumerate(self.terms))

    def fresh(self, key: Any, known: tuple[Points, ...]) -> tuple[Points, ...]:
        """New points for every term that has a domain, uniform on it; those that are known for the others."""
        terms = enumerate(zip(self.terms, known, strict=True))
        return tuple(term.fresh_points(jax.random.fold_in(key, index), over) for index, (term, over) in terms)

    def value(self, v: Function, sample: tuple[Points, ...]) -> jax.Array:
        """The loss L_m(v) on given points."""
        terms = zip(self.terms, sample, strict=True)
        return sum(over.weights @ term.densities(image(term.operator, v, over.x), over) for term, over in terms)  # type: ignore[return-value]

    def __call__(self, v: Function, key: Any = None) -> jax.Array:
        """The value of the loss at a function; `key` is needed where points are drawn."""
        _check.function("v", v)
        if self.drawn and key is None:
            raise ValueError("key must be given: the loss draws its points anew each time.")
        if key is not None:
            _check.key("key", key)
        none = lambda theta: v
        return self.value(v, self.draw(key, none, jnp.zeros(0)))

    def __add__(self, other: Any) -> "AbstractLoss":
        _check.kind("the other side of +", other, AbstractLoss, "a loss")
        return Loss(self.terms + other.terms)

    def __radd__(self, other: Any) -> "AbstractLoss":
        return self if isinstance(other, int) and other == 0 else self + other  # sum() starts at 0

    def __mul__(self, factor: Any) -> "AbstractLoss":
        if isinstance(factor, AbstractLoss):
            raise TypeError("a loss can be multiplied by a number, not by another loss.")
        _check.scalar("the factor of a loss", factor, above=0.0)
        return Loss(tuple(term.scaled(factor) for term in self.terms))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "AbstractLoss":
        return self * (1 / _check.scalar("the divisor of a loss", divisor, above=0.0))

    def __neg__(self) -> Any:
        raise ValueError("the factor of a loss must be greater than 0: the sign belongs in the density.")

    def __sub__(self, other: Any) -> Any:
        raise ValueError("losses cannot be subtracted: the sign belongs in the density.")

    __rsub__ = __sub__
    __array_ufunc__ = None  # so that NumPy's arrays leave arithmetic to the loss


class Loss(AbstractLoss):
    """A sum of integrals."""

    terms: "tuple[AbstractTerm, ...]"


class AbstractTerm(AbstractLoss):
    """One term, sum_j w_j l(z_j, data_j): a density, an operator that gives z, and a measure."""

    density: eqx.AbstractVar[Callable[..., Any]]
    operator: eqx.AbstractVar[Operator]
    over: eqx.AbstractVar[Any]
    """The measure; None where the values come all at once, so that their indices are the points."""
    factor: eqx.AbstractVar[jax.Array]

    @property
    def terms(self) -> "tuple[AbstractTerm, ...]":
        return (self,)

    def scaled(self, factor: Any) -> "AbstractTerm":
        """The term with a positive factor in front."""
        return eqx.tree_at(lambda term: term.factor, self, _check.leaf(factor) * self.factor)

    @abc.abstractmethod
    def draw_points(self, key: Any, D: Parametrisation, theta: Vector) -> Points:
        """The term's points for one step, its factor in their weights."""

    def fresh_points(self, key: Any, known: Points) -> Points:
        """New points of the term's domain, its factor in their weights; those that are known where there is none."""
        return known

    def known(self, D: Parametrisation, theta: Vector) -> Known:
        """What is known of the term at theta, for measures whose points follow it."""
        return Known(D, theta, self.operator, None if takes_data(self.density) else self.density)

    def arguments(self, z: Any, over: Points) -> tuple[Any, ...]:
        """What the density takes, with an axis of points: z, and the data or None where it takes data."""
        return (z, over.data) if takes_data(self.density) else (z,)

    def _pointwise(self, f: Callable[..., Any], z: jax.Array, over: Points) -> Any:
        """What a function of the density's arguments gives at every point."""
        return jax.vmap(f)(*self.arguments(z, over))

    def densities(self, z: jax.Array, over: Points) -> jax.Array:
        """The point-wise losses l(z_j), of shape (m,)."""
        return self._pointwise(self.density, z, over)

    def densities_and_slopes(self, z: jax.Array, over: Points) -> tuple[jax.Array, jax.Array]:
        """The point-wise losses l(z_j), and their slopes l'(z_j) of shape (m, p)."""
        densities, slopes = self._pointwise(jax.value_and_grad(self.density), z, over)
        return densities, flat(slopes)

    def curvature(self, z: Any, over: Points) -> Curvature:
        """What l'' is for every z and all data: zero, the identity, diagonal or full; of z only the shape is used."""
        return curvature_of(self.density, *at_one_point(self.arguments(z, over)))

    def quadratic(self, z: Any, over: Points) -> bool:
        """Whether l'' is the same for every z; of z only the shape is used."""
        return is_quadratic(self.density, *at_one_point(self.arguments(z, over)))

    def diagonals(self, z: jax.Array, over: Points) -> jax.Array:
        """The diagonals of l''(z_j), of shape (m, p), where these are diagonal."""
        return flat(self._pointwise(lambda *point: diagonal(self.density, *point), z, over))

    def hessians(self, z: jax.Array, over: Points) -> jax.Array:
        """The matrices l''(z_j), of shape (m, p, p)."""
        m, p = flat(z).shape
        return self._pointwise(jax.hessian(self.density), z, over).reshape(m, p, p)


class Integral(AbstractTerm):
    r"""One term of a loss, $\sum_j w_j\, \ell((A v)(x_j), \mathrm{data}_j)$.

    **Arguments:**

    - `density`: the point-wise loss l, a function of z = (A v)(x_j) or of (z, data_j), with scalar values;
      parameters that have defaults keep them.
    - `over`: the measure that gives points, weights and data.
    - `operator`: the operator A, a function of functions.

    ```python
    huber = riesz.Integral(lambda z, y: jnp.sqrt(1 + (z - y) ** 2) - 1, riesz.points(x, data=y))
    loss = huber + 0.1 * riesz.Integral(lambda z: 0.5 * jnp.sum(z**2), over, operator=riesz.gradient)
    ```
    """

    density: Callable[..., Any]
    over: AbstractMeasure
    operator: Operator
    factor: jax.Array

    def __init__(self, density: Callable[..., Any], over: AbstractMeasure, operator: Operator = identity):
        self.density = _check.function("density", density)
        self.over = _check.kind("over", over, AbstractMeasure, "a measure, such as riesz.points(x, data=y)")
        self.operator = _check.function("operator", operator)
        self.factor = _check.leaf(1.0)

    def draw_points(self, key: Any, D: Parametrisation, theta: Vector) -> Points:
        return self.factor * self.over.draw(key, self.known(D, theta))

    def fresh_points(self, key: Any, known: Points) -> Points:
        fresh = self.over.fresh(key)
        return known if fresh is None else self.factor * fresh
