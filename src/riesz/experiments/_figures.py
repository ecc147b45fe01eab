"""The paper's figures, drawn from finished runs: convergence, the classification problem, the two PDE solutions."""

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from . import advection_diffusion, extended_xor, reaction_diffusion
from ._competitors import COMPETITORS, FIGURES, Figure, labels_of
from ._experiment import Experiment
from ._results import Results
from ._store import Stored, aside

matplotlib.rcParams["pdf.fonttype"] = 42  # text in a PDF stays text
HOW_SECONDS = "iterations × median seconds of one, starts run alone; without compilation and metrics"
SHOWN_BY = "NHB"
"""The method whose solutions are drawn."""


def figures_of(results: Results) -> list[Figure]:
    """The figures that the runs allow, each with the methods that were run."""
    figures = []
    for figure in FIGURES:
        labels = tuple(label for label in figure.labels if (figure.problem, label) in results)
        known = () if figure.part == "main" else labels_of(figure.problem, ("main",))
        if set(labels) - set(known):
            figures.append(dataclasses.replace(figure, labels=labels))
    return figures


def save(canvas: Canvas, folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    """Write a figure as PNG and as PDF."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        with aside(path) as file:
            canvas.savefig(file, format=path.suffix[1:], dpi=150)
    return paths


def _draw(axes: Axes, results: Results, experiment: Experiment, label: str, against: str) -> None:
    """The median of one method with its 10-90 % band."""
    column = experiment.error if against == "iterations" else experiment.error_against_time
    band = results.band(experiment.name, label, column)
    scale = 1.0 if against == "iterations" else results.seconds_per_iteration(experiment.name, label)
    x = scale * np.arange(band.median.size)
    competitor = COMPETITORS[label]
    reached, starts = results.success(experiment.name, label)
    finite = lambda values: np.where(np.isfinite(values), values, np.nan)
    # What is infinite is drawn as far above the figure.
    high = np.minimum(band.high, 1e9 * band.median[0])
    axes.fill_between(x, np.minimum(band.low, high), high, color=competitor.colour, alpha=0.045, linewidth=0)
    axes.plot(
        x, finite(band.median), color=competitor.colour, linestyle=competitor.line, linewidth=1.5,
        label=f"{label} ({reached}/{starts})",
    )  # fmt: skip


def _limits(axes: Axes, results: Results, experiment: Experiment, labels: tuple[str, ...], against: str) -> None:
    """Show what converges: diverging curves leave at the top, long baselines at the right."""
    column = experiment.error if against == "iterations" else experiment.error_against_time
    bands = [results.band(experiment.name, label, column) for label in labels]
    shown = lambda values: [float(value) for value in values if 0 < value < np.inf]
    first = max(shown(band.median[0] for band in bands), default=1.0)
    least = min(shown(np.min(band.low) for band in bands), default=first)
    # Limits first: a logarithmic axis looks for its own where there are none, and finds none among zeros.
    axes.set_ylim(max(least, 1e-300) / 2, 20 * max(least, first, 1e-300))
    axes.set_yscale("log")
    axes.set_xlim(0, right_end(results, experiment.name, labels, against))


def right_end(results: Results, problem: str, labels: tuple[str, ...], against: str) -> float:
    """Where an axis of iterations or seconds ends: a little after the last method's median start is at the target."""
    ends: dict[bool, list[float]] = {True: [], False: []}
    for label in labels:
        scale = 1.0 if against == "iterations" else results.seconds_per_iteration(problem, label)
        longest = max(run.steps for run in results.runs(problem, label))
        median = 1.25 * float(np.median(results.iterations(problem, label)))
        # Methods that do not arrive, and baselines with their many cheap steps, do not stretch the axis.
        matters = bool(np.isfinite(median)) and COMPETITORS[label].patience == 1
        ends[matters].append(scale * min(longest, median))
    # A method whose runs made no step, or have no times, says nothing of where to end.
    known = [[end for end in ends[matters] if 0 < end < np.inf] for matters in (True, False)]
    return max(known[0] or known[1], default=1.0)


def draw_convergence(axes: Axes, results: Results, figure: Figure, experiment: Experiment, against: str) -> None:
    """Error against iterations or seconds, for the methods of a figure that have been run."""
    for label in figure.labels:
        _draw(axes, results, experiment, label, against)
    _limits(axes, results, experiment, figure.labels, against)
    column = experiment.error if against == "iterations" else experiment.error_against_time
    if column in experiment.target:
        axes.axhline(experiment.target[column], color="0.4", linestyle=(0, (1, 3)), linewidth=1)
    axes.set_xlabel("iterations" if against == "iterations" else "seconds")
    axes.set_ylabel(experiment.labels[column])
    axes.grid(alpha=0.25)


def convergence(results: Results, figure: Figure, experiment: Experiment) -> Canvas:
    """One figure of the paper: against iterations on the left, against seconds on the right."""
    canvas = Canvas(figsize=(11, 4.6), layout="constrained")
    left, right = canvas.subplots(1, 2)
    draw_convergence(left, results, figure, experiment, "iterations")
    draw_convergence(right, results, figure, experiment, "seconds")
    starts = results.starts()
    canvas.suptitle(f"{figure.title}: median and 10-90 % band of {starts} starts", fontsize=12)
    canvas.legend(
        *left.get_legend_handles_labels(), loc="outside right center", fontsize=9, title="starts at the target"
    )
    canvas.supxlabel(f"seconds = {HOW_SECONDS}", fontsize=8, color="0.35")
    return canvas


def overview(results: Results, experiments: dict[str, Experiment]) -> Canvas:
    """The four problems of section 5 in one picture, against iterations."""
    figures = [figure for figure in figures_of(results) if figure.name in experiments]
    columns = 2 if len(figures) > 1 else 1
    rows = -(-len(figures) // columns)
    canvas = Canvas(figsize=(5.5 * columns, 3.7 * rows), layout="constrained")
    for axes, figure in zip(np.ravel(canvas.subplots(rows, columns, squeeze=False)), figures, strict=False):
        draw_convergence(axes, results, figure, experiments[figure.problem], "iterations")
        axes.set_title(figure.title, fontsize=11)
        axes.legend(fontsize=7, loc="upper right", ncols=2)
    canvas.supxlabel(
        f"median and 10-90 % band of {results.starts()} starts; in brackets, starts that reached the target",
        fontsize=9, color="0.35",
    )  # fmt: skip
    return canvas


# Solutions -----------------------------------------------------------------------------------------------------------


def shown_run(results: Results, problem: str) -> Stored | None:
    """The run whose solution is drawn: the first start of NHB that reached the target."""
    if (problem, SHOWN_BY) not in results:
        return None
    runs = results.runs(problem, SHOWN_BY)
    return next((run for run in runs if run.result == "TARGET_REACHED"), None)


def classification(experiment: Experiment, run: Stored | None) -> Canvas:
    """The data of the classification problem, and the decision regions that a run has learned."""
    x, labels = extended_xor.clusters(200, experiment.settings["spacing"], 2 * experiment.settings["data_seed"])
    canvas = Canvas(figsize=(9, 4.3) if run else (4.6, 4.3), layout="constrained")
    panels = np.ravel(canvas.subplots(1, 2 if run else 1, sharex=True, sharey=True))
    for axes in panels:
        for label, colour, marker in ((0, "#0072B2", "o"), (1, "#E69F00", "^")):
            chosen = x[labels == label]
            axes.scatter(*chosen.T, s=7, color=colour, marker=marker, linewidth=0, label=f"class {label}", zorder=2)
        axes.set_xlabel("$x_1$")
        axes.set_aspect("equal")
    panels[0].set_ylabel("$x_2$")
    panels[0].set_title("training data, 1800 points")
    panels[0].legend(loc="upper right", framealpha=1.0)
    if run:
        reach = float(np.abs(x).max()) + 0.5
        side = jnp.linspace(-reach, reach, 241)
        points = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2)
        probability = jax.nn.sigmoid(jax.vmap(experiment.D(jnp.asarray(run.theta)))(points)).reshape(241, 241)
        shades = panels[1].contourf(
            side, side, probability, levels=np.linspace(0, 1, 11), cmap="cividis", alpha=0.6, zorder=0
        )
        panels[1].contour(side, side, probability, levels=[0.5], colors="black", linewidths=1.2, zorder=3)
        canvas.colorbar(shades, ax=panels[1], label="probability of class 1")
        panels[1].set_title(f"learned by {run.method}, {run.steps} iterations")
    return canvas


_PDES = {"advection-diffusion": (advection_diffusion, (0.0, 1.0)), "reaction-diffusion": (reaction_diffusion, (-1, 1))}


def pde_solution(experiment: Experiment, run: Stored) -> Canvas:
    """A PDE's exact solution, a run's start and end, and the error of the end."""
    module, (low, high) = _PDES[experiment.name]
    x = jnp.linspace(low, high, 1001)
    values = lambda theta: np.asarray(jax.vmap(experiment.D(jnp.asarray(theta)))(x))
    exact = np.asarray(jax.vmap(module.exact)(x))
    learned = values(run.theta)
    canvas = Canvas(figsize=(9, 3.8), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.plot(x, exact, color="black", linewidth=3, alpha=0.3, label="exact")
    left.plot(x, values(experiment.start(run.seed)), color="#888888", linestyle="dotted", label="random start")
    colour, words = COMPETITORS[run.method].colour, f"{run.method}, {run.steps} iterations"
    left.plot(x, learned, color=colour, linestyle="dashed", label=words)
    left.set_ylabel("u(x)")
    spread = float(np.ptp(exact))
    left.set_ylim(exact.min() - spread, exact.max() + spread)
    left.legend()
    right.semilogy(x, np.maximum(np.abs(learned - exact), 1e-17), color=colour)
    right.set_ylabel("|u(x) - exact|")
    for axes in (left, right):
        axes.set_xlabel("x")
        axes.grid(alpha=0.25)
    canvas.suptitle(experiment.title, fontsize=12)
    return canvas


def draw_all(folder: pathlib.Path, results: Results, experiments: dict[str, Experiment]) -> dict[str, pathlib.Path]:
    """Every figure that the runs allow, in `folder`; the PNG files by name."""
    canvases: dict[str, Any] = {"overview": overview(results, experiments)}
    for figure in figures_of(results):
        canvases[figure.name] = convergence(results, figure, experiments[figure.problem])
    for name, experiment in experiments.items():
        run = shown_run(results, name)
        if name == "extended-xor":
            canvases[f"{name}-regions"] = classification(experiment, run)
        elif name in _PDES and run:
            canvases[f"{name}-solution"] = pde_solution(experiment, run)
    return {name: save(canvas, folder, name)[0] for name, canvas in canvases.items()}
