"""What auto returns, problem by problem, as Markdown: the figures by which a change of it is judged.

    python benchmarks/table.py [--rows poisson heat ...] [--starts 10] [--first 0] [--store out/table] [--fresh]

Rows are the equations of equations.py, the four problems of the paper, the digits and NIST's data sets. Unless a target
is named, auto is called as a user does, `riesz.minimise(loss, D, theta0)`. Steps are factorisations; CPU seconds
exclude compilation. The median of steps to a target counts a start that misses it as infinitely many.

Every start is stored in a file of its own as soon as it is known, so that an interrupted command goes on when it is
given again; --fresh makes everything anew. A file also names the code that made it, and the last line of the output
says which results are of other code than the present.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import collections
import functools
import itertools
import pathlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import digits
import jax
import jax.numpy as jnp
import nist
import numpy as np
import solve
from equations import equation
from store import Store, code

import riesz

jax.config.update("jax_enable_x64", True)

SHIFTS = {"convolution": 1e-2, "mlp": 1e-1, "flax": 1e-2}
"""The shift for each network that reads digits: of 3e-3, 1e-2 and 3e-2 for the convolution, and of 1e-3, 1e-2, 3e-2,
1e-1 and 3e-1 for mlp, the one with the lowest loss after ten steps from start 0; for flax the gallery's, untried."""
READS = 10
"""The steps after which digits are read."""
BUDGETS = {"poisson": 500, "heat": 700}
"""The steps that an equation may take; what a run of so many returns is told beside what the default call returns."""
NIST_STEPS = 5000
"""The step limit of the checker of NIST's data sets."""


# Runs: what is known of one start, as numbers and text. ---------------------------------------------------------------

_compiled = set()


def run(name, loss, D, theta, method=None, **options):
    """A run, and its CPU seconds; the first of its name is preceded by one of a single step, which compiles."""
    call = lambda **more: riesz.minimise(loss, D, theta, method, progress=False, throw=False, **{**options, **more})
    if name not in _compiled:
        call(max_steps=1)
        _compiled.add(name)
    began = time.process_time()
    found = call()
    seconds = time.process_time() - began
    if found.result is riesz.Result.INTERRUPTED:  # a part of a run is no result
        raise KeyboardInterrupt
    known = {"steps": int(found.steps), "result": found.result.name, "loss": float(found.loss), "seconds": seconds}
    return found, known


problem_of = functools.cache(equation)
reading_of = functools.cache(digits.reading)


@functools.cache
def paper():
    """The problems of the paper, by name."""
    return {problem.name: problem for problem in solve.problems()}


def solved(name, seed):
    """An equation: the relative L2 error that the default call returns, and with `max_steps` of its budget."""
    problem = problem_of(name)
    metrics = {"error": problem.error}
    found, known = run(name, problem.loss, problem.D, problem.start(seed), metrics=metrics)
    best = int(np.argmin(found.history["loss"][: BUDGETS.get(name, found.steps) + 1]))
    within = float(found.history["error"][best])
    return {"error": float(problem.error(found.theta)), "within": within, **known}


def to_target(name, seed):
    """A problem of the paper: the steps to its target."""
    problem = paper()[name]
    tests = {"metrics": {"error": problem.error}, "target": {"error": problem.target}, "max_steps": problem.max_steps}
    found, known = run(f"{name} to target", problem.loss, problem.D, problem.start(seed), **tests)
    return {"reached": found.result is riesz.Result.TARGET_REACHED, **known}


def left_alone(name, seed):
    """A problem of the paper: the mean squared residual, twice the loss, that the default call returns."""
    problem = paper()[name]
    found, known = run(f"{name} alone", problem.loss, problem.D, problem.start(seed))
    return {"residual": 2 * float(found.loss), **known}


def read(name, seed, method=None):
    """Digits: the share of held-out images that are read correctly after a few steps, and the loss of the others."""
    problem = reading_of(name)
    found, known = run(f"{name} by {method}", problem.loss, problem.D, problem.start(seed), method, max_steps=READS)
    return {"held out": float(problem.held_out(found.theta)), **known}


