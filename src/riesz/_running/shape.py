"""The solver by the shape of the rows, where nobody chose one."""

import logging
from typing import Any

import jax

from .._geometry.inner_products import L2
from .._geometry.layers import plan
from .._linalg.filters import Shift
from .._linalg.solvers import DEFAULT, Cholesky, ConjugateGradients, Gram
from .._methods.auto import Auto
from .._methods.schemes import AbstractMethod, AbstractScheme
from .._problem.curvature import Curvature
from .._problem.features import Whole, traced
from .._problem.integral import AbstractLoss
from .._types import Operator, Parametrisation, Vector

log = logging.getLogger("riesz")

LARGE = 2e7
"""Rows with more numbers than these take seconds to factorise ..."""
WIDE = 5e6
"""... and so do fewer where rows are fewer than parameters, for filters that need no singular values; all these ..."""
LONG = 1e11
"""Where N d^2 is larger, singular values take minutes a step, and auto does without them and without long steps."""
CHUNK = 1024
"""... are then never stored; products with them take so many points at a time."""
SIDE = 10_000
"""Where both sides are longer than this, no matrix is made of either: it would take gigabytes, and minutes."""


def by_shape(loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any) -> AbstractMethod:
    """The method itself, or with another solver where its rows are many numbers.

    Rows fewer than parameters: the kernel matrix of a model with layers, put together layer by layer. Rows that are
    more: the Gram matrix, for the filter `Shift`, and for auto where singular values would take minutes. Both square
    the condition number, which `Cholesky` wins back.
    """
    if not isinstance(method, AbstractScheme | Auto) or method.solver is not DEFAULT:
        return method
    choices = method.choices if isinstance(method, AbstractScheme) else None
    values = _operators(loss, D, theta, choices, jax.eval_shape(lambda: method.draw(loss, D, theta, key)))
    shapes = [(operator, x, traced(D, operator, theta, x)[1].size) for operator, x in values]
    # All values of a residual vector come from one evaluation, though each of them has a weight of its own.
    rows = sum(size if isinstance(operator, Whole) else x.shape[0] * size for operator, x, size in shapes)
    # Auto needs singular values for its long steps, which rows fewer than parameters seldom see.
    wide, shifts = rows < theta.size, choices is not None and isinstance(choices.filter, Shift)
    shifts |= choices is None and (wide or rows * theta.size**2 > LONG)
    least = WIDE if wide and choices is not None and shifts else LARGE
    if rows * theta.size <= least or not (shifts or wide) or (wide and plan(D, theta, values) is None):
        return method
    if shifts and choices is not None and min(rows, theta.size) > SIDE:
        solver, side = ConjugateGradients(), "products"
    else:
        solver = (Cholesky if shifts else Gram)(CHUNK) if wide else Cholesky()
        side = "kernel matrix, rows are not stored" if wide else "Gram matrix"
    log.info("%d rows of %d parameters: %s works on their %s.", rows, theta.size, solver, side)
    return method.solving(solver)


def _operators(
    loss: AbstractLoss, D: Parametrisation, theta: Vector, choices: Any, sample: Any
) -> list[tuple[Operator, Any]]:
    """The operators whose rows make the metric, each with its points."""
    operator, own = None if choices is None else getattr(choices.W, "operator", None), sample.W_points
    if operator is not None:
        return [(operator, points.x) for points in (sample.terms if own is None else (own,))]

    def is_seen(term: Any, points: Any) -> bool:
        """Whether the term has a form: linear densities have none but in L2."""
        z = traced(D, term.operator, theta, points.x)[1]
        return isinstance(choices and choices.W, L2) or term.curvature(z, points) is not Curvature.ZERO

    pairs = zip(loss.terms, sample.terms, strict=True)
    return [(term.operator, points.x) for term, points in pairs if is_seen(term, points)]
