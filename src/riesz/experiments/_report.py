"""The report: one self-contained page with the verdicts, interactive convergence plots, settings and environment."""

import base64
import html
import importlib.resources
import json
import os
import pathlib
import platform
from collections.abc import Iterable
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from ._competitors import COMPETITORS
from ._experiment import Experiment
from ._figures import HOW_SECONDS, figures_of, right_end
from ._results import Results
from ._store import aside
from ._tables import summary
from .claims import Judged, Verdict

_DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}
_POINTS = 400
"""The most points of a curve: what a screen can show."""


def _digits(values: Iterable[float]) -> list[float | None]:
    """Four digits of every value; nothing where it is not finite."""
    return [float(f"{value:.3e}") if np.isfinite(value) else None for value in values]


def _curve(results: Results, experiment: Experiment, label: str, column: str) -> dict[str, Any]:
    band = results.band(experiment.name, label, column)
    every = max(1, -(-band.median.size // _POINTS))
    chosen = np.unique(np.append(np.arange(0, band.median.size, every), band.median.size - 1))
    curves = {"low": band.low, "median": band.median, "high": band.high}
    return {"x": chosen.tolist(), **{name: _digits(values[chosen]) for name, values in curves.items()}}


def _plots(results: Results, experiments: dict[str, Experiment]) -> list[dict[str, Any]]:
    """What the page draws: for every figure, the curves of its methods against iterations and seconds."""
    plots = []
    for figure in figures_of(results):
        experiment = experiments[figure.problem]
        columns = {"iterations": experiment.error, "seconds": experiment.error_against_time}
        methods = []
        for label in figure.labels:
            competitor = COMPETITORS[label]
            reached, starts = results.success(figure.problem, label)
            methods.append(
                {
                    "label": label, "colour": competitor.colour, "dash": _DASHES[competitor.line],
                    "reached": f"{reached}/{starts}",
                    "seconds": _digits([results.seconds_per_iteration(figure.problem, label)])[0],
                    "curves": {axis: _curve(results, experiment, label, column) for axis, column in columns.items()},
                }
            )  # fmt: skip
        plots.append(
            {
                "name": figure.name, "title": figure.title, "part": figure.part, "methods": methods,
                "labels": {axis: experiment.labels[column] for axis, column in columns.items()},
                "ends": {axis: right_end(results, figure.problem, figure.labels, axis) for axis in columns},
                "targets": {axis: experiment.target.get(column) for axis, column in columns.items()},
            }
        )  # fmt: skip
    return plots


# HTML ----------------------------------------------------------------------------------------------------------------


def _table(header: list[str], rows: list[list[str]], kind: str = "") -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _claims(verdicts: list[Judged]) -> str:
    rows = []
    for judged in verdicts:
        kind = judged.verdict.name.lower().replace("_", "-")
        on = f"<br><small>on {html.escape(judged.on)}</small>" if judged.on else ""
        evidence = "<br>".join(html.escape(part) for part in judged.measured.split("; "))
        rows.append(
            [
                f"{html.escape(judged.claim.text)}<br><code>{judged.claim.name}</code>",
                judged.claim.place,
                f'<span class="verdict {kind}">{judged.verdict}</span>{on}',
                f"<small>{evidence}</small>",
            ]
        )
    return _table(["claim", "section", "verdict", "measured (10-90 % over resampled starts)"], rows, "claims")


def _number(value: float, form: str) -> str:
    return "–" if not np.isfinite(value) else format(value, form)


def _summaries(results: Results, experiments: dict[str, Experiment]) -> str:
    rows = [
        [
            experiments[row["problem"]].title, row["method"], f"{row['reached']}/{row['starts']}", str(row["diverged"]),
            f"{_number(row['iterations'], '.0f')} ({_number(row['iterations_10'], '.0f')} to "
            f"{_number(row['iterations_90'], '.0f')})",
            _number(1000 * row["seconds_per_iteration"], ".2f"), _number(row["seconds"], ".2f"),
            f"{_number(row['error'], '.1e')} ({_number(row['error_10'], '.1e')} to {_number(row['error_90'], '.1e')})",
        ]
        for row in summary(results, experiments)
    ]  # fmt: skip
    header = ["problem", "method", "reached", "diverged", "iterations", "ms each", "seconds", "error at the end"]
    return _table(header, rows, "numbers")


def _settings(results: Results, experiments: dict[str, Experiment]) -> str:
    rows = []
    for experiment in experiments.values():
        rules = {"step limit": experiment.max_steps, "parameters": experiment.size, "stop at": experiment.target}
        chosen = {**rules, **experiment.settings}
        rows.append([experiment.title, html.escape(", ".join(f"{key} {value}" for key, value in chosen.items()))])
    return _table(["problem", "settings"], rows)


def environment(results: Results) -> dict[str, str]:
    """Where the runs were made, as far as their files tell, and where this page was."""
    versions = {json.dumps(run.versions, sort_keys=True) for pair in results for run in results.runs(*pair)}
    found = {f"runs made with ({number})": text.strip("{}") for number, text in enumerate(sorted(versions), 1)}
    return {**found, "this machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}


def _pictures(figures: dict[str, pathlib.Path]) -> str:
    """The figures that are no plots of the page's own, embedded."""
    shown = [path for name, path in figures.items() if name.endswith(("-regions", "-solution"))]
    images = [
        f'<figure><img alt="{path.stem}" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}"><figcaption>{path.stem}</figcaption></figure>'
        for path in shown
    ]
    return "".join(images)


def write_report(
    path: pathlib.Path,
    results: Results,
    experiments: dict[str, Experiment],
    verdicts: list[Judged],
    figures: dict[str, pathlib.Path],
) -> pathlib.Path:
    """Write the page; it needs no network and no other file."""
    counts = {verdict: sum(judged.verdict is verdict for judged in verdicts) for verdict in Verdict}
    parts = {
        "starts": str(results.starts()),
        "counts": ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count),
        "how_seconds": HOW_SECONDS,
        "claims": _claims(verdicts),
        "summary": _summaries(results, experiments),
        "settings": _settings(results, experiments),
        "environment": _table(["", ""], [[k, html.escape(v)] for k, v in environment(results).items()]),
        "pictures": _pictures(figures),
        # "</" would end the script that the data stands in.
        "plots": json.dumps(_plots(results, experiments), allow_nan=False).replace("</", "<\\/"),
        "plotly": get_plotlyjs(),
    }
    page = importlib.resources.files("riesz.experiments").joinpath("report.html").read_text()
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    with aside(path) as file:
        file.write(page.encode())
    return path
