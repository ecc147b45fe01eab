"""Whether a loss, a parametrisation and a start fit together: refused in a sentence before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from .. import _check
from .._types import Parametrisation
from .features import image
from .integral import AbstractLoss, AbstractTerm, takes_data
from .measures import Points


def check_term(where: str, term: AbstractTerm, over: Points, D: Parametrisation, theta: jax.Array) -> None:
    """Refuse a term, the shapes of its points and a model that do not fit together."""
    for part, array in (("points", over.x), ("weights", over.weights)):
        if array.dtype != theta.dtype:
            raise TypeError(
                f"theta and the {part} of {where} must have one dtype, but they are {theta.dtype} and {array.dtype}."
            )
    point, *rest = (jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in (over.x, over.data) if a is not None)
    with _check.explained(f"D and operator must accept the points of {where}, but fail at shape {point.shape}"):
        z = jax.eval_shape(lambda theta, x: image(term.operator, D(theta), x[None])[0], theta, point)
    if not hasattr(z, "shape") or not jnp.issubdtype(z.dtype, jnp.floating):
        raise TypeError(f"D must give functions with real values: in {where}, (A v)(x) is {_check.shown(z)}.")
    if z.dtype != theta.dtype:
        raise TypeError(f"theta and D's values in {where} must have one dtype, not {theta.dtype} and {z.dtype}.")
    data = (rest or [None]) if takes_data(term.density) else []
    lacking = ", whose over carries no data" if data == [None] else ""
    with _check.explained(f"density must be a function of z or of (z, data), but it fails in {where}{lacking}"):
        out = jax.eval_shape(term.density, z, *data)
    if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"density must return a real scalar, but in {where} it returns {_check.shown(out)}.")


def check_problem(loss: Any, D: Any, theta: Any, key: Any) -> None:
    """Refuse a loss, a parametrisation and a start that do not fit together, before anything is compiled."""
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
    for index, (term, over) in enumerate(zip(loss.terms, sample, strict=True)):
        check_term(f"term {index} of the loss" if len(loss.terms) > 1 else "the loss", term, over, D, theta)
