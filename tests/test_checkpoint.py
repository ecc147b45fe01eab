"""Checkpoints: what goes on ends with the same bits; what is damaged or of another run is refused, in a sentence."""

import builtins
import contextlib
import errno
import functools
import hashlib
import io
import json
import logging
import os
import pathlib
import shutil
import stat
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import killed
import riesz
from riesz import Result
from riesz._bytes.archive import Damaged, pack, unpack
from riesz._bytes.files import replacing
from riesz._records.checkpoint import Checkpoint, Keeper
from riesz._running.fingerprint import program
from riesz._running.prepare import Options, prepare
from riesz._running.run import Run

X = jnp.linspace(0.0, 1.0, 30)
DATA = jnp.sin(6 * X)
D, THETA = riesz.mlp(jax.random.key(0), (1, 5, 1))
FITTING = riesz.least_squares(riesz.points(X, data=DATA))
BATCHES = riesz.least_squares(riesz.minibatch(riesz.points(X, data=DATA), 10))
KEY = jax.random.key(3)


def fit(method="nhb", loss=FITTING, theta=THETA, D=D, **choices):
    return riesz.minimise(loss, D, theta, method, **({"max_steps": 90, "progress": False} | choices))


def assert_same(one, other):
    """Bit by bit, timing aside."""
    first, second = killed.arrays(one), killed.arrays(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype, name
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert one.result is other.result and one.steps == other.steps
    assert float(one.loss) == float(other.loss)


# -------------------------------------------------------------------------------------------------- going on


CASES = {
    "nhb": {},
    "nn2": {"method": "nn2"},
    "auto": {"method": "auto"},
    "gd": {"method": riesz.gd(step_size=riesz.Clipped(0.05))},
    "batches": {"loss": BATCHES, "key": KEY},
    "auto on batches": {"method": "auto", "loss": BATCHES, "key": KEY},
    "metrics": {"metrics": {"size": jnp.linalg.norm}},
}


@pytest.mark.at_once(3)
@pytest.mark.parametrize("case", CASES)
def test_a_run_in_pieces_is_the_run_in_one_piece(case, tmp_path):
    whole = fit(**CASES[case])
    for steps in (1, 40, 41, 90):
        pieces = fit(**CASES[case], max_steps=steps, checkpoint=tmp_path)
        assert pieces.steps <= steps
    assert_same(pieces, whole)
    assert np.all(np.diff(pieces.history["seconds"]) > 0)


def test_a_run_that_has_ended_is_not_run_again(tmp_path):
    first = fit(target=1e-3, checkpoint=tmp_path)
    assert first.result is Result.TARGET_REACHED
    before = sorted(tmp_path.iterdir())
    second = fit(target=1e-3, checkpoint=tmp_path)
    assert_same(second, first)
    np.testing.assert_array_equal(second.history["seconds"], first.history["seconds"])
    assert sorted(tmp_path.iterdir()) == before


def test_another_target_goes_on_from_the_end(tmp_path):
    """Also from a metric's target, which stops between chunks."""
    metrics = {"mse": lambda theta: jnp.mean((jax.vmap(D(theta))(X) - DATA) ** 2)}
    first = fit(target={"mse": 1e-2}, metrics=metrics, checkpoint=tmp_path)
    assert first.result is Result.TARGET_REACHED and first.steps < 90
    assert_same(fit(metrics=metrics, checkpoint=tmp_path), fit(metrics=metrics))


def test_another_target_that_an_earlier_iterate_has_met_is_met(tmp_path):
    """Steps that are too long climb, and what is returned is the start."""
    model, theta = riesz.linear(lambda x: jnp.ones(1), size=1)
    options = {"loss": riesz.least_squares(riesz.points(X, data=jnp.ones_like(X))), "D": model, "theta": theta}
    options |= {"method": riesz.ngd(step_size=riesz.Constant(2.5)), "max_steps": 5, "checkpoint": tmp_path}
    first = fit(**options)
    assert first.history["loss"][-1] > 0.6 > first.loss == first.history["loss"][0]
    second = fit(**options, target=0.6)
    assert (second.result, second.steps, second.loss) == (Result.TARGET_REACHED, 5, first.loss)


def test_a_callback_that_stops_or_raises_loses_nothing(tmp_path):
    stopped = fit(checkpoint=tmp_path, callback=lambda steps, solution: steps >= 32)
    assert stopped.result is Result.STOPPED_BY_CALLBACK and 32 <= stopped.steps < 90

    def raises(steps, solution):
        raise ArithmeticError("mine")

    with pytest.raises(ArithmeticError, match="mine"):
        fit(checkpoint=tmp_path, callback=raises)
    newest = max(path.name for path in tmp_path.glob("*.npz"))
    assert int(newest[5:17]) > stopped.steps
    assert_same(fit(checkpoint=tmp_path), fit())


def test_the_time_limit_is_of_the_run(tmp_path):
    fit(max_steps=40, checkpoint=tmp_path)
    assert fit(max_seconds=1e-9, checkpoint=tmp_path).result is Result.TIME_LIMIT
    assert_same(fit(checkpoint=tmp_path), fit())


def test_a_failed_run_comes_back_as_it_was(tmp_path):
    loss = riesz.Integral(lambda z: jnp.where(z > 0, jnp.nan, -z), riesz.points(X))
    model, theta = riesz.linear(lambda x: jnp.ones(1), size=1)
    for _ in range(2):
        with pytest.raises(riesz.SolveError) as caught:
            fit(loss=loss, D=model, theta=theta, method=riesz.ngd(step_size=riesz.Constant(1.0)), checkpoint=tmp_path)
        assert caught.value.solution.result is Result.NONFINITE_STEPS
        assert np.isfinite(caught.value.solution.theta).all()


def test_saves_as_often_as_asked(tmp_path):
    names = lambda: sorted(int(path.name[5:17]) for path in tmp_path.glob("*.npz"))
    seen = []
    fit(checkpoint=Checkpoint(tmp_path, steps=20, keep=2), callback=lambda steps, solution: seen.append(names()))
    assert all(len(found) <= 2 for found in seen) and seen[0] == [0]
    assert names() == [64, 90]
    shutil.rmtree(tmp_path)
    fit(checkpoint=Checkpoint(tmp_path, steps=10_000, seconds=1e-9, keep=100))
    assert names() == [0, 1, 2, 4, 8, 16, 32, 64, 90]


def full(path):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_no_run(tmp_path, monkeypatch, caplog):
    """Neither while it lasts nor at the end; what could be saved before is what the next call goes on from."""

    def fill(steps, solution):
        monkeypatch.setattr("riesz._records.checkpoint.replacing", full if steps >= 16 else replacing)

    with caplog.at_level(logging.ERROR, "riesz"):
        solution = fit(checkpoint=Checkpoint(tmp_path, steps=1, keep=9), callback=fill)
    assert_same(solution, fit())
    assert "The checkpoint cannot be saved (No space left on device); the run goes on." in caplog.text
    assert sorted(int(path.name[5:17]) for path in tmp_path.glob("*.npz")) == [0, 1, 2, 4, 8, 16]
    monkeypatch.undo()
    assert_same(fit(checkpoint=tmp_path), fit())


# ---------------------------------------------------------------------------------------------- file systems


def refuse(monkeypatch, place, code, when=lambda *arguments: True):
    """Let a function of the standard library fail as a file system would, for the arguments that are meant."""
    owner, name = place
    original = getattr(owner, name)

    def refusing(*arguments, **options):
        if when(*arguments):
            raise OSError(code, os.strerror(code))
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, refusing)


