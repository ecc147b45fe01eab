"""Runs that are really killed: whatever the instant, the run that goes on ends with the same bits."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import killed

KILLS_A_RUN = 5
"""One run is killed so often before it may end."""
PATIENCE = 240.0
"""Seconds after which a child that does nothing is a failure."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The run in this process, without checkpoints."""
    return killed.arrays(killed.run())


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Children share compiled programs, so that a kill rarely hits a compilation, and often a step or a save."""
    cache = str(tmp_path_factory.mktemp("cache"))
    settings = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return os.environ | settings | {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def start(folder, environment):
    with open(folder / "stderr.txt", "ab") as errors:
        return subprocess.Popen([sys.executable, killed.__file__, str(folder)], env=environment, stderr=errors)


def newest(folder):
    return max((path.name for path in folder.glob("step-*.npz")), default="")


def kill_at(child, folder, delay):
    """Kill the child some time after it first saves anything; whether it was still running."""
    before, began = newest(folder), time.monotonic()
    while newest(folder) == before and child.poll() is None:
        assert time.monotonic() - began < PATIENCE, "the child does nothing"
        time.sleep(0.001)
    try:
        child.wait(delay)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
    return child.wait() == -signal.SIGKILL


def check_prefix(folder, uninterrupted):
    """The newest checkpoint holds the beginning of the uninterrupted history, bit by bit."""
    name = newest(folder)
    with np.load(folder / name, allow_pickle=False) as file:
        for column in (name for name in uninterrupted if name.startswith("history_")):
            found = file[column.replace("history_", "history/")]
            np.testing.assert_array_equal(found, uninterrupted[column][: found.size], err_msg=f"{name} {column}")


def check_end(folder, uninterrupted):
    """Parameters, history and log agree with the uninterrupted run."""
    with np.load(folder / "end.npz", allow_pickle=False) as file:
        assert set(file.files) == set(uninterrupted)
        for name, array in uninterrupted.items():
            np.testing.assert_array_equal(file[name], array, err_msg=name)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(killed.STEPS + 1))
    np.testing.assert_array_equal([line["loss"] for line in lines], uninterrupted["history_loss"])
    np.testing.assert_array_equal([line["size"] for line in lines], uninterrupted["history_size"])
    assert all(line["accepted"] is True for line in lines[1:])


def kill_many(count, folder, environment, uninterrupted, seed):
    """So many kills at random instants, and how many runs they were spread over."""
    rng, kills, runs = np.random.default_rng(seed), 0, 0
    while kills < count:
        home = folder / str(runs)
        home.mkdir()
        for _ in range(min(KILLS_A_RUN, count)):
            child = start(home, environment)
            if not kill_at(child, home, rng.uniform(0.0, 0.4)):
                break  # it was faster
            check_prefix(home, uninterrupted)
            kills += 1
        while not (home / "end.npz").exists():
            assert start(home, environment).wait() == 0, (home / "stderr.txt").read_text()
        check_end(home, uninterrupted)
        assert not list(home.glob(".writing-*")), "what a kill left unfinished goes with the next start"
        runs += 1
        assert runs <= 10 + count, "children end before they can be killed"
    return kills, runs


def test_two_kills(tmp_path, environment, uninterrupted):
    kills, _ = kill_many(2, tmp_path, environment, uninterrupted, seed=0)
    assert kills >= 2


@pytest.mark.slow
def test_ten_kills(tmp_path, environment, uninterrupted):
    kills, _ = kill_many(10, tmp_path, environment, uninterrupted, seed=0)
    assert kills >= 10


@pytest.mark.slow
def test_a_hundred_kills(tmp_path, environment, uninterrupted, capsys):
    kills, runs = kill_many(100, tmp_path, environment, uninterrupted, seed=1)
    with capsys.disabled():
        print(f"\nKills: {kills} in {runs} runs, all of which ended with the bits of the uninterrupted run.")
    assert kills >= 100


@pytest.mark.slow
def test_other_processes_give_the_same_bits(tmp_path, environment, uninterrupted):
    """With their own hash seeds, and without checkpoints in between."""
    assert start(tmp_path, environment | {"PYTHONHASHSEED": "1"}).wait() == 0
    check_end(tmp_path, uninterrupted)


@pytest.mark.slow
def test_a_march_that_is_killed_in_every_slab(tmp_path, environment):
    """As soon as the first checkpoint of a slab is there, and once more some steps later."""
    expected, kills = killed.arrays(killed.marched()), 0
    begin = lambda: subprocess.Popen([sys.executable, killed.__file__, str(tmp_path), "marched"], env=environment)
    for k in (0, 1, 1, 2):
        child, slab = begin(), tmp_path / f"slab-{k}"
        began = time.monotonic()
        while not slab.exists() and child.poll() is None:
            assert time.monotonic() - began < PATIENCE, "the child does nothing"
            time.sleep(0.001)
        kills += kill_at(child, slab, 0.02)
    assert kills >= 3
    assert begin().wait() == 0
    with np.load(tmp_path / "end.npz", allow_pickle=False) as file:
        assert set(file.files) == set(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(file[name], array, err_msg=name)


def test_the_child_is_this_problem():
    assert pathlib.Path(killed.__file__).name == "killed.py" and jax.config.read("jax_enable_x64")
