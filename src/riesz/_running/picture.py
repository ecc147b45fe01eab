"""A history as a picture."""

from typing import Any

import numpy as np

from .._methods.auto.long_steps import DIVE, QUICK, WALK
from .._methods.state import STEP_COLUMNS

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that the colour-blind tell apart (Okabe and Ito)."""
PHASES = {QUICK: ("quick", "#FFFFFF"), WALK: ("walk", "#E69F00"), DIVE: ("dive", "#56B4E9")}
MOST = 10
"""No more starts than these are drawn in colours of their own, and named."""


def picture(solution: Any) -> Any:
    """A figure of matplotlib: the loss above, the gradient's norm and the metrics below it, against steps."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("solution.plot() needs matplotlib: pip install riesz[plot].") from error
    many, history = solution.theta.ndim > 1, solution.history
    metrics = [name for name in history if name not in ("loss", "seconds", "between", *STEP_COLUMNS)]
    names = ["loss", *(["gradient_norm"] if "gradient_norm" in history else []), *metrics]
    heights = [2.0 if name == "loss" else 1.0 for name in names]
    figure, axes = plt.subplots(
        len(names), sharex=True, squeeze=False, figsize=(7, 1.4 * sum(heights) + 0.8), height_ratios=heights,
        layout="constrained",
    )  # fmt: skip
    steps = np.atleast_1d(solution.steps)
    for name, panel in zip(names, axes[:, 0], strict=True):
        drawn = []
        for i, count in enumerate(steps):
            column = history[name][i] if many else history[name]
            column = np.asarray(column[: count + (name not in STEP_COLUMNS)], float)
            drawn.append(column)
            few = many and len(steps) <= MOST
            colour = COLOURS[i % len(COLOURS)] if few else COLOURS[0]
            label = f"start {i}" if few and name == "loss" else None
            line = (0, (4, 1 + i // len(COLOURS))) if few and i >= len(COLOURS) else "-"
            alpha, width = (0.4, 0.8) if many and not few else (1.0, 1.4)
            panel.plot(column, color=colour, label=label, alpha=alpha, linewidth=width, linestyle=line)
        _scale(panel, np.concatenate(drawn))
        panel.set_ylabel("gradient norm" if name == "gradient_norm" else name)
        panel.grid(True, color="#DDDDDD", linewidth=0.5)
        panel.set_axisbelow(True)
        panel.margins(x=0.01)
        if not many and "phase" in history:
            _shade(panel, history["phase"], named=name == "loss")
    if not many:
        _mark(axes[0, 0], solution)
    if axes[0, 0].get_legend_handles_labels()[0]:
        axes[0, 0].legend(fontsize="small", frameon=True, ncols=2 if many else 1)
    axes[-1, 0].set_xlabel("steps")
    axes[0, 0].set_title(_title(solution), fontsize="medium")
    return figure


def _scale(panel: Any, values: np.ndarray) -> None:
    """A logarithmic scale for positive numbers; one that is linear around zero for others that span much."""
    values = values[np.isfinite(values)]
    if values.size and values.min() > 0:
        panel.set_yscale("log")
    elif np.any(values != 0):
        sizes = np.abs(values[values != 0])
        low, high = sizes.min(), sizes.max()
        if values.min() == 0 and low > 0:
            panel.set_yscale("symlog", linthresh=low)
        elif high > 100 * np.median(sizes):
            panel.set_yscale("symlog", linthresh=max(np.median(sizes), 1e-3 * high))


def _shade(panel: Any, phases: np.ndarray, named: bool) -> None:
    """Each phase of auto that is not the first, behind the steps that it made."""
    if phases.size == 0:
        return
    edges = [0, *(np.flatnonzero(np.diff(phases)) + 1), phases.size]
    seen = set()
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        name, colour = PHASES.get(int(phases[begin]), (f"phase {int(phases[begin])}", "#CCCCCC"))
        if name != "quick":
            label = name if named and name not in seen else None
            panel.axvspan(begin, end, color=colour, alpha=0.25, linewidth=0, label=label, zorder=0)
        seen.add(name)


def _mark(panel: Any, solution: Any) -> None:
    """Steps that were undone, and the best parameters where they are not the last."""
    loss = solution.history["loss"]
    undone = np.flatnonzero(~solution.history["accepted"].astype(bool)) + 1 if "accepted" in solution.history else []
    if len(undone):
        panel.plot(undone, loss[undone], "x", color=COLOURS[1], markersize=4, label=f"rejected ({len(undone)})")
    if "between" in solution.history:
        between = solution.history["between"]
        seen = np.flatnonzero(np.isfinite(between))
        panel.plot(
            seen, between[seen], "s", color=COLOURS[2], markersize=4, fillstyle="none", label="between the points"
        )
    where = np.flatnonzero(loss == float(solution.loss))
    if where.size:
        panel.plot(
            where[-1], loss[where[-1]], "o", color=COLOURS[6], markersize=5, label=f"best: {loss[where[-1]]:.3g}"
        )


def _title(solution: Any) -> str:
    if solution.theta.ndim == 1:
        return f"{solution.result.name} after {solution.steps} steps, loss {float(solution.loss):.3g}"
    names = [result.name for result in solution.result]
    counts = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    return f"{len(names)} starts: {counts}"
