"""The results as data: three tables that pandas opens. docs/results.md says what every column means."""

import csv
import gzip
import io
import itertools
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from ._experiment import Experiment
from ._results import Band, Results, diverged
from ._store import aside

METRICS = ("train_mse", "test_mse", "test_accuracy", "solution_mse", "residual_norm", "train_residual")
HISTORY = ("loss", "seconds", "gradient_norm", "step_norm", "alpha", "rank", "accepted")
ITERATES = ("problem", "method", "seed", "timed", "iteration", "error", *HISTORY, *METRICS)
RUNS = (
    "problem", "method", "seed", "result", "diverged", "iterations", "seconds", "timed", "loss", "error",
    "settings", "versions",
)  # fmt: skip
SUMMARY = (
    "problem", "method", "starts", "reached", "diverged", "iterations", "iterations_10", "iterations_90",
    "seconds_per_iteration", "seconds", "error", "error_10", "error_90",
)  # fmt: skip


def _write(path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> pathlib.Path:
    with aside(path) as file:
        packed = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) if path.suffix == ".gz" else None
        text = io.TextIOWrapper(packed or file, newline="")
        writer = csv.writer(text)
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()  # flushes, and leaves the file open for its own end
        if packed:
            packed.close()
    return path


def _iterates(results: Results, experiments: dict[str, Experiment]) -> Iterable[list[Any]]:
    for problem, method in results:
        error = experiments[problem].error
        for run in results.runs(problem, method):
            missing = itertools.repeat("", run.steps + 1)
            columns = [run.history[name].tolist() if name in run.history else missing for name in (*HISTORY, *METRICS)]
            cells = itertools.zip_longest(*columns, fillvalue="")
            who = [problem, method, run.seed, run.timed]
            for k, (e, rest) in enumerate(zip(run.history[error].tolist(), cells, strict=True)):
                yield [*who, k, e, *rest]


def _runs(results: Results, experiments: dict[str, Experiment]) -> Iterable[list[Any]]:
    for problem, method in results:
        for run in results.runs(problem, method):
            ends = [float(run.history[name][-1]) for name in ("seconds", "loss", experiments[problem].error)]
            yield [
                problem, method, run.seed, run.result, diverged(run), run.steps, ends[0], run.timed, ends[1], ends[2],
                json.dumps(run.settings, sort_keys=True), json.dumps(run.versions, sort_keys=True),
            ]  # fmt: skip


def summary(results: Results, experiments: dict[str, Experiment]) -> list[dict[str, Any]]:
    """One row for every problem and method: medians, 10-90 % bands and success rates."""
    rows = []
    for problem, method in results:
        reached, starts = results.success(problem, method)
        iterations = Band.of(results.iterations(problem, method))
        error = Band.of(results.values(problem, method, experiments[problem].error)[:, -1])
        each = results.seconds_per_iteration(problem, method)
        cells = [
            problem, method, starts, reached, int(results.diverged(problem, method).sum()),
            *(float(value) for value in (iterations.median, iterations.low, iterations.high)),
            each, each * float(iterations.median),
            *(float(value) for value in (error.median, error.low, error.high)),
        ]  # fmt: skip
        rows.append(dict(zip(SUMMARY, cells, strict=True)))
    return rows


def write_tables(folder: pathlib.Path, results: Results, experiments: dict[str, Experiment]) -> list[pathlib.Path]:
    """Write `iterates.csv.gz`, `runs.csv` and `summary.csv`."""
    rows = [list(row.values()) for row in summary(results, experiments)]
    return [
        _write(folder / "iterates.csv.gz", ITERATES, _iterates(results, experiments)),
        _write(folder / "runs.csv", RUNS, _runs(results, experiments)),
        _write(folder / "summary.csv", SUMMARY, rows),
    ]
