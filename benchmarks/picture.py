"""The picture of the README: error against seconds, auto beside what else is at hand, from the same starts.

    python benchmarks/picture.py [--starts 3] [--seconds 20] [--out docs/auto.png]

Every method has the same seconds on every start; compilation and the evaluation of errors are not counted. Adam and
L-BFGS are optax's, with a learning rate of 1e-2; SciPy's `least_squares` ("lm", MINPACK) has our exact, compiled
Jacobian. Lines are the lowest error so far, one for each start. Prints the medians of the final ones too.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import pathlib
import time

import jax
import matplotlib
import numpy as np
import optax
import scipy.optimize
from matplotlib.figure import Figure
from solve import Reached, problems, rows_of

import riesz
from riesz.experiments._baselines import Optax

SHOWN = {
    "advection-diffusion": ("Advection-diffusion, 46 parameters", "mean squared residual"),
    "poisson-2d": ("Poisson in two dimensions, 257 parameters", "relative L2 error"),
}
"""The problems, with the titles of their panels and what is measured."""
STYLES = {
    "auto": ("#0072B2", "solid", 2.0),
    "nhb": ("#009E73", "dashed", 1.3),
    "SciPy least_squares": ("#D55E00", "dashdot", 1.3),
    "L-BFGS": ("#000000", "dotted", 1.3),
    "Adam": ("#888888", "solid", 1.0),
}


def by_riesz(method):
    """The seconds and errors of a method from one start."""

    def solve(problem, theta, limit):
        error = lambda theta: problem.error(theta)
        solution = riesz.minimise(
            problem.loss, problem.D, theta, method, max_steps=1_000_000, max_seconds=limit,
            metrics={"error": error}, progress=False, throw=False,
        )  # fmt: skip
        return solution.history["seconds"], solution.history["error"]

    return solve


def by_scipy(problem, theta, limit):
    """The same of SciPy's least_squares, at every evaluation of its residuals."""
    residual, rows = jax.jit(problem.residual), jax.jit(rows_of(problem))
    error = jax.jit(lambda theta: problem.error(theta))
    for function in (residual, rows, error):
        function(theta)
    seconds, errors, aside = [], [], 0.0

    def followed(theta):
        nonlocal aside
        now = time.perf_counter()
        seconds.append(now - began - aside)
        errors.append(float(error(theta)))
        aside += time.perf_counter() - now
        if seconds[-1] > limit:
            raise Reached
        return np.asarray(residual(theta))

    began = time.perf_counter()
    try:
        scipy.optimize.least_squares(
            followed, np.asarray(theta), lambda theta: np.asarray(rows(theta)), method="lm", max_nfev=1_000_000,
            ftol=1e-15, xtol=1e-15, gtol=1e-15,
        )  # fmt: skip
    except Reached:
        pass
    return np.array(seconds), np.array(errors)


def solvers():
    """By name, in the order of the legend."""
    return {
        "auto": by_riesz(riesz.auto()),
        "nhb": by_riesz(riesz.nhb()),
        "SciPy least_squares": by_scipy,
        "L-BFGS": by_riesz(Optax(optax.lbfgs())),
        "Adam": by_riesz(Optax(optax.adam(1e-2))),
    }


def measure(problem, starts, limit):
    """Of every solver, the curves of all starts."""
    found = {name: [] for name in solvers()}
    made = solvers()
    for seed in range(starts):
        for name, solve in made.items():
            found[name].append(solve(problem, problem.start(seed), limit))
    return found


def draw(curves):
    """A panel for each problem."""
    matplotlib.rcParams.update({"font.size": 9})
    canvas = Figure(figsize=(8, 3.4), layout="constrained", dpi=110)
    panels = canvas.subplots(1, len(curves))
    for axes, (name, found) in zip(panels, curves.items(), strict=True):
        for label, runs in found.items():
            colour, line, width = STYLES[label]
            for k, (seconds, errors) in enumerate(runs):
                lowest = np.fmin.accumulate(np.where(np.isfinite(errors), errors, np.inf))
                axes.loglog(
                    np.maximum(seconds, 1e-3), lowest, color=colour, linestyle=line, linewidth=width,
                    label=None if k else label,
                )  # fmt: skip
        title, measured = SHOWN[name]
        axes.set(title=title, xlabel="seconds", ylabel=f"{measured}, lowest so far")
        axes.grid(alpha=0.25)
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(STYLES), frameon=False)
    return canvas


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/auto.png"))
    options = parser.parse_args()
    curves = {}
    print("| | " + " | ".join(STYLES) + " |\n|---|" + len(STYLES) * "---|")
    for problem in problems():
        if problem.name in SHOWN:
            curves[problem.name] = found = measure(problem, options.starts, options.seconds)
            ends = {name: np.median([np.nanmin(errors) for _, errors in runs]) for name, runs in found.items()}
            print(f"| {problem.name} | " + " | ".join(f"{end:.1e}" for end in ends.values()) + " |", flush=True)
            jax.clear_caches()
    draw(curves).savefig(options.out)


if __name__ == "__main__":
    main()
