"""The loss: a sum of integrals of densities, with its value, its differential and its Hessian."""

import abc
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import Literal

from .. import _check
from .._types import Function, Operator, Parametrisation, Vector
from .dependence import may_depend_on_first
from .features import features, flat
from .measures import AbstractMeasure, Points
from .operators import identity


def _takes_data(density: Callable[..., Any]) -> bool:
    """Whether a density is a function of (z, data), rather than of z alone."""
    try:
        parameters = inspect.signature(density).parameters.values()
    except (TypeError, ValueError):
        return True
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(required) != 1


class AbstractLoss(eqx.Module):
    """L(v) = sum_t factor_t * sum_j w_j l_t((A_t v)(x_j), data_j): losses add and scale."""

    @property
    @abc.abstractmethod
    def terms(self) -> "tuple[Integral, ...]":
        """The integrals that this loss is the sum of."""

    @property
    def drawn(self) -> bool:
        """Whether any term sees new points each step."""
        return any(term.over.drawn for term in self.terms)

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> tuple[Points, ...]:
        """The points of every term for one step, each term's factor in its weights."""
        return tuple(
            term.draw_points(None if key is None else jax.random.fold_in(key, index), D, theta)
            for index, term in enumerate(self.terms)
        )

    def value(self, v: Function, sample: tuple[Points, ...]) -> jax.Array:
        """L_m(v) on given points."""
        terms = zip(self.terms, sample, strict=True)
        return sum(term.integrate(jax.vmap(term.operator(v))(over.x), over) for term, over in terms)  # type: ignore[return-value]

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

    integrals: "tuple[Integral, ...]"

    @property
    def terms(self) -> "tuple[Integral, ...]":
        """Those integrals."""
        return self.integrals


class Integral(AbstractLoss):
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

    @property
    def terms(self) -> "tuple[Integral, ...]":
        """The term itself."""
        return (self,)

    def scaled(self, factor: Any) -> "Integral":
        """The term with a positive factor in front."""
        return eqx.tree_at(lambda term: term.factor, self, _check.leaf(factor) * self.factor)

    def draw_points(self, key: Any, D: Parametrisation, theta: Vector) -> Points:
        """The term's points for one step, its factor in their weights."""
        return self.factor * self.over.draw(key, lambda x: features(D, self.operator, theta, x).rows)

    def _pointwise(
        self, of: Callable[[Callable[..., Any]], Callable[..., Any]], z: jax.Array, over: Points
    ) -> jax.Array:
        if _takes_data(self.density):
            return jax.vmap(of(self.density), (0, None if over.data is None else 0))(z, over.data)
        return jax.vmap(of(self.density))(z)

    def integrate(self, z: jax.Array, over: Points) -> jax.Array:
        """sum_j w_j l(z_j)."""
        return over.weights @ self._pointwise(lambda density: density, z, over)

    def magnitude(self, z: jax.Array, over: Points) -> jax.Array:
        """sum_j w_j |l(z_j)|: what the rounding of the integral is measured by."""
        return over.weights @ jnp.abs(self._pointwise(lambda density: density, z, over))

    def slope(self, z: jax.Array, over: Points) -> jax.Array:
        """l'(z_j), of shape (m, p)."""
        return flat(self._pointwise(jax.grad, z, over))

    def curvature(self, z: jax.Array, over: Points) -> jax.Array:
        """l''(z_j), of shape (m, p, p)."""
        m, p = flat(z).shape
        return self._pointwise(jax.hessian, z, over).reshape(m, p, p)

    def is_linear(self, z: jax.Array, over: Points) -> bool:
        """Whether l'' is zero for every z, so that the term adds nothing to a Gauss-Newton metric."""
        fixed = self.fixed_curvature(z, over)
        return fixed is not None and not fixed.any()

    def fixed_curvature(self, z: jax.Array, over: Points) -> np.ndarray | None:
        """l'', of shape (p, p), where it is the same for every z and all data, as for least squares; else None.

        Read off the traced program, so it holds for every z: the second derivative must not depend on any input.
        """
        inputs = [z[0]] if over.data is None else [z[0], over.data[0]]
        arguments = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in inputs)
        curvature = jax.hessian(self.density)
        takes_data = _takes_data(self.density)

        def second(z: Any, data: Any = None) -> Any:
            return curvature(z, data) if takes_data else curvature(z)

        closed = jax.make_jaxpr(second)(*arguments)
        reached = set(closed.jaxpr.invars)
        for equation in closed.jaxpr.eqns:
            if any(not isinstance(v, Literal) and v in reached for v in equation.invars):
                reached.update(equation.outvars)
        if any(_check.is_traced(c) for c in closed.consts) or reached.intersection(
            v for v in closed.jaxpr.outvars if not isinstance(v, Literal)
        ):
            return None
        with jax.ensure_compile_time_eval():
            zeros = [np.zeros(a.shape, a.dtype) for a in arguments]
            (value,) = eval_jaxpr(closed.jaxpr, closed.consts, *zeros)
            return np.asarray(value).reshape(z[0].size, z[0].size)


