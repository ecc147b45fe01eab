"""What the scripts with pictures share: `python examples/heat.py [--short] [--out heat.png]`.

Each has `solve(short)`, which returns its figures and what a picture needs, and `draw(found)`, which returns it.
"""

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import riesz

jax.config.update("jax_enable_x64", True)


def of_itself(solution: riesz.Solution | riesz.MarchSolution, name: str = "") -> dict[str, Any]:
    """What a run says of itself, slab by slab where there are slabs; losses of slabs are added."""
    runs = solution.slabs if isinstance(solution, riesz.MarchSolution) else (solution,)
    losses, looks = ([np.array(run.history[column]) for run in runs] for column in ("loss", "between"))
    for run, loss, look in zip(runs, losses, looks, strict=True):
        look[loss == float(run.loss)] = float(run.between)  # at the solution
    return {
        f"{name}loss at the points": sum(float(run.loss) for run in runs),
        f"{name}loss between the points": sum(float(run.between) for run in runs),
        f"{name}result": solution.result.name,
        f"{name}notes": " ".join(solution.notes) or "none",
        f"{name}steps": solution.steps,
        f"{name}losses": np.concatenate(losses),
        f"{name}looks": np.concatenate(looks),
        f"{name}solved": np.concatenate([loss == float(run.loss) for run, loss in zip(runs, losses, strict=True)]),
    }


def draw_losses(axes: Axes, found: dict[str, Any], name: str = "", colour: str = "#0072B2", mark: str = "s") -> None:
    """The loss at the points as a line, between them as marks, which are filled at the solution; the legend below."""
    losses, looks, solved = (found[f"{name}{column}"] for column in ("losses", "looks", "solved"))
    seen, steps = np.isfinite(looks) & ~solved, np.arange(losses.size)
    axes.semilogy(losses, color=colour, linewidth=1, label=f"{name}at the points")
    axes.semilogy(steps[seen], looks[seen], mark, color=colour, fillstyle="none", label=f"{name}between them")
    axes.semilogy(steps[solved], looks[solved], mark, color=colour, label=f"{name}at the solution")
    axes.set(xlabel="steps", title="loss")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    axes.grid(alpha=0.25)


def main(file: str, solve: Callable[[bool], dict[str, Any]], draw: Callable[[dict[str, Any]], Figure]) -> None:
    """Solve, print every number that was found, and save the picture."""
    name = pathlib.Path(file).stem
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="fewer steps, to see that it runs")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(f"{name}.png"), help="the picture")
    options = parser.parse_args()
    found = solve(options.short)
    for key, value in found.items():
        if isinstance(value, (int, float, str)):
            print(f"{key}: {value:.3g}" if isinstance(value, float) else f"{key}: {value}")
    draw(found).savefig(options.out, dpi=130)
    print(f"The picture is {options.out}.")
