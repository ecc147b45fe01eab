"""`riesz reproduce` keeps what it has computed, whatever happens to it, and answers mistakes with a sentence."""

import csv
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from riesz.experiments._competitors import APPENDIX, COMPETITORS, MAIN
from riesz.experiments._reproduce import PROBLEMS, Stored, plan, summarise
from riesz.experiments._store import Store, StoreError

RIESZ = [sys.executable, "-c", "from riesz.experiments.cli import main; main()"]
SMALL = ["reproduce", "mackey-glass", "--methods", "NGD", "NHB", "--seeds", "4", "--steps", "6"]


def table(folder):
    """All rows of the table, without the seconds."""
    with open(folder / "iterates.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_a_killed_run_goes_on_to_the_same_table(tmp_path):
    """SIGKILL as soon as the first runs are kept; run again; compare with a run that was left alone."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished = subprocess.run([*RIESZ, *SMALL, "--out", str(whole)], capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    victim = subprocess.Popen([*RIESZ, *SMALL, "--out", str(broken)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list(broken.glob("runs/**/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.005)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    kept = {path: path.stat().st_mtime_ns for path in broken.glob("runs/**/*.npz")}
    assert 0 < len(kept) < 8
    assert not (broken / "iterates.csv").exists()
    again = subprocess.run([*RIESZ, *SMALL, "--out", str(broken)], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert table(broken) == table(whole)
    assert len(table(whole)) == 2 * 4 * 7
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items()), "kept runs are not run again"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "mackey"], "there is no problem 'mackey'"),
        (["reproduce", "--methods", "NBH"], "there is no method 'NBH'"),
        (["reproduce", "--methods", "main", "NHB"], "not a mixture"),
        (["reproduce", "--seeds", "0"], "must be at least 1"),
        (["reproduce", "--out", "/proc/nowhere"], "cannot be written"),
    ],
)
def test_mistakes_get_a_sentence_and_exit_code_2(arguments, sentence):
    run = subprocess.run([*RIESZ, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert sentence in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def stored(seed=0, result="TARGET_REACHED", steps=3, timed=True):
    history = {"loss": np.arange(steps + 1.0), "seconds": 0.1 * np.arange(steps + 1.0)}
    return Stored("mackey-glass", "ngd", seed, result, timed, history)


def test_a_store_gives_back_what_it_keeps_and_refuses_the_rest(tmp_path):
    store = Store(tmp_path, {"steps": 3})
    store.save(stored(seed=5))
    assert ("mackey-glass", "ngd", 5) in store and ("mackey-glass", "ngd", 6) not in store
    back = Store(tmp_path, {"steps": 3}).load("mackey-glass", "ngd", 5)
    assert (back.seed, back.result, back.timed) == (5, "TARGET_REACHED", True)
    np.testing.assert_array_equal(back.history["loss"], [0.0, 1.0, 2.0, 3.0])
    with pytest.raises(StoreError, match=r"other settings \(steps\)"):
        Store(tmp_path, {"steps": 4})
    path = next(pathlib.Path(tmp_path).glob("runs/**/*.npz"))
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"not a file of ours"):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"5\.npz is damaged; remove it"):
            store.load("mackey-glass", "ngd", 5)


def test_a_failed_write_leaves_nothing(tmp_path):
    store = Store(tmp_path, {})
    with pytest.raises(KeyError):
        store.table([stored()], errors={"mackey-glass": "no such metric"})
    assert not list(tmp_path.glob(".writing-*"))


def test_summaries_count_failures_as_infinite():
    runs = [stored(seed, steps=10 * (seed + 1), timed=seed < 3) for seed in range(4)]
    runs.append(stored(4, result="STEP_LIMIT", steps=99, timed=False))
    (row,) = summarise(runs)
    assert (row.iterations, row.low, row.high) == (30.0, 10.0, np.inf)
    assert row.seconds == pytest.approx(2.0) and row.success == pytest.approx(0.8)


def test_every_figure_has_its_methods():
    for problem in PROBLEMS:
        assert {*MAIN[problem], *APPENDIX[problem]} <= set(COMPETITORS)
    (item,) = plan(["extended-xor"], "all", None)
    assert len(item.competitors) == 14 + 8
    names = [competitor.name for competitor in COMPETITORS.values()]
    assert len(set(names)) == len(names)
