"""Everything that finished runs can tell, in one folder: tables, figures, verdicts and the report."""

import json
import pathlib
from dataclasses import dataclass

import numpy as np

from ._experiment import Experiment
from ._figures import draw_all
from ._report import write_report
from ._reproduce import PROBLEMS
from ._results import Results
from ._store import Stored, aside, damaged
from ._tables import write_tables
from .claims import Judged, judge


@dataclass(frozen=True)
class Published:
    """What was made of the runs."""

    results: Results
    verdicts: list[Judged]
    report: pathlib.Path
    tables: list[pathlib.Path]
    figures: dict[str, pathlib.Path]


def claims_table(verdicts: list[Judged]) -> str:
    """The verdicts as a Markdown table."""
    rows = [
        f"| {judged.claim.text} | {judged.claim.place} | {judged.verdict}{f' (on {judged.on})' if judged.on else ''} "
        f"| {judged.measured} |"
        for judged in verdicts
    ]
    return "\n".join(["| claim | section | verdict | measured |", "|---|---|---|---|", *rows]) + "\n"


def _fits(run: Stored, experiment: Experiment) -> bool:
    """Whether a run is one of this problem: it has as many parameters, and all of its errors at every iterate."""
    errors = [run.history.get(name, np.zeros(0)) for name in experiment.metrics]
    return run.theta.size == experiment.size and all(column.size == run.steps + 1 for column in errors)


def publish(folder: pathlib.Path, runs: list[Stored], steps: int | None) -> Published:
    """Write tables, figures, verdicts and the report for these runs."""
    results = Results(runs)
    names = dict.fromkeys(problem for problem, _ in results)
    experiments = {name: PROBLEMS[name](**({} if steps is None else {"max_steps": steps})) for name in names}
    for run in runs:
        if not _fits(run, experiments[run.problem]):
            raise damaged(folder, run.problem, run.method, run.seed)
    verdicts = judge(results)
    with aside(folder / "claims.md") as file:
        file.write(claims_table(verdicts).encode())
    with aside(folder / "claims.json") as file:
        rows = [
            {"name": j.claim.name, "place": j.claim.place, "claim": j.claim.text, "verdict": str(j.verdict), "on": j.on,
             "findings": [{"subject": f.subject, "text": f.text, "holds": f.holds} for f in j.findings]}
            for j in verdicts
        ]  # fmt: skip
        file.write(json.dumps(rows, indent=2, ensure_ascii=False).encode())
    tables = write_tables(folder, results, experiments)
    figures = draw_all(folder / "figures", results, experiments)
    report = write_report(folder / "report.html", results, experiments, verdicts, figures)
    return Published(results, verdicts, report, tables, figures)
