"""Everything that finished runs can tell, in one folder: tables, figures, verdicts and the report."""

import json
import pathlib
from dataclasses import dataclass

from ._figures import draw_all
from ._report import write_report
from ._reproduce import PROBLEMS
from ._results import Results
from ._store import Stored, aside
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


def publish(folder: pathlib.Path, runs: list[Stored], steps: int | None) -> Published:
    """Write tables, figures, verdicts and the report for these runs."""
    results = Results(runs)
    names = dict.fromkeys(problem for problem, _ in results)
    experiments = {name: PROBLEMS[name](**({} if steps is None else {"max_steps": steps})) for name in names}
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
