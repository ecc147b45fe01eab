"""Checkpoints: what goes on ends with the same bits; what is damaged or of another run is refused, in a sentence."""

import hashlib
import io
import json
import logging
import pathlib
import shutil
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import killed
import riesz
from riesz import Result
from riesz._records.archive import Damaged, pack, unpack, write
from riesz._records.checkpoint import Checkpoint, Keeper
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


def test_a_full_disk_ends_no_run(tmp_path, monkeypatch, caplog):
    """Neither while it lasts nor at the end; what could be saved before is what the next call goes on from."""
    full = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))

    def fill(steps, solution):
        monkeypatch.setattr("riesz._records.checkpoint.write", full if steps >= 16 else write)

    with caplog.at_level(logging.ERROR, "riesz"):
        solution = fit(checkpoint=Checkpoint(tmp_path, steps=1, keep=9), callback=fill)
    assert_same(solution, fit())
    assert "The checkpoint cannot be saved (No space left on device); the run goes on." in caplog.text
    assert sorted(int(path.name[5:17]) for path in tmp_path.glob("*.npz")) == [0, 1, 2, 4, 8, 16]
    monkeypatch.undo()
    assert_same(fit(checkpoint=tmp_path), fit())


def test_a_folder_that_cannot_be_written_to_is_an_error_at_the_start(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("riesz._records.checkpoint.write", full)
    with pytest.raises(OSError, match="No space left"):
        fit(checkpoint=tmp_path)


def test_numpy_opens_a_checkpoint(tmp_path):
    solution = fit(checkpoint=tmp_path)
    with np.load(tmp_path / "step-000000000090.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["history/loss"], solution.history["loss"])
        manifest = json.loads(file["manifest.json"])
    assert manifest["format"] == 1 and manifest["versions"]["jax"] == jax.__version__
    assert manifest["arrays"]["theta"] == {"shape": [16], "dtype": "<f8"}
    assert "HeavyBall" in manifest["identity"]["method"]


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
    problem, key = prepare(FITTING, D, THETA, "nhb", None, options, None)
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


def test_leftovers_of_a_kill_are_not_checkpoints(saved, tmp_path):
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    (tmp_path / "step-000000000080.tmp").write_bytes(b"half")
    assert_same(fit(checkpoint=tmp_path), fit())


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
    "no identity": lambda manifest, arrays: manifest.update(identity=None),
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
    write(path, pack({}, {"theta": np.zeros(2)}))
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
    changed = rewritten(content, lambda manifest, arrays: manifest.update(format=2))
    (tmp_path / "step-000000000064.npz").write_bytes(changed)
    with pytest.raises(riesz.CheckpointError, match="format 2, and this version reads format 1"):
        fit(checkpoint=tmp_path)


def test_a_checkpoint_of_other_versions_says_so_when_it_differs(saved, tmp_path):
    def older(manifest, arrays):
        manifest["versions"]["jax"] = "0.1.2"
        manifest["identity"]["loss, data or parametrisation"] = "0" * 64

    content = (saved / "step-000000000064.npz").read_bytes()
    (tmp_path / "step-000000000064.npz").write_bytes(rewritten(content, older))
    with pytest.raises(riesz.CheckpointError, match=r"parametrisation \(it was written with jax 0.1.2\)"):
        fit(checkpoint=tmp_path)
