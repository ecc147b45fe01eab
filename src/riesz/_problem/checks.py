"""Whether a loss, a parametrisation and a start fit together: refused in a sentence before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from .. import _check
from .._types import Parametrisation
from .dependence import may_depend_on_first
from .features import Whole, traced
from .integral import AbstractLoss, AbstractTerm, at_one_point
from .kinks import has_hidden_kinks
from .measures import Points


def _remedy(dtype: Any) -> str:
    """What to do about a model of this precision that meets numbers of another."""
    if dtype == jnp.float32:
        return 'make the model float64, by params = jax.tree.map(lambda a: a.astype("float64"), params), or x float32'
    return f'convert the points, by x = x.astype("{dtype}")'


def check_term(where: str, term: AbstractTerm, over: Points, D: Parametrisation, theta: jax.Array) -> bool:
    """Refuse a term, the shapes of its points and a model that do not fit together.

    **Returns:** whether the operator leaves anything of the parameters: False where v depends on them and A v does not.
    """
    for part, array in (("points", over.x), ("weights", over.weights)):
        if array.dtype != theta.dtype:
            raise TypeError(
                f"theta and the {part} of {where} must have one dtype, but they are {theta.dtype} and {array.dtype}: "
                f"{_remedy(theta.dtype)}."
            )
    point = at_one_point(over.x)
    with _check.explained(f"D and operator must accept the points of {where}, but fail at shape {point.shape}"):
        program, z = traced(D, term.operator, theta, over.x)
    z = at_one_point(z)
    if not hasattr(z, "shape") or not jnp.issubdtype(z.dtype, jnp.floating):
        raise TypeError(f"D must give functions with real values: in {where}, (A v)(x) is {_check.shown(z)}.")
    if z.dtype != theta.dtype:
        raise TypeError(f"theta and D's values in {where} must have one dtype, not {theta.dtype} and {z.dtype}.")
    _, *data = term.arguments(z, at_one_point(over))
    lacking = ", whose over carries no data" if data == [None] else ""
    with _check.explained(f"density must be a function of z or of (z, data), but it fails in {where}{lacking}"):
        out = jax.eval_shape(term.density, z, *data)
    if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"density must return a real scalar, but in {where} it returns {_check.shown(out)}.")
    if may_depend_on_first(program) or isinstance(term.operator, Whole):
        return True
    return not may_depend_on_first(jax.make_jaxpr(lambda theta, x: D(theta)(x))(theta, point))


def names(loss: AbstractLoss) -> list[str]:
    """What sentences call the terms of a loss."""
    return [f"term {index} of the loss" for index in range(len(loss.terms))] if len(loss.terms) > 1 else ["the loss"]


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
    parts = zip(names(loss), loss.terms, sample, strict=True)
    return tuple(name for name, term, over in parts if not check_term(name, term, over, D, theta))


def kinked(loss: AbstractLoss, D: Parametrisation, theta: jax.Array, key: Any) -> tuple[str, ...]:
    """The names of the terms whose operator takes second derivatives of a model with kinks, and does not see them."""
    parts = zip(names(loss), loss.terms, jax.eval_shape(lambda: loss.draw(key, D, theta)), strict=True)

    def hides(term: AbstractTerm, over: Points) -> bool:
        program, _ = traced(D, term.operator, theta, over.x)
        return has_hidden_kinks(program, D, term.operator, theta, at_one_point(over.x))

    return tuple(name for name, term, over in parts if hides(term, over))
