"""`load`: a solution from its file."""

import os
import pathlib
from typing import Any

import jax

from .. import _check
from .._bytes.archive import Damaged
from .._problem.checks import check_problem
from .._problem.integral import AbstractLoss
from .._problem.parametrise import is_module, parametrise
from .._running.keeping import read
from .._running.problem import Problem
from .._running.solution import Solution, Start
from .._types import Parametrisation
from .given import takes_params


def load(path: str | os.PathLike, D: Parametrisation, loss: AbstractLoss | None = None) -> Solution:
    """The solution that `solution.save(path)` has written.

    A file holds numbers and text, and no code: whoever reads it brings the parametrisation, and nothing in the file can
    run or take more memory than its own size.

    **Arguments:**

    - `path`: the file.
    - `D`: the parametrisation, or a module of equinox or flax nnx like the one that was fitted.
    - `loss`: the loss, if `solution.problem` is to know it.

    **Returns:** a `Solution`, from which `minimise(..., start=solution)` goes on with the same method. Its `state` is
    the arrays of the method's state, one after the other.

    ```python
    solution.save("solution.npz")
    solution = riesz.load("solution.npz", D)
    ```
    """
    _check.kind("path", path, str | os.PathLike, "a path")
    if is_module(D):
        D, _ = parametrise(D)
    _check.function("D", D)
    if takes_params(D):
        raise TypeError("D must be a parametrisation: of apply(params, x), take riesz.parametrise(apply, params)[0].")
    if not os.path.exists(path):
        raise FileNotFoundError(f"path must be a file that solution.save has written, but there is no {path}.")
    try:
        fields, starts = read(pathlib.Path(path))
    except Damaged as damage:
        raise ValueError(f"path must be a file that solution.save has written, but {path} {damage}.") from damage
    theta = fields["theta"] if fields["theta"].ndim == 1 else fields["theta"][0]
    with _check.explained(f"D must be a parametrisation of the {theta.size} parameters in {path}, but it fails"):
        D(theta)
    problem = None if loss is None else _problem(loss, D, theta, fields["history"])
    return Solution(D=D, problem=problem, starts=tuple(Start(*start) for start in starts), **fields)


def _problem(loss: Any, D: Parametrisation, theta: jax.Array, history: dict[str, Any]) -> Problem:
    """The problem without its method, which is not in the file."""
    check_problem(loss, D, theta, jax.random.key(0))
    unknown: Any = None
    left_out: frozenset[str] = frozenset({"solver_residual", "phase"} - set(history))
    return Problem(loss, D, unknown, loss.drawn, False, False, left_out, False, False, None)