def read_only(monkeypatch, folder):
    """Refuse what a disk that was mounted read-only refuses, also where the tests run as root."""
    writes = lambda path, mode="r", *rest: str(path).startswith(str(folder)) and mode[0] in "wax"
    refuse(monkeypatch, (builtins, "open"), errno.EROFS, writes)
    for name in ("replace", "rename", "unlink", "mkdir"):
        refuse(monkeypatch, (os, name), errno.EROFS, lambda path, *rest: str(path).startswith(str(folder)))


def test_a_full_disk_at_the_start_is_an_error_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("riesz._records.checkpoint.replacing", full)
    with pytest.raises(riesz.CheckpointError) as caught:
        fit(checkpoint=tmp_path)
    expected = f"checkpoint: {tmp_path} cannot be written to (No space left on device); give this run another folder."
    assert str(caught.value) == expected


def test_a_read_only_disk_at_the_start_is_an_error_in_a_sentence(saved, tmp_path, monkeypatch):
    """For a new run, and for one that would go on."""
    empty, begun = tmp_path / "empty", tmp_path / "begun"
    empty.mkdir()
    shutil.copytree(saved, begun)
    read_only(monkeypatch, tmp_path)
    for folder in (empty, begun):
        with pytest.raises(
            riesz.CheckpointError, match=r"cannot be written to \(Read-only file system\); give this run"
        ):
            fit(checkpoint=folder)
    with pytest.raises(ValueError, match=r"checkpoint must be a folder that can be made.*Read-only file system\."):
        fit(checkpoint=tmp_path / "new")


