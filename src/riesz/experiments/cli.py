"""The `riesz` command."""

import os
import pathlib
import sys
from typing import Annotated

import jax
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._methods import METHODS
from ._competitors import COMPETITORS
from ._reproduce import PROBLEMS, open_store, plan, run_all, summarise
from ._store import StoreError

console = Console()


class UsageError(Exception):
    """A wrong call, in a sentence that says what would be right."""


def reproduce(
    problems: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    seeds: int = 10,
    methods: tuple[str, ...] = ("main",),
    steps: int | None = None,
    out: pathlib.Path = pathlib.Path("out/reproduce"),
) -> None:
    """Run the paper's experiments; interrupt it and run it again as you like: finished runs are kept.

    Args:
        problems: any of mackey-glass, extended-xor, advection-diffusion, reaction-diffusion; all by default.
        seeds: the number of random starts.
        methods: "main" (the figures of section 5), "all" (the appendix too), or labels such as NHB-FD.
        steps: the step limit; each problem's own by default.
        out: where runs and tables are kept.

    """
    for name in problems:
        if name not in PROBLEMS:
            raise UsageError(f"there is no problem {name!r}; the problems are {', '.join(PROBLEMS)}.")
    for label in methods:
        if label not in COMPETITORS and label not in ("main", "all"):
            raise UsageError(f"there is no method {label!r}; the methods are main, all, {', '.join(COMPETITORS)}.")
    if seeds < 1 or (steps is not None and steps < 1):
        raise UsageError("--seeds and --steps must be at least 1.")
    chosen = methods[0] if methods in (("main",), ("all",)) else methods
    if not isinstance(chosen, str) and {"main", "all"} & set(chosen):
        raise UsageError("--methods takes main, or all, or labels, not a mixture.")
    store = open_store(out, steps)
    plans = plan(problems, chosen, steps)
    total = seeds * sum(len(item.competitors) for item in plans)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        runs = run_all(plans, seeds, store, lambda what, n: progress.update(task, description=what, advance=n))
    table = Table(title=f"To the target, over {seeds} starts; seconds of starts that ran alone")
    for heading in ("problem", "method", "iterations", "10-90 %", "seconds", "success"):
        table.add_column(heading, justify="left" if heading in ("problem", "method") else "right")
    shown = lambda value, form: "-" if value == float("inf") else format(value, form)
    for row in summarise(runs):
        band = f"{shown(row.low, '.0f')} to {shown(row.high, '.0f')}"
        table.add_row(
            row.problem, row.method, shown(row.iterations, ".0f"), band, shown(row.seconds, ".2f"), f"{row.success:.0%}"
        )
    console.print(table)
    errors = {item.experiment.name: item.experiment.error for item in plans}
    console.print(f"Every iterate is in {store.table(runs, errors)}.")


def methods() -> None:
    """List the methods, with one line of meaning each."""
    table = Table("name", "meaning", title="The methods of riesz")
    for name, method in METHODS.items():
        table.add_row(name, (method.__doc__ or "").splitlines()[0])
    console.print(table)


def main() -> None:
    """Run the command, in float64; a mistake is one sentence and exit code 2."""
    # In time: JAX loads its BLAS with the first factorisation. Several threads are slower on matrices of this size.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    jax.config.update("jax_enable_x64", True)
    try:
        tyro.extras.subcommand_cli_from_dict({"reproduce": reproduce, "methods": methods})
    except (UsageError, StoreError) as error:
        print(f"riesz: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("riesz: interrupted; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
