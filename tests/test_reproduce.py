"""`riesz reproduce` keeps what it has computed, whatever happens to it, and answers mistakes with a sentence."""

import csv
import gzip
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import riesz
from riesz._running import run as _run
from riesz.experiments._baselines import Optax
from riesz.experiments._competitors import COMPETITORS
from riesz.experiments._reproduce import plan, run_all
from riesz.experiments._store import Store, StoreError, aside
from riesz.experiments.cli import main
from runs import stored

RIESZ = [sys.executable, "-c", "from riesz.experiments.cli import main; main()"]
SMALL = ["reproduce", "mackey-glass", "--methods", "NGD", "NHB", "--seeds", "4", "--steps", "6"]


def table(folder):
    """All rows of the table, without the seconds."""
    with gzip.open(folder / "iterates.csv.gz", "rt", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_an_ended_run_goes_on_to_the_same_table(tmp_path, end, code):
    """End it as soon as the first runs are kept; run again; compare with a run that was left alone."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished = subprocess.run([*RIESZ, *SMALL, "--out", str(whole)], capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    victim = subprocess.Popen(
        [*RIESZ, *SMALL, "--out", str(broken)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not list(broken.glob("runs/**/[0-9]*.npz")) and time.monotonic() < deadline:
        time.sleep(0.005)
    victim.send_signal(end)
    assert victim.wait() == code
    kept = {path: path.stat().st_mtime_ns for path in broken.glob("runs/**/[0-9]*.npz")}
    assert 0 < len(kept) < 8
    assert not (broken / "iterates.csv.gz").exists()
    again = subprocess.run([*RIESZ, *SMALL, "--out", str(broken)], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert table(broken) == table(whole)
    assert len(table(whole)) == 2 * 4 * 7
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items()), "kept runs are not run again"


# A run of one step is measured twice: at its start and after its only chunk.
@pytest.mark.parametrize(("owner", "name", "call"), [(_run, "measure", 2), (Store, "save", 1)])
def test_ctrl_c_at_the_end_of_a_run_is_not_lost(tmp_path, monkeypatch, owner, name, call):
    """The run has ended by itself when the wish is looked at; the runs after it must not start."""
    original, calls = getattr(owner, name), itertools.count(1)

    def interrupted(*arguments, **options):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupted)
    store = Store(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        run_all(plan(["mackey-glass"], ["NGD"], 1), 2, store, lambda what, count: None)
    assert store.seeds("mackey-glass", "NGD") == [0]


MISTAKES = pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "mackey"], "there is no problem 'mackey'"),
        (["reproduce", "--methods", "NBH"], "there is no method 'NBH'"),
        (["reproduce", "--methods", "main", "NHB"], "not a mixture"),
        (["reproduce", "--seeds", "0"], "must be at least 1"),
        (["reproduce", "--out", "/proc/nowhere"], "cannot be written"),
        (["report", "/proc/nowhere"], "holds no runs"),
    ],
)


@MISTAKES
def test_mistakes_get_a_sentence(arguments, sentence, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["riesz", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.slow
@MISTAKES
def test_mistakes_get_a_sentence_and_exit_code_2(arguments, sentence):
    """Also from the command itself, in a process of its own."""
    run = subprocess.run([*RIESZ, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert sentence in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_a_store_gives_back_what_it_keeps_and_refuses_the_rest(tmp_path):
    store = Store(tmp_path, {"steps": 3})
    run = stored(method="NN-II-FD 0.5", seed=5)
    store.save(run)
    assert ("mackey-glass", "NN-II-FD 0.5", 5) in store and ("mackey-glass", "NN-II-FD 0.5", 6) not in store
    assert store.seeds("mackey-glass", "NN-II-FD 0.5") == [5] and store.seeds("mackey-glass", "NGD") == []
    back = Store(tmp_path, {"steps": 3}).load("mackey-glass", "NN-II-FD 0.5", 5)
    for name in ("problem", "method", "seed", "result", "timed", "settings", "versions"):
        assert getattr(back, name) == getattr(run, name)
    np.testing.assert_array_equal(back.theta, run.theta)
    assert set(back.history) == set(run.history)
    np.testing.assert_array_equal(back.history["loss"], run.history["loss"])
    with pytest.raises(StoreError, match=r"other settings \(steps\)"):
        Store(tmp_path, {"steps": 4})
    path = next(pathlib.Path(tmp_path).glob("runs/**/[0-9]*.npz"))
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"not a file of ours"):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"5\.npz is damaged; remove it"):
            store.load("mackey-glass", "NN-II-FD 0.5", 5)


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), aside(tmp_path / "table.csv") as file:
        file.write(b"half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_every_figure_has_its_methods():
    (item,) = plan(["extended-xor"], "main", None)
    assert len(item.competitors) == 2 + 6 + 6
    (item,) = plan(["extended-xor"], "all", None)
    assert len(item.competitors) == 14 + 8 + 1 + 5
    (item,) = plan(["reaction-diffusion"], "all", 7)
    assert len(item.competitors) == 8 + 4 + 6 and item.experiment.max_steps == 7
    folders = {label.lower().replace(" ", "-") for label in COMPETITORS}
    assert len(folders) == len(COMPETITORS), "every method has a folder of its own"


@pytest.mark.slow
def test_a_damaged_run_is_named_and_nothing_else_is_lost(tmp_path):
    """Exit code 2 and one sentence; the other runs stay, and removing the file is enough to go on."""
    arguments = [*RIESZ, "reproduce", "mackey-glass", "--methods", "NGD", "--seeds", "2", "--steps", "2"]
    run = lambda *command: subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run(*arguments, "--out", str(tmp_path)).returncode == 0
    first, second = sorted(tmp_path.glob("runs/**/[0-9]*.npz"))
    kept = second.read_bytes()
    first.write_bytes(first.read_bytes()[:-40])
    for command in (arguments + ["--out"], [*RIESZ, "report"]):
        failed = run(*command, str(tmp_path))
        assert failed.returncode == 2
        assert failed.stderr.strip().endswith("0.npz is damaged; remove it and run again to compute that one run anew.")
        assert len(failed.stderr.strip().splitlines()) == 1
    first.unlink()
    assert run(*arguments, "--out", str(tmp_path)).returncode == 0
    assert second.read_bytes() == kept


def test_baselines_are_optax_itself():
    """Three steps of Adam and L-BFGS as methods, against optax's own loop."""
    x = jnp.linspace(-1, 1, 30)
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(2 * x)))
    D, theta = riesz.mlp(jax.random.key(0), (1, 4, 1))
    L = lambda theta: loss(D(theta))
    for make in (lambda: optax.adam(1e-2), optax.lbfgs):
        solution = riesz.minimise(loss, D, theta, Optax(make()), max_steps=3)
        transformation, expected = optax.with_extra_args_support(make()), theta
        state = transformation.init(expected)
        for _ in range(3):
            value, gradient = jax.value_and_grad(L)(expected)
            update, state = transformation.update(gradient, state, expected, value=value, grad=gradient, value_fn=L)
            expected = expected + update
        np.testing.assert_allclose(solution.last, expected, rtol=1e-9)


def test_a_baseline_retreats_from_what_is_not_a_number():
    """A loss that overflows beyond 1: the first update is too long, shorter ones are taken."""
    barrier = riesz.Integral(lambda z: z - jnp.log(1 - z), riesz.points(jnp.zeros(1)))
    D = lambda theta: lambda x: theta[0] + 0 * x
    solution = riesz.minimise(barrier, D, jnp.array([0.9]), Optax(optax.sgd(-1.0)), max_steps=4, throw=False)
    assert not solution.history["accepted"][0] and solution.history["accepted"].any()
    assert np.isfinite(solution.history["loss"]).all()