def read_by_shift(name, seed):
    """Digits by full Gauss-Newton steps with the shift that was chosen by hand."""
    return {"shift": SHIFTS[name], **read(name, seed, digits.shifted(SHIFTS[name]))}


@functools.cache
def checker():
    """The checker of NIST's data sets, which stands beside them."""
    if not nist.CHECKER.exists():
        sys.exit(f"{nist.CHECKER} is missing: it reads the data sets of NIST's Statistical Reference Datasets.")
    return digits.module_at(nist.CHECKER)


def certified(number):
    """A data set of NIST from one of its two starts: the digits found of every parameter."""
    check = checker()
    name = sorted(check.MODELS)[number // 2]
    x, y, starts, truth = check.load(name)
    loss = riesz.least_squares(riesz.points(jnp.asarray(x), data=jnp.asarray(y)))
    D, theta0 = riesz.parametrise(check.MODELS[name], jnp.asarray(starts[number % 2]))
    found, known = run(f"{name} {number % 2}", loss, D, theta0, max_steps=NIST_STEPS)
    return {"data": name, "start": number % 2 + 1, "digits": check.digits(found.theta, truth), **known}


# Rows: what is printed of all starts. ---------------------------------------------------------------------------------


def column(found, name):
    return np.array([result[name] for result in found])


def steps_of(found):
    steps = column(found, "steps")
    return f"{np.median(steps):.0f} | {steps.max()}"


def results_of(found):
    counts = collections.Counter(column(found, "result").tolist())
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def equation_cells(alone):
    """Of an equation."""
    errors, seconds, within = column(alone, "error"), column(alone, "seconds"), column(alone, "within")
    every = " ".join(f"{error:.1e}" for error in errors)
    return (
        f"{every} | {np.median(errors):.1e} | {errors.max():.1e} | {within.max():.1e} | {steps_of(alone)} "
        f"| {results_of(alone)} | {np.median(seconds):.0f}"
    )


def target_cells(target):
    """Of a problem with a target."""
    reached, steps = column(target, "reached"), column(target, "steps")
    median = np.median(np.where(reached, steps, np.inf))
    most = f"{steps[reached].max()}" if reached.any() else "-"
    return f"{reached.sum()} of {len(target)} | {solve.shown(median, '.0f')} | {most}"


def residual_cells(target, alone):
    """Of a problem with a target that is also left alone."""
    residuals = column(alone, "residual")
    return (
        f"{target_cells(target)} | {np.median(residuals):.1e} | {residuals.max():.1e} | {steps_of(alone)} "
        f"| {results_of(alone)}"
    )


def digits_cells(auto, shift):
    """Of a network that reads digits."""
    shares, losses, others = 100 * column(auto, "held out"), column(auto, "loss"), column(shift, "loss")
    other_shares = 100 * column(shift, "held out")
    return (
        f"{np.median(shares):.1f} % | {shares.min():.1f} % | {np.median(losses):.1e} | {shift[0]['shift']:g} "
        f"| {np.median(other_shares):.1f} % | {other_shares.min():.1f} % | {np.median(others):.1e} "
        f"| {(losses <= others).sum()} of {len(auto)} | {np.median(column(auto, 'seconds')):.0f}"
    )


def nist_cells(alone):
    """Of NIST's data sets."""
    found = column(alone, "digits")
    return f"{(found >= 4).sum()} of {found.size} | {found.mean():.2f} | {(found >= 9).sum()} | {results_of(alone)}"


HEADS = {
    equation_cells: "relative L2 error returned, each start | median | worst | worst within the bar's steps "
    "| steps, median | most | results | CPU s, median",
    residual_cells: "reached | steps, median | most | left alone: mean squared residual, median | worst "
    "| steps, median | most | results",
    target_cells: "reached | steps, median | most",
    digits_cells: f"held out after {READS} steps, median | least | training loss, median | shift by hand: shift "
    "| held out, median | least | training loss, median | auto's loss no higher | CPU s of auto, median",
    nist_cells: "solved | mean digits | nine digits on | results",
}
"""What the columns of each kind of row are."""


@dataclass
class Row:
    """A line of the table."""

    title: str
    starts: int
    """How many starts there are unless said."""
    parts: dict[str, Callable]
    """What is run, by name: functions of a seed."""
    cells: Callable
    """The columns, from the results of every part."""
    bar: str
    own: bool = False
    """Whether the starts are given by the problem, and cannot be chosen."""


def rows():
    """Every row, by name, in the order in which they are printed."""
    equations = {
        "poisson": ("Poisson 2d, 2-64-1", 10, "10 of 10 below 1e-12, at most 500 steps"),
        "heat": ("heat 1+1d, 2-64-1", 10, "10 of 10 below 1e-10, median at most 1e-12, at most 700 steps"),
        "helmholtz": ("Helmholtz (1,4), 2-20-20-1", 5, "median at most 1e-8"),
        "wave": ("wave, 2-20-20-1", 5, "median at most 3e-5"),
        "wave-30": ("wave, 2-30-30-1", 3, "median at most 3e-7"),
    }
    residuals = {
        "advection-diffusion": ("advection-diffusion to 1e-10", "50 of 50, at most 20 steps; at most 1e-25"),
        "reaction-diffusion": ("reaction-diffusion to 1e-8", "50 of 50, at most 12 steps; at most 1e-24"),
    }
    targets = {
        "mackey-glass": ("Mackey-Glass to 2e-5", "49 of 50, median at most 40 steps"),
        "extended-xor": ("extended XOR to 3e-2", "50 of 50, at most 10 steps"),
    }
    networks = {"convolution": "the example's convolution", "mlp": "`mlp((64, 20, 10))`", "flax": "flax, 64-64-10"}
    bar = "median at least 97 %, every start at least 95 %, training loss no higher than the shift's"
    of = functools.partial
    return {
        **{name: Row(title, starts, {"alone": of(solved, name)}, equation_cells, bar)
           for name, (title, starts, bar) in equations.items()},
        **{name: Row(title, 50, {"target": of(to_target, name), "alone": of(left_alone, name)}, residual_cells, bar)
           for name, (title, bar) in residuals.items()},
        **{name: Row(title, 50, {"target": of(to_target, name)}, target_cells, bar)
           for name, (title, bar) in targets.items()},
        **{f"digits-{name}": Row(f"digits, {title}", 10, {"auto": of(read, name), "shift": of(read_by_shift, name)},
                                 digits_cells, bar)
           for name, title in networks.items()},
        "nist": Row("NIST", 54, {"alone": certified}, nist_cells, "54, 10.6, 52", own=True),
    }  # fmt: skip


def main():
    every = rows()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=every, default=list(every), metavar="ROW", help=", ".join(every))
    parser.add_argument("--starts", type=int, help="how many; NIST has its own 54")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first start")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("out/table"))
    parser.add_argument("--fresh", action="store_true", help="make everything anew, whatever is stored")
    options = parser.parse_args()
    code()  # as it was imported: it may be edited while this runs
    store, others = Store(options.store, options.fresh), collections.Counter()
    chosen = [(name, row) for name, row in every.items() if name in options.rows]
    for cells, group in itertools.groupby(chosen, lambda pair: pair[1].cells):
        head = f"| | {HEADS[cells]} | bar |"
        print(f"\n{head}\n{'|---' * (head.count('|') - 1)}|", flush=True)
        for name, row in group:
            first, count = (0, row.starts) if row.own else (options.first, options.starts or row.starts)
            seeds = range(first, first + count)
            found = {
                part: [store.result(functools.partial(find, seed), row=name, part=part, seed=seed) for seed in seeds]
                for part, find in row.parts.items()
            }
            others[name] = sum(result["code"] != code() for results in found.values() for result in results)
            print(f"| {row.title} | {cells(**found)} | {row.bar} |", flush=True)
            solve.forget()
            _compiled.clear()
    if others.total():
        named = ", ".join(f"{count} of {name}" for name, count in others.items() if count)
        print(f"\nStored results of other code than the present: {named}; --fresh makes them anew.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted; the same command goes on, unless it is given --fresh.")
