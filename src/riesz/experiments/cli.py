"""The `riesz` command."""

import os
import pathlib
import sys
from typing import Annotated

import jax
import tyro
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._methods.names import METHODS
from . import _batches
from ._competitors import COMPETITORS
from ._publish import Published, publish
from ._reproduce import PARTS, PROBLEMS, Plan, open_store, plan, run_all, stored_runs
from ._results import Band
from ._store import Store, Stored, StoreError
from .claims import Verdict

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
    """Run the paper's experiments and judge its claims; interrupt it and run it again: finished runs are kept.

    Args:
        problems: any of mackey-glass, extended-xor, advection-diffusion, reaction-diffusion; all by default.
        seeds: the number of random starts.
        methods: "main" (the figures of section 5), "paper" (the appendix too), "all" (baselines too), or labels.
        steps: the step limit; each problem's own by default.
        out: where runs, tables, figures and the report are kept.

    """
    for name in problems:
        if name not in PROBLEMS:
            raise UsageError(f"there is no problem {name!r}; the problems are {', '.join(PROBLEMS)}.")
    for label in methods:
        if label not in COMPETITORS and label not in PARTS:
            raise UsageError(f"there is no method {label!r}; there are {', '.join([*PARTS, *COMPETITORS])}.")
    if seeds < 1 or (steps is not None and steps < 1):
        raise UsageError("--seeds and --steps must be at least 1.")
    chosen = methods[0] if len(methods) == 1 and methods[0] in PARTS else methods
    if not isinstance(chosen, str) and set(PARTS) & set(chosen):
        raise UsageError("--methods takes main, paper, all, or labels, not a mixture.")
    if not chosen:
        raise UsageError("--methods takes main, paper, all, or labels.")
    runs = _watched(plan(problems, chosen, steps), seeds, open_store(out, steps))
    with console.status("Drawing figures and judging claims"):
        published = publish(out, runs, steps)
    _tell(published)


def _watched(plans: list[Plan], seeds: int, store: Store) -> list[Stored]:
    """Run what is missing, with a progress bar."""
    total = seeds * sum(len(item.competitors) for item in plans)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        runs = run_all(plans, seeds, store, lambda what, n: progress.update(task, description=what, advance=n))
        progress.update(task, description="All runs are done")
    return runs


def study(
    subject: Annotated[str, tyro.conf.Positional],
    /,
    seeds: int = 5,
    steps: int = 300,
    out: pathlib.Path = pathlib.Path("out/study"),
) -> None:
    """Study how methods degrade as the batch of a step shrinks; finished runs are kept.

    Args:
        subject: "batches".
        seeds: the number of random starts.
        steps: the steps of every run.
        out: where runs, the table and the figure are kept.

    """
    if subject != "batches":
        raise UsageError(f"there is no study {subject!r}; there is batches.")
    if seeds < 1 or steps < 1:
        raise UsageError("--seeds and --steps must be at least 1.")
    runs = _watched(_batches.plans(steps), seeds, Store(out, {"study": subject, "steps": steps}))
    found = _batches.rows(runs)
    for problem in dict.fromkeys(row.problem for row in found):
        title = f"{problem}: error after {steps} steps, median of {seeds} starts"
        table = Table("rows", "rows / d", title=title, box=box.SIMPLE_HEAD)
        for competitor in _batches.METHODS_STUDIED:
            table.add_column(competitor.label, justify="right")
        for share in _batches.SHARES:
            line = [row for row in found if (row.problem, row.share) == (problem, share)]
            shown = [f"{row.median:.1e}" if row.median < 1e3 else "diverges" for row in line]
            table.add_row(str(line[0].rows), f"{share:g}", *shown)
        console.print(table)
    for path in _batches.publish(out, found):
        print(path)


def report(folder: Annotated[pathlib.Path, tyro.conf.Positional], /) -> None:
    """Make tables, figures, verdicts and the report anew from every run that a folder holds.

    Args:
        folder: what was --out of `riesz reproduce`.

    """
    store = Store(folder)
    steps, runs = store.steps, stored_runs(store)
    if not runs:
        raise UsageError(f"{folder} holds no finished runs.")
    with console.status("Drawing figures and judging claims"):
        published = publish(folder, runs, steps)
    _tell(published)


def _tell(published: Published) -> None:
    """Print the closing table, the verdicts, and where everything is."""
    results = published.results
    shown = lambda value, form: format(value, form) if abs(value) < float("inf") else "-"
    for name in dict.fromkeys(problem for problem, _ in results):
        table = Table(title=f"{name}: to the target, {results.starts()} starts", box=box.SIMPLE_HEAD, min_width=72)
        for heading in ("method", "iterations", "10-90 %", "ms each", "seconds", "reached"):
            table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
        for method in (method for problem, method in results if problem == name):
            band = Band.of(results.iterations(name, method))
            each = results.seconds_per_iteration(name, method)
            reached, starts = results.success(name, method)
            table.add_row(
                method, shown(float(band.median), ".0f"),
                f"{shown(float(band.low), '.0f')} to {shown(float(band.high), '.0f')}",
                shown(1000 * each, ".2f"), shown(each * float(band.median), ".2f"), f"{reached}/{starts}",
            )  # fmt: skip
        console.print(table)

    styles = {Verdict.REPRODUCED: "green", Verdict.NOT_REPRODUCED: "red", Verdict.DEPENDS: "yellow"}
    waiting = []
    console.print("\nThe paper's claims; in brackets, 10-90 % over resampled starts", style="bold", highlight=False)
    for judged in published.verdicts:
        if judged.verdict is Verdict.NOT_JUDGED:
            waiting.append(judged.claim.name)
            continue
        on = f" on {judged.on}" if judged.on else ""
        verdict = f"[{styles[judged.verdict]}]{judged.verdict}{on}[/]"
        console.print(f"\n{verdict}: {judged.claim.text} ({judged.claim.place})", highlight=False)
        for finding in judged.measured.split("; "):
            console.print(f"    {finding}", style="dim", highlight=False)
    if waiting:
        console.print(f"\nNot judged, for want of runs (see --methods paper): {', '.join(waiting)}.", highlight=False)
    counts = {verdict: sum(j.verdict is verdict for j in published.verdicts) for verdict in Verdict}
    console.print("Claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + ".")
    console.print(f"Tables and figures are in {published.report.parent}; the report is")
    print(published.report)


def methods() -> None:
    """List the methods, with one line of meaning each."""
    table = Table("name", "meaning", title="The methods of riesz")
    for name, method in METHODS.items():
        table.add_row(name, (method.__doc__ or "").splitlines()[0])
    console.print(table)


def _remember_programs() -> None:
    """Let JAX keep compiled programs between calls of the command, unless its own settings say otherwise."""
    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(caches / "riesz" / "programs"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def main() -> None:
    """Run the command, in float64; a mistake is one sentence and exit code 2."""
    # In time: JAX loads its BLAS with the first factorisation. Several threads are slower on matrices of this size.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    jax.config.update("jax_enable_x64", True)
    _remember_programs()
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"reproduce": reproduce, "report": report, "study": study, "methods": methods}
        )
    except (UsageError, StoreError) as error:
        print(f"riesz: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("riesz: interrupted; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)
