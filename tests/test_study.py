"""`riesz study batches`: its table is what the runs say, its figure is drawn, finished runs are kept."""

import csv
import dataclasses

import numpy as np
import pytest

from riesz.experiments import _batches, cli
from runs import stored


@pytest.fixture
def small(monkeypatch):
    """Two methods, one batch size."""
    monkeypatch.setattr(_batches, "SHARES", (0.5,))
    monkeypatch.setattr(_batches, "METHODS_STUDIED", _batches.METHODS_STUDIED[-2:])


def call(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["riesz", "study", *arguments])
    cli.main()


@pytest.mark.slow
def test_the_study_prints_draws_and_keeps(small, monkeypatch, tmp_path, capsys):
    arguments = ("batches", "--seeds", "2", "--steps", "3", "--out", str(tmp_path))
    call(monkeypatch, *arguments)
    printed = capsys.readouterr().out
    assert "reaction-diffusion: error after 3 steps" in printed and "SPRING" in printed
    table = list(csv.DictReader((tmp_path / "batches.csv").read_text().splitlines()))
    assert [(row["problem"], row["rows"], row["method"]) for row in table] == [
        (problem, rows, method)
        for problem, rows in (("reaction-diffusion", "24"), ("mackey-glass", "30"))
        for method in ("SPRING", "auto")
    ]
    assert all(0 < float(row["low"]) <= float(row["median"]) <= float(row["high"]) for row in table)
    assert (tmp_path / "batches.png").stat().st_size > 10_000
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/**/*.npz")}
    assert len(kept) == 8
    call(monkeypatch, *arguments)
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())


def test_the_error_of_a_run_is_the_median_of_its_last_iterates(small):
    """Nine large values in the end are outvoted by eleven; a run that ends in NaN is infinite."""
    history = np.concatenate([np.full(30, 5.0), np.full(11, 1e-3), np.full(9, 7.0)])
    runs = []
    for subject in _batches.subjects():
        for competitor in _batches.METHODS_STUDIED:
            run = stored(subject.experiment.name, competitor.label, 0, loss=history)
            column = history if competitor.label == "auto" else np.full(50, np.nan)
            name = f"{run.problem}-{subject.rows(0.5)}"
            runs.append(dataclasses.replace(run, problem=name, history={**run.history, subject.error: column}))
    found = {(row.problem, row.method): row.median for row in _batches.rows(runs)}
    assert found["mackey-glass", "auto"] == 1e-3
    assert found["mackey-glass", "SPRING"] == np.inf


def test_rows_go_from_many_times_d_to_a_tenth():
    for subject in _batches.subjects():
        counts = [subject.rows(share) for share in _batches.SHARES]
        d = subject.experiment.size
        assert counts[0] > 7 * d and counts[-1] <= d / 9
        assert [subject.at(share, 5).loss.drawn for share in _batches.SHARES] == [True] * len(counts)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("sizes",), "there is no study 'sizes'; there is batches."),
        (("batches", "--steps", "0"), "--seeds and --steps must be at least 1."),
    ],
)
def test_mistakes_are_a_sentence(monkeypatch, capsys, arguments, sentence):
    with pytest.raises(SystemExit, match="2"):
        call(monkeypatch, *arguments)
    assert capsys.readouterr().err == f"riesz: {sentence}\n"
