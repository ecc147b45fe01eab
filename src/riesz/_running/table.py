"""A history as a rectangular table."""

from typing import Any

import numpy as np

from .._methods.state import STEP_COLUMNS


def table(solution: Any) -> dict[str, np.ndarray]:
    """Columns of equal length, with a row for every iterate; those of steps have no entry for the last one."""
    if solution.theta.ndim == 1:
        return _one(solution.history, solution.steps)
    counts = [int(steps) for steps in solution.steps]
    pieces = [_one({name: column[i] for name, column in solution.history.items()}, n) for i, n in enumerate(counts)]
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return {"start": np.repeat(np.arange(len(counts)), [n + 1 for n in counts]), **columns}


def _one(history: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """The table of one start, whose columns may be longer than its run."""
    missing = lambda column: np.append(column[:steps].astype(np.result_type(column, np.float16)), np.nan)
    columns = {
        name: missing(column) if name in STEP_COLUMNS else np.array(column[: steps + 1])
        for name, column in history.items()
    }
    return {"step": np.arange(steps + 1), "loss": columns["loss"], **columns}