def check_term(where: str, term: Integral, over: Points, D: Parametrisation, theta: jax.Array) -> bool:
    """Refuse a term, the shapes of its points and a model that do not fit together.

    **Returns:** whether the operator leaves anything of the parameters: False where v depends on them and A v does not.
    """
    for part, array in (("points", over.x), ("weights", over.weights)):
        if array.dtype != theta.dtype:
            raise TypeError(
                f"theta and the {part} of {where} must have one dtype, but they are {theta.dtype} and {array.dtype}."
            )
    point, *rest = (jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in (over.x, over.data) if a is not None)
    with _check.explained(f"D and operator must accept the points of {where}, but fail at shape {point.shape}"):
        image = jax.make_jaxpr(lambda theta, x: term.operator(D(theta))(x), return_shape=True)
        program, z = image(theta, point)
    if not hasattr(z, "shape") or not jnp.issubdtype(z.dtype, jnp.floating):
        raise TypeError(f"D must give functions with real values: in {where}, (A v)(x) is {_check.shown(z)}.")
    if z.dtype != theta.dtype:
        raise TypeError(f"theta and D's values in {where} must have one dtype, not {theta.dtype} and {z.dtype}.")
    data = (rest or [None]) if _takes_data(term.density) else []
    lacking = ", whose over carries no data" if data == [None] else ""
    with _check.explained(f"density must be a function of z or of (z, data), but it fails in {where}{lacking}"):
        out = jax.eval_shape(term.density, z, *data)
    if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"density must return a real scalar, but in {where} it returns {_check.shown(out)}.")
    if may_depend_on_first(program):
        return True
    return not may_depend_on_first(jax.make_jaxpr(lambda theta, x: D(theta)(x))(theta, point))


def check_problem(loss: Any, D: Any, theta: Any, key: Any) -> tuple[str, ...]:
    """Refuse a loss, a parametrisation and a start that do not fit together, before anything is compiled.

    **Returns:** the names of the terms whose operator leaves nothing of the parameters.
    """
    _check.kind("loss", loss, AbstractLoss, "a loss, such as riesz.least_squares(over)")
    _check.function("D", D)
    if not hasattr(theta, "dtype") or theta.ndim != 1 or not jnp.issubdtype(theta.dtype, jnp.floating):
        raise TypeError(f"theta must be a vector of floating-point numbers, not {_check.shown(theta)}.")
    _check.finite_rows("theta", theta)
    if key is not None:
        _check.key("key", key)
    elif loss.drawn:
        raise ValueError("key must be given, such as jax.random.key(0): the loss draws its points each step.")

    def look(theta: Any) -> None:
        v = D(theta)
        if not callable(v):
            raise _check.Mismatch(f"D must return a function, but D(theta) is {_check.shown(v)}.")

    with _check.explained(f"D must turn theta into a function, but it fails at shape {theta.shape}"):
        jax.eval_shape(look, theta)
    # Measures that follow the tangent space evaluate the model where they draw from.
    with _check.explained("D and operator must accept the points that the loss draws from, but they fail"):
        sample = jax.eval_shape(lambda: loss.draw(key, D, theta))
    names = [f"term {index} of the loss" for index in range(len(loss.terms))] if len(loss.terms) > 1 else ["the loss"]
    parts = zip(names, loss.terms, sample, strict=True)
    return tuple(name for name, term, over in parts if not check_term(name, term, over, D, theta))
