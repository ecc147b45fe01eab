"""The problems on which solvers of differential equations are compared in the literature, and what riesz reaches.

    python benchmarks/frontier.py [--only poisson-2d heat ...] [--starts 3] [--first 0] [--store out/frontier] [--fresh]
    python benchmarks/frontier.py --markdown    # the table of docs/frontier.md, from what is stored

Every start is `riesz.minimise` with its default method; a seed chooses the parameters at the start. Its result is
stored in a file of its own as soon as it is known, so that an interrupted command goes on when it is given again;
--fresh makes everything anew. CPU seconds are those of all threads, BLAS has one, and what compiling takes is told
separately.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import collections
import functools
import pathlib
import sys

import frontier_steady
import jax
import numpy as np
import solve
from store import Store, code

jax.config.update("jax_enable_x64", True)

HEAD = (
    "problem | published best | riesz: model and points | parameters | error, median | worst | bar | starts at the bar "
    "| CPU s, median | compiling, s | steps, median | between the points / at them, worst | results"
)


def problems():
    """Every problem by name, made when it is needed."""
    try:
        import frontier_time
    except ModuleNotFoundError:  # problems that evolve are in a file of their own
        return frontier_steady.PROBLEMS
    return {**frontier_steady.PROBLEMS, **frontier_time.PROBLEMS}


def cells(problem, found):
    """A line of the table, of the starts that are known."""
    column = lambda name: np.array([result.get(name, np.nan) for result in found])
    errors, worst = column("error"), np.nanmax(column("between") / column("loss"), initial=0)
    bar = f"{problem.bar:.0e} in {problem.seconds:.0f} s" if np.isfinite(problem.bar) else "-"
    arrived = (errors <= problem.bar) & (column("seconds") <= problem.seconds)
    counts = collections.Counter(column("result").tolist())
    results = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return (
        f"| {problem.name} | {problem.published} | {problem.setup} | {found[0]['parameters']} "
        f"| {np.median(errors):.1e} | {errors.max():.1e} | {bar} | {arrived.sum()} of {len(found)} "
        f"| {np.median(column('seconds')):.0f} | {np.nanmax(column('compiling')):.0f} "
        f"| {np.median(column('steps')):.0f} | {f'{worst:.1g}' if worst else '-'} | {results} |"
    )


def main():
    every = problems()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=every, default=list(every), metavar="NAME", help=", ".join(every))
    parser.add_argument("--starts", type=int, default=3, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first start")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("out/frontier"))
    parser.add_argument("--fresh", action="store_true", help="make everything anew, whatever is stored")
    parser.add_argument("--markdown", action="store_true", help="run nothing, print what is stored")
    options = parser.parse_args()
    code()  # as it was imported: it may be edited while this runs
    store, others = Store(options.store, options.fresh), collections.Counter()
    print(f"| {HEAD} |\n{'|---' * (HEAD.count('|') + 1)}|", flush=True)
    for name in (name for name in every if name in options.only):
        problem, seeds = every[name](), range(options.first, options.first + options.starts)
        if options.markdown:
            found = [store.stored(problem=name, seed=seed) for seed in seeds]
            found = [result for result in found if result is not None]
        else:
            find = problem.solve
            found = [store.result(functools.partial(find, seed), problem=name, seed=seed) for seed in seeds]
            solve.forget()
        others[name] = sum(result["code"] != code() for result in found)
        if found:
            print(cells(problem, found), flush=True)
    if others.total():
        named = ", ".join(f"{count} of {name}" for name, count in others.items() if count)
        print(f"Stored results of other code than the present: {named}; --fresh makes them anew.", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted; the same command goes on, unless it is given --fresh.")