def test_a_finished_run_on_a_read_only_disk_is_read_again(tmp_path, monkeypatch, caplog):
    first = fit(checkpoint=tmp_path, log=tmp_path / "log.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    read_only(monkeypatch, tmp_path)
    with caplog.at_level(logging.WARNING, "riesz"):
        assert_same(fit(checkpoint=tmp_path, log=tmp_path / "log.jsonl"), first)
    assert caplog.text.count("(Read-only file system); the run") == 2
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_is_no_other_process(code, tmp_path, monkeypatch, caplog):
    fcntl = pytest.importorskip("fcntl")
    refuse(monkeypatch, (fcntl, "flock"), code)
    with caplog.at_level(logging.WARNING, "riesz"):
        assert_same(fit(checkpoint=tmp_path), fit())
    assert f"{tmp_path} cannot be locked ({os.strerror(code)})" in caplog.text


def test_a_folder_that_cannot_be_synchronised_keeps_its_checkpoints(tmp_path, monkeypatch, caplog):
    """It is told once, however many checkpoints are saved."""
    refuse(monkeypatch, (os, "fsync"), errno.EINVAL, lambda number: stat.S_ISDIR(os.fstat(number).st_mode))
    with caplog.at_level(logging.WARNING, "riesz"):
        fit(checkpoint=Checkpoint(tmp_path, steps=1))
    assert [path.name[5:17] for path in sorted(tmp_path.glob("*.npz"))][-1] == "000000000090"
    assert caplog.text.count("cannot be synchronised (Invalid argument)") == 1
    assert "cannot be saved" not in caplog.text


def test_a_file_that_cannot_be_synchronised_is_not_put_in_its_place(tmp_path, monkeypatch):
    """What a quota refuses when the file is synchronised is lost; what a file system does not know how to do is not."""
    path = tmp_path / "file"
    for code, content in ((errno.EDQUOT, None), (errno.EINVAL, b"new")):
        with monkeypatch.context() as patch:
            refuse(patch, (os, "fsync"), code, lambda number: stat.S_ISREG(os.fstat(number).st_mode))
            with contextlib.suppress(OSError), replacing(path) as file:
                file.write(b"new")
        assert (path.read_bytes() if path.exists() else None) == content
        assert {found.name for found in tmp_path.iterdir()} <= {"file"}


def test_a_lock_file_of_the_user_is_left_as_it_is(tmp_path):
    (tmp_path / "lock").write_text("mine")
    fit(checkpoint=tmp_path)
    assert (tmp_path / "lock").read_text() == "mine"


def test_numpy_opens_a_checkpoint(tmp_path):
    solution = fit(checkpoint=tmp_path)
    with np.load(tmp_path / "step-000000000090.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["history/loss"], solution.history["loss"])
        manifest = json.loads(file["manifest.json"])
    assert manifest["format"] == 2 and manifest["versions"]["jax"] == jax.__version__
    assert manifest["arrays"]["theta"] == {"shape": [16], "dtype": "<f8"}
    assert "HeavyBall" in manifest["fingerprint"]["method"]


# ---------------------------------------------------------------------------------------------- another run


def other_density(z, y):
    return 0.5 * jnp.sum((z - y) ** 2) * 1.5


SHIFTED = riesz.nhb(beta=lambda k: 0.5)
CHANGES = {
    "method: filter=Floor": {"method": riesz.nhb(filter=riesz.Shift(1e-8))},
    "method: transport=Projected": {"method": "qnhb"},
    "method: HeavyBall": {"method": "auto"},
    "theta0;": {"theta": THETA + 1e-12},
    "shape of theta0: [16] there, [22] here": dict(zip(("D", "theta"), riesz.mlp(KEY, (1, 7, 1)), strict=True)),
    "dtype of theta0: float64 there, float32 here": {
        "theta": THETA.astype(jnp.float32),
        "loss": riesz.least_squares(riesz.points(X.astype(jnp.float32), data=DATA.astype(jnp.float32))),
    },
    "loss, data or parametrisation;": {"loss": riesz.least_squares(riesz.points(X, data=DATA.at[7].add(1e-12)))},
    "loss, data or parametrisation ": {"loss": riesz.Integral(other_density, riesz.points(X, data=DATA))},
    "metrics: [] there, ['size'] here": {"metrics": {"size": jnp.linalg.norm}},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_of_another_run_is_refused(what, tmp_path):
    fit(max_steps=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError) as caught:
        fit(checkpoint=tmp_path, **CHANGES[what])
    sentence = str(caught.value)
    assert f"is of another {what.rstrip()}" in sentence and "\n" not in sentence
    assert sentence.startswith("checkpoint: ") and sentence.endswith("; give this run another folder.")


def test_a_function_inside_the_method_is_part_of_it(tmp_path):
    """It is printed as any other function; what it computes is not the same."""
    fit(riesz.nhb(beta=lambda k: 0.5 * k / k), max_steps=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match="another function inside the method"):
        fit(riesz.nhb(beta=lambda k: 0.4 * k / k), checkpoint=tmp_path)


TABLE, OTHER = np.array([0.0, 1.0, 2.0, 1.0, 0.0]), np.array([50.0, 1.0, 2.0, 1.0, 0.0])
PLACES = np.linspace(0.0, 1.0, 5)


class Lookup:
    """A function that is an object with a table."""

    def __init__(self, table):
        self.table, self.itself = table, self

    def __call__(self, x):
        return np.interp(x, PLACES, self.table)

    def value(self, x):
        return np.interp(x, PLACES, self.table)


def called_back(function):
    return lambda x: jax.pure_callback(function, jax.ShapeDtypeStruct((), float), x, vmap_method="expand_dims")


HIDDEN = {
    "a jitted function": lambda table: jax.jit(lambda x: jnp.interp(x, PLACES, table)),
    "a jitted function in a jitted function": lambda table: jax.jit(lambda x: jax.jit(lambda y: y * table[0])(x)),
    "a loop": lambda table: lambda x: jax.lax.fori_loop(0, 3, lambda k, y: y + jnp.asarray(table)[k], x),
    "a branch": lambda table: lambda x: jax.lax.cond(x < 2, lambda y: y * jnp.asarray(table)[0], jnp.sin, x),
    "a callback": lambda table: called_back(lambda x: np.interp(x, PLACES, table)),
    "a partial callback": lambda table: called_back(functools.partial(np.interp, xp=PLACES, fp=table)),
    "an object that is called back": lambda table: called_back(Lookup(table)),
    "a method that is called back": lambda table: called_back(Lookup(table).value),
    "a default of a callback": lambda table: called_back(lambda x, table=table: np.interp(x, PLACES, table)),
}


@pytest.mark.at_once(3)
@pytest.mark.parametrize("place", HIDDEN)
def test_data_is_seen_wherever_it_sits(place, tmp_path):
    """Other data is refused; a copy of the same data goes on."""

    def solve(table, **choices):
        loss = riesz.residual(riesz.identity, HIDDEN[place](table), riesz.grid(0.0, 1.0, 20))
        return fit("gd", loss, jnp.zeros(2), lambda theta: lambda x: theta[0] + theta[1] * x, **choices)

    solve(TABLE, max_steps=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match="another loss, data or parametrisation"):
        solve(OTHER, checkpoint=tmp_path)
    assert_same(solve(TABLE.copy(), max_steps=3, checkpoint=tmp_path), solve(TABLE, max_steps=3))


def test_a_table_in_a_jitted_momentum_is_seen(tmp_path):
    beta = lambda table: riesz.nhb(beta=jax.jit(lambda k: jnp.asarray(table)[jnp.minimum(k, 4).astype(int)] / 100))
    fit(beta(TABLE), max_steps=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match="another function inside the method"):
        fit(beta(OTHER), checkpoint=tmp_path)
    assert fit(beta(TABLE), max_steps=3, checkpoint=tmp_path).steps == 3


def global_lookup(x):
    return np.interp(x, PLACES, TABLE)


def test_a_table_of_the_module_is_seen_in_a_callback(monkeypatch):
    before = program(called_back(global_lookup), 0.5)
    assert program(called_back(global_lookup), 0.5) == before
    monkeypatch.setitem(globals(), "TABLE", OTHER)
    assert program(called_back(global_lookup), 0.5) != before


def one_name(x):
    return 2 * jnp.sin(x)


def another_and_much_longer_name_of_the_same_function(x):
    return 2 * jnp.sin(x)


def test_names_of_functions_are_no_difference(tmp_path):
    """Neither in the loss nor in the method, jitted or not, nor of rules of derivatives."""
    twice = {}
    for function in (one_name, another_and_much_longer_name_of_the_same_function):
        custom = jax.custom_jvp(function)
        custom.defjvp(lambda x, dx: (one_name(*x), 2 * jnp.cos(x[0]) * dx[0]))
        source = lambda x, f=function, custom=custom: jax.jit(f)(x) + custom(x)
        loss = riesz.residual(riesz.identity, source, riesz.grid(0.0, 1.0, 20))
        method = riesz.nhb(beta=jax.jit(function))
        twice[function] = fit(method, loss, max_steps=2 + len(twice), checkpoint=tmp_path).steps
    assert list(twice.values()) == [2, 3]


def test_another_key_is_refused(tmp_path):
    fit(loss=BATCHES, key=KEY, max_steps=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match="another key"):
        fit(loss=BATCHES, key=jax.random.key(4), checkpoint=tmp_path)


def test_two_runs_in_one_folder_are_refused(tmp_path):
    def second(steps, solution):
        with pytest.raises(riesz.CheckpointError, match="another process is running in"):
            fit(checkpoint=tmp_path)
        return True

    assert fit(checkpoint=tmp_path, callback=second).result is Result.STOPPED_BY_CALLBACK


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="checkpoint must be a folder that can be made, but .*file cannot"):
        fit(checkpoint=tmp_path / "file")


@pytest.mark.parametrize("value", [3, 0.5, object(), ["a"]])
def test_what_is_no_checkpoint(value):
    with pytest.raises(TypeError, match="checkpoint must be a folder or a riesz.Checkpoint"):
        fit(checkpoint=value)


@pytest.mark.parametrize("choices", [{"steps": 0}, {"seconds": 0.0}, {"keep": 0}, {"keep": 1.5}, {"steps": "a"}])
def test_bad_choices(choices):
    with pytest.raises((TypeError, ValueError), match=next(iter(choices))):
        Checkpoint("run", **choices)


# ---------------------------------------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with two checkpoints, of 32 and 64 steps."""
    folder = tmp_path_factory.mktemp("saved")
    for steps in (32, 64):
        fit(max_steps=steps, checkpoint=Checkpoint(folder, keep=2))
    assert sorted(path.name[5:17] for path in folder.glob("*.npz")) == ["000000000032", "000000000064"]
    return folder


def fresh_run():
    options = Options.checked(THETA, 90, None, None, None, None, False)
    problem, key, _ = prepare(FITTING, D, THETA, "nhb", None, options, None)
    return Run(problem, THETA, key, **options.tests)


def regions(content):
    """The classes of bytes in a checkpoint: name -> positions."""
    found = {
        "checksum": range(len(content) - 64, len(content)),
        "comment's mark": range(len(content) - 71, len(content) - 64),
    }
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found["directory"] = range(archive.start_dir, len(content) - 71 - 22)
        found["end of directory"] = range(len(content) - 71 - 22, len(content) - 71)
        for member in archive.infolist():
            start = member.header_offset + 30 + len(member.filename)
            kind = "manifest" if member.filename == "manifest.json" else "array"
            found.setdefault("local headers", []).extend(range(member.header_offset, start))
            if kind == "array":
                found.setdefault("array headers", []).extend(range(start, start + 128))
                found.setdefault("array data", []).extend(range(start + 128, start + member.file_size))
            else:
                found["manifest"] = range(start, start + member.file_size)
    assert sorted(p for positions in found.values() for p in positions) == list(range(len(content)))
    return {name: list(positions) for name, positions in found.items()}


def damages(content, count, seed=0):
    """(what was done, damaged content): flips of one bit in every class of bytes, cuts, fills and insertions."""
    rng = np.random.default_rng(seed)
    classes = regions(content)
    for index in range(count):
        name = sorted(classes)[index % len(classes)]
        position = int(rng.choice(classes[name]))
        way = ("flip", "cut", "zeros", "insert", "drop")[(index // len(classes)) % 5]
        bad = bytearray(content)
        if way == "flip":
            bad[position] ^= 1 << int(rng.integers(8))
        elif way == "cut":
            del bad[position:]
        elif way == "zeros":
            bad[position : position + 16] = bytes(b ^ 0xFF for b in bad[position : position + 16])
        elif way == "insert":
            bad[position:position] = rng.bytes(8)
        else:
            del bad[position]
        yield f"{way} at byte {position}, {name}", bytes(bad)


def recovered(saved, folder, count, caplog):
    """How many damaged newest checkpoints were recovered from: the one before is used, and a warning says so."""
    content = (saved / "step-000000000064.npz").read_bytes()
    shutil.copy(saved / "step-000000000032.npz", folder)
    run = fresh_run()
    first, keeper = run.record, Keeper(Checkpoint(folder), run, THETA)
    keeper.resume()
    expected, good = run.record, 0
    for what, bad in damages(content, count):
        (folder / "step-000000000064.npz").write_bytes(bad)
        run.record = first
        caplog.clear()
        with caplog.at_level(logging.WARNING, "riesz"):
            keeper.resume()
        assert run.record.steps == 32, what
        for name in ("theta", "last"):
            np.testing.assert_array_equal(getattr(run.record, name), getattr(expected, name), err_msg=what)
        assert "step-000000000064.npz" in caplog.text and "the checkpoint before it is used" in caplog.text, what
        good += 1
    return good


def test_damaged_checkpoints_are_recovered_from(saved, tmp_path, caplog):
    assert recovered(saved, tmp_path, 100, caplog) == 100


@pytest.mark.slow
def test_a_thousand_damaged_checkpoints_are_recovered_from(saved, tmp_path, caplog, capsys):
    good = recovered(saved, tmp_path, 1000, caplog)
    with capsys.disabled():
        print(f"\nCorruption: {good} of 1000 damaged checkpoints recovered from.")
    assert good == 1000


def test_the_run_goes_on_from_the_one_before(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "step-000000000064.npz"
    newest.write_bytes(newest.read_bytes()[:-1000])
    assert_same(fit(checkpoint=tmp_path), fit())


def test_where_all_are_damaged_nothing_is_lost(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(b"nonsense")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.npz")}
    with pytest.raises(riesz.CheckpointError) as caught:
        fit(checkpoint=tmp_path)
    assert "does not match its checksum" in str(caught.value) and "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.npz")} == before


def test_leftovers_of_a_kill_are_not_checkpoints_and_go(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    (tmp_path / ".writing-123-step-000000000080.npz").write_bytes(b"half")
    assert_same(fit(checkpoint=tmp_path), fit())
    assert not list(tmp_path.glob(".writing-*"))


def test_a_damaged_newer_file_makes_no_good_one_disappear(saved, tmp_path):
    """The checkpoint that was written last stays, though the damaged file has a later name and one is to be kept."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "step-000000000064.npz"
    newest.write_bytes(newest.read_bytes()[:-10])
    fit(max_steps=40, checkpoint=Checkpoint(tmp_path, keep=1))
    assert {path.name[5:17] for path in tmp_path.glob("step-*.npz")} == {"000000000040", "000000000064"}
    assert_same(fit(max_steps=40, checkpoint=tmp_path), fit(max_steps=40))
    assert_same(fit(checkpoint=tmp_path), fit())


def test_damaged_files_do_not_count_among_those_that_are_kept(saved, tmp_path):
    """With two to be kept, one of them whole and older than the damaged one."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "step-000000000064.npz"
    newest.write_bytes(b"nonsense")
    fit(max_steps=40, checkpoint=Checkpoint(tmp_path, keep=2))
    expected = {"000000000032", "000000000040", "000000000064"}
    assert {path.name[5:17] for path in tmp_path.glob("step-*.npz")} == expected


@pytest.mark.parametrize("name", ["step-best.npz", "step-7.npz", "step-0000000000064.npz", "step-000000000099.npz.bak"])
def test_files_with_other_names_are_the_users(name, tmp_path):
    """They are neither read nor deleted, and no checkpoint is deleted for them."""
    (tmp_path / name).write_bytes(b"mine")
    assert_same(fit(checkpoint=Checkpoint(tmp_path, keep=1)), fit())
    assert {path.name for path in tmp_path.iterdir()} == {name, "lock", "step-000000000090.npz"}
    assert (tmp_path / name).read_bytes() == b"mine"


# ------------------------------------------------------------------------------ whole files with wrong contents


def rewritten(content, change):
    """A checkpoint with a good checksum after `change(manifest, arrays)`."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files if name != "manifest.json"}
        manifest = json.loads(file["manifest.json"])
    manifest.pop("arrays")
    change(manifest, arrays)
    return pack(manifest, arrays)


def lie(content, old, new):
    """A checkpoint with a good checksum after bytes of the same length were replaced, as a forger would."""
    assert len(old) == len(new) and old in content
    body = content[:-64].replace(old, new)
    return body + hashlib.sha256(body).hexdigest().encode()


FORGERIES = {
    "no steps": lambda manifest, arrays: manifest.pop("steps"),
    "a list of versions": lambda manifest, arrays: manifest.update(versions=["jax"]),
    "no fingerprint": lambda manifest, arrays: manifest.update(fingerprint=None),
    "fewer steps than none": lambda manifest, arrays: manifest.update(steps=-1),
    "steps are text": lambda manifest, arrays: manifest.update(steps="64"),
    "unknown result": lambda manifest, arrays: manifest.update(result="__class__"),
    "no theta": lambda manifest, arrays: arrays.pop("theta"),
    "an array too many": lambda manifest, arrays: arrays.update(more=np.zeros(3)),
    "theta too long": lambda manifest, arrays: arrays.update(theta=np.zeros(17)),
    "theta in float32": lambda manifest, arrays: arrays.update(theta=arrays["theta"].astype(np.float32)),
    "a state of another shape": lambda manifest, arrays: arrays.update({"carry/1": np.zeros((2, 2))}),
    "a short history": lambda manifest, arrays: arrays.update({"history/loss": np.zeros(3)}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_checkpoint_is_not_loaded(name, saved, tmp_path, caplog):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "step-000000000064.npz"
    newest.write_bytes(rewritten(newest.read_bytes(), FORGERIES[name]))
    run = fresh_run()
    with caplog.at_level(logging.WARNING, "riesz"):
        Keeper(Checkpoint(tmp_path), run, THETA).resume()
    assert run.record.steps == 32 and "step-000000000064.npz" in caplog.text


def test_a_header_that_promises_more_than_there_is_allocates_nothing(saved, tmp_path, monkeypatch):
    content = (saved / "step-000000000064.npz").read_bytes()
    path = tmp_path / "step-000000000064.npz"
    path.write_bytes(lie(content, b"'shape': (16,), }      ", b"'shape': (1000000000,),"))
    with pytest.raises(Damaged, match="that its manifest does not describe|no checkpoint"):
        unpack(path, 10**9)
    monkeypatch.setattr(pathlib.Path, "read_bytes", lambda self: pytest.fail("it was read"))
    with pytest.raises(Damaged, match="where at most"):
        unpack(path, -(1 << 20))


def test_objects_are_refused(tmp_path):
    path = tmp_path / "file.npz"
    with pytest.raises(ValueError, match="pickle"):
        pack({}, {"theta": np.array([object()])})
    path.write_bytes(pack({}, {"theta": np.zeros(2)}))
    path.write_bytes(lie(path.read_bytes(), b"'descr': '<f8'", b"'descr': '|O'  "[:14]))
    with pytest.raises(Damaged):
        unpack(path, 10**6)


def test_compressed_members_are_refused(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps({"arrays": {}}) + " " * 10**6)
        archive.comment = b"sha256:" + bytes(64)
    body = buffer.getvalue()[:-64]
    path = tmp_path / "bomb.npz"
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    with pytest.raises(Damaged, match="is compressed"):
        unpack(path, 10**6)


def signed(text, flags=0):
    """A file with a good checksum whose manifest is any text."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.json", text)
        archive.comment = b"sha256:" + bytes(64)
    body = bytearray(buffer.getvalue()[:-64])
    directory = body.rfind(b"PK\x01\x02")
    body[6] |= flags
    body[directory + 8] |= flags
    return bytes(body) + hashlib.sha256(body).hexdigest().encode()


@pytest.mark.parametrize(
    "content",
    [signed("{}", flags=1), signed("[" * 100_000), signed("[]"), signed("nonsense"), signed('{"arrays": {"a": 3}}')],
    ids=["encrypted", "nested", "a list", "no JSON", "a missing member"],
)
def test_parsers_fail_in_words(content, tmp_path):
    path = tmp_path / "step-000000000064.npz"
    path.write_bytes(content)
    with pytest.raises(Damaged, match="has a good checksum but is no checkpoint"):
        unpack(path, 10**6)


def test_another_format_is_refused(saved, tmp_path):
    content = (saved / "step-000000000064.npz").read_bytes()
    changed = rewritten(content, lambda manifest, arrays: manifest.update(format=1))
    (tmp_path / "step-000000000064.npz").write_bytes(changed)
    with pytest.raises(riesz.CheckpointError, match="format 1, and this version reads format 2"):
        fit(checkpoint=tmp_path)


def test_a_checkpoint_of_other_versions_says_so_when_it_differs(saved, tmp_path):
    def older(manifest, arrays):
        manifest["versions"]["jax"] = "0.1.2"
        manifest["fingerprint"]["loss, data or parametrisation"] = "0" * 64

    content = (saved / "step-000000000064.npz").read_bytes()
    (tmp_path / "step-000000000064.npz").write_bytes(rewritten(content, older))
    with pytest.raises(riesz.CheckpointError, match=r"parametrisation \(it was written with jax 0.1.2\)"):
        fit(checkpoint=tmp_path)
