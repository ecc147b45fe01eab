"""The study of batches: what is left of every method when each step sees fewer and fewer points.

The paper's second open question. On reaction-diffusion every step draws fresh uniform points, on Mackey-Glass a
mini-batch of the 500 pairs; the rows of a step go from eight times the number d of parameters to a tenth of it. All
methods make the same number of steps with the settings that they have everywhere else. The error of a run is the
median, over its last iterates, of the error on all points.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure as Canvas

from .._methods.names import METHODS
from .._problem.integral import AbstractLoss
from .._problem.losses import least_squares, residual
from .._problem.measures import minibatch, monte_carlo
from . import mackey_glass, reaction_diffusion
from ._competitors import BLACK, BLUE, GREEN, ORANGE, RED, Competitor
from ._experiment import Experiment
from ._figures import save
from ._reproduce import Plan
from ._results import Band
from ._store import Stored, aside

SHARES = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1)
"""Rows of a step, in units of d."""
LAST = 20
"""The error of a run is the median of so many last iterates."""
METHODS_STUDIED = (
    Competitor("NGD", RED, "solid", METHODS["ngd"]),
    Competitor("NHB", GREEN, "solid", METHODS["nhb"]),
    Competitor("QNHB", GREEN, "dotted", METHODS["qnhb"]),
    Competitor("NN-II", BLUE, "dashed", METHODS["nn2"]),
    Competitor("SPRING", ORANGE, "dashdot", METHODS["spring"]),
    Competitor("auto", BLACK, "solid", METHODS["auto"]),
)


@dataclass(frozen=True)
class Subject:
    """A problem of the study: its full form, its loss with n rows a step, and the error that counts."""

    experiment: Experiment
    loss: Callable[[int], AbstractLoss]
    error: str
    label: str

    def rows(self, share: float) -> int:
        """The rows of a step."""
        return round(share * self.experiment.size)

    def at(self, share: float, steps: int) -> Experiment:
        """The problem with so many rows a step; it runs all its steps."""
        rows = self.rows(share)
        return dataclasses.replace(
            self.experiment,
            name=f"{self.experiment.name}-{rows}",
            title=f"{self.experiment.title}, {rows} rows",
            loss=self.loss(rows),
            metrics={self.error: self.experiment.metrics[self.error]},
            target={},
            max_steps=steps,
        )


def subjects() -> tuple[Subject, ...]:
    """One PDE with fresh points, one regression problem with mini-batches."""
    pde, regression = reaction_diffusion.experiment(), mackey_glass.experiment()
    (data,) = regression.loss.draw(None, regression.D, regression.start(0))
    fresh = lambda n: 0.5 * residual(reaction_diffusion.operator, reaction_diffusion.source, monte_carlo(-1.0, 1.0, n))
    return (
        Subject(pde, fresh, "train_residual", "mean squared residual"),
        Subject(regression, lambda n: least_squares(minibatch(data, n)), "train_mse", "training MSE"),
    )


def plans(steps: int) -> list[Plan]:
    """Every subject at every batch size, with every method."""
    return [Plan(subject.at(share, steps), METHODS_STUDIED) for subject in subjects() for share in SHARES]


@dataclass(frozen=True)
class Row:
    """What one method makes of one problem with so many rows a step."""

    problem: str
    share: float
    rows: int
    method: str
    median: float
    low: float
    high: float


def rows(runs: list[Stored]) -> list[Row]:
    """The table: median and 10-90 % band over the starts; what is not a number counts as infinite."""
    found: dict[tuple[str, str], list[float]] = {}
    errors = {subject.experiment.name: subject.error for subject in subjects()}
    for run in runs:
        column = run.history[errors[run.problem.rsplit("-", 1)[0]]][-LAST:]
        found.setdefault((run.problem, run.method), []).append(
            float(np.median(np.where(np.isfinite(column), column, np.inf)))
        )
    table = []
    for subject in subjects():
        for share in SHARES:
            name, count = f"{subject.experiment.name}-{subject.rows(share)}", subject.rows(share)
            for competitor in METHODS_STUDIED:
                band = Band.of(np.array(found[name, competitor.label]))
                median, low, high = (float(part) for part in (band.median, band.low, band.high))
                table.append(Row(subject.experiment.name, share, count, competitor.label, median, low, high))
    return table


def draw(table: list[Row]) -> Canvas:
    """Error against rows over d, a panel for each problem."""
    canvas = Canvas(figsize=(11, 4.6), layout="constrained")
    panels = canvas.subplots(1, 2)
    for axes, subject in zip(panels, subjects(), strict=True):
        mine = [row for row in table if row.problem == subject.experiment.name]
        for competitor in METHODS_STUDIED:
            line = [row for row in mine if row.method == competitor.label]
            x = [row.share for row in line]
            finite = lambda values: np.where(np.isfinite(values), values, np.nan)
            low, high = ([getattr(row, end) for row in line] for end in ("low", "high"))
            axes.fill_between(x, finite(low), finite(np.minimum(high, 1e12)), color=competitor.colour, alpha=0.07, lw=0)
            axes.plot(
                x, finite([row.median for row in line]), color=competitor.colour, linestyle=competitor.line,
                marker="o", markersize=3.5, label=competitor.label,
            )  # fmt: skip
        sound = [row.median for row in mine if row.median < 1e3]
        axes.set(
            xscale="log", yscale="log", title=subject.experiment.title, xlabel="rows of a step / parameters",
            ylabel=subject.label, ylim=(min(sound) / 5, min(100 * max(sound), 1e2)),
        )  # fmt: skip
        ticks = sorted({row.share for row in mine})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        axes.axvline(1.0, color="0.4", linestyle=(0, (1, 3)), linewidth=1)
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    canvas.supxlabel("median and 10-90 % band over starts; what leaves at the top diverges", fontsize=9, color="0.35")
    return canvas


def publish(folder: pathlib.Path, table: list[Row]) -> list[pathlib.Path]:
    """Write the table as CSV and the figure as PNG and PDF."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([field.name for field in dataclasses.fields(Row)])
    writer.writerows(dataclasses.astuple(row) for row in table)
    with aside(folder / "batches.csv") as file:
        file.write(text.getvalue().encode())
    return [folder / "batches.csv", *save(draw(table), folder, "batches")]
