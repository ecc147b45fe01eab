"""Solvers: factor once, solve many."""

from typing import Any

from ... import _check
from ..filters import AbstractFilter, Shift
from .base import AbstractFactors as AbstractFactors
from .base import AbstractInverse as AbstractInverse
from .base import AbstractSolver as AbstractSolver
from .cholesky import Cholesky as Cholesky
from .conjugate_gradients import ConjugateGradients as ConjugateGradients
from .gram import Gram as Gram
from .qrsvd import QRSVD as QRSVD
from .sketched import Sketched as Sketched

DEFAULT = QRSVD()
"""The solver where nobody chose one; a run may then take another, by the shape of its rows."""


def as_solver(factorisation: Any) -> AbstractSolver:
    """The solver that a user chose by `factorisation=`; None is the default, `QRSVD()`."""
    if factorisation is None:
        return DEFAULT
    examples = "riesz.QRSVD(), riesz.Gram(), riesz.Cholesky(), riesz.ConjugateGradients(), riesz.Sketched() or None"
    return _check.kind("factorisation", factorisation, AbstractSolver, examples)


def check_filter(solver: AbstractSolver, filter: AbstractFilter) -> None:
    """Refuse a filter that needs the spectrum of a solver which has none."""
    if not solver.has_spectrum and not isinstance(filter, Shift):
        raise ValueError(
            f"filter must be riesz.Shift(eps) with factorisation={type(solver).__name__}(), which has no spectrum: "
            f"{type(filter).__name__} needs riesz.QRSVD() or riesz.Gram()."
        )
