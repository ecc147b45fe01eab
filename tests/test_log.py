"""Logs: one line per step, whole after a kill, mended where they are not; messages by the standard module."""

import builtins
import errno
import json
import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz

X = jnp.linspace(0.0, 1.0, 30)
D, THETA = riesz.mlp(jax.random.key(0), (1, 5, 1))
FITTING = riesz.least_squares(riesz.points(X, data=jnp.sin(6 * X)))


def fit(max_steps=50, **choices):
    return riesz.minimise(FITTING, D, THETA, "nhb", max_steps=max_steps, progress=False, **choices)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def assert_holds(path, solution):
    """The log is the history."""
    found = lines(path)
    assert [line["step"] for line in found] == list(range(solution.steps + 1))
    for name, column in solution.history.items():
        skipped = solution.steps + 1 - column.size
        assert all(name not in line for line in found[:skipped])
        if name != "seconds":
            assert [line[name] for line in found[skipped:]] == column.tolist()
    assert all(type(line["accepted"]) is bool and type(line["rank"]) is int for line in found[1:])


def test_a_log_is_the_history(tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    assert_holds(path, fit(log=path, metrics={"size": jnp.linalg.norm}))


def test_lines_are_there_while_the_run_goes_on(tmp_path):
    path, counts = tmp_path / "log.jsonl", []
    fit(log=str(path), callback=lambda steps, solution: counts.append((steps, len(lines(path)))))
    assert len(counts) > 3 and all(count == steps + 1 for steps, count in counts)


def test_numbers_that_are_not_finite_are_null(tmp_path):
    fit(3, log=tmp_path / "log.jsonl", metrics={"bad": lambda theta: jnp.nan * theta[0], "big": lambda theta: jnp.inf})
    assert all(line["bad"] is None and line["big"] is None for line in lines(tmp_path / "log.jsonl"))


def test_new_runs_keep_all_old_logs(tmp_path):
    path, old = tmp_path / "log.jsonl", []
    for steps in (7, 8, 9, 10):
        assert_holds(path, fit(steps, log=path))
        old.append(path.read_text())
    names = ("log.jsonl.old", "log.jsonl.old.2", "log.jsonl.old.3", "log.jsonl")
    assert [(tmp_path / name).read_text() for name in names] == old
    assert len(list(tmp_path.iterdir())) == 4


def test_a_run_that_goes_on_keeps_the_log_of_another(tmp_path):
    """Two runs with folders of their own and one name for their logs: no line is lost, and none is mixed up."""
    path = tmp_path / "log.jsonl"
    fit(20, log=path, checkpoint=tmp_path / "one")
    other = riesz.minimise(FITTING, D, THETA, "ngd", max_steps=60, progress=False, log=path)
    text = path.read_text()
    assert_holds(path, fit(30, log=path, checkpoint=tmp_path / "one"))
    assert other.steps == 60 and (tmp_path / "log.jsonl.old.2").read_text() == text


FOREIGN = {
    "notes": b"# Notes\n\nMine.\n",
    "numbers": b"1\n2\n3\n",
    "one line": b"mine",
    "bytes": bytes(range(256)),
    "another program's log": b'{"step": 0, "accuracy": 0.5}\n',
    "a list": b"[1, 2]\n",
    "later steps": b'{"step": 5, "loss": 1.0, "seconds": 0.0}\n',
    "nested too deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_file_that_is_no_log_is_refused_and_left_as_it_is(what, resumed, tmp_path):
    path, run = tmp_path / "notes.md", tmp_path / "run"
    if resumed:
        fit(5, checkpoint=run)
    path.write_bytes(FOREIGN[what])
    with pytest.raises(
        ValueError, match=r"log must be a new file or the log of a run, but .*notes\.md holds something"
    ):
        fit(log=path, checkpoint=run)
    assert path.read_bytes() == FOREIGN[what]
    assert {found.name for found in tmp_path.iterdir()} == ({"notes.md", "run"} if resumed else {"notes.md"})


def test_folders_and_devices_are_refused_and_left_where_they_are(tmp_path):
    (tmp_path / "results").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("results", "a folder"), ("pipe", "a device or a pipe")):
        with pytest.raises(ValueError, match=f"log must be a file, but .*{name} is {what}"):
            fit(log=tmp_path / name)
    # A look that changes nothing: a run as root that went wrong would take the device away from everybody.
    with pytest.raises(ValueError, match="log must be a file, but /dev/null is a device"):
        riesz.JSONLines("/dev/null").check()
    assert {found.name for found in tmp_path.iterdir()} == {"results", "pipe"}


@pytest.mark.parametrize(("checkpoint", "log"), [("run", "run"), ("run", "run/lock"), ("out/run", "out")])
def test_a_log_in_the_place_of_the_checkpoints_is_refused(checkpoint, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with pytest.raises(ValueError, match="log must be a file apart from the checkpoints in") as caught:
            fit(checkpoint=checkpoint, log=log)
        assert str(caught.value).endswith(f"such as {checkpoint}/log.jsonl, but it is {log}.")
        assert not list(tmp_path.iterdir())


def test_one_file_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="log must be a list of different files"):
        fit(log=[tmp_path / "a.jsonl", riesz.JSONLines(tmp_path / "." / "a.jsonl")])


def test_a_place_that_cannot_be_written_to_is_an_error_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError, match=r"log: .*file/log\.jsonl cannot be written to: (File exists|Not a directory)\."
    ):
        fit(log=tmp_path / "file" / "log.jsonl")


def test_a_log_that_cannot_be_synchronised_loses_no_solution(tmp_path, monkeypatch, caplog):
    def over_quota(descriptor):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", over_quota)
    with caplog.at_level(logging.WARNING, "riesz"):
        solution = fit(log=tmp_path / "log.jsonl")
    assert_holds(tmp_path / "log.jsonl", solution)
    assert f"log.jsonl may be incomplete ({os.strerror(errno.EDQUOT)})." in caplog.text


DAMAGES = {
    "half a line": lambda text: text[:-20],
    "a line of nonsense": lambda text: text + "nonsense\n",
    "a line of another kind": lambda text: text + "[1]\n",
    "steps of the future": lambda text: text + '{"step": 33}\n{"step": 34}\n',
    "a line twice": lambda text: text + text.splitlines()[-1] + "\n",
    "a line lost": lambda text: "\n".join(text.splitlines()[:5] + text.splitlines()[6:]) + "\n",
    "bytes that are no text": lambda text: text + "\x00\x7f",
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_is_mended(damage, tmp_path):
    path = tmp_path / "log.jsonl"
    fit(32, log=path, checkpoint=tmp_path)
    path.write_text(DAMAGES[damage](path.read_text()))
    assert_holds(path, fit(log=path, checkpoint=tmp_path))
    assert not (tmp_path / "log.jsonl.old").exists()


def test_a_lost_log_is_written_again(tmp_path):
    path = tmp_path / "log.jsonl"
    fit(32, log=path, checkpoint=tmp_path)
    path.unlink()
    assert_holds(path, fit(log=path, checkpoint=tmp_path))


class Stubborn(riesz.JSONLines):
    """A log on a disk that is full at times, after half of what should be written."""

    def write(self, rows):
        file = self._file
        if rows and rows[-1]["step"] in (8, 16):

            class Half:
                fileno, truncate = file.fileno, file.truncate

                def write(self, content):
                    file.write(content[: len(content) // 2])
                    raise OSError(28, "No space left on device")

            self._file = Half()
        try:
            super().write(rows)
        finally:
            self._file = file


def test_a_full_disk_ends_no_run_and_leaves_no_half_line(tmp_path, caplog):
    with caplog.at_level(logging.ERROR, "riesz"):
        solution = fit(log=Stubborn(tmp_path / "log.jsonl"))
    assert caplog.text.count("The log cannot be written (No space left on device); the run goes on.") == 2
    assert_holds(tmp_path / "log.jsonl", solution)


def test_several_logs(tmp_path):
    solution = fit(5, log=[tmp_path / "a.jsonl", riesz.JSONLines(tmp_path / "b.jsonl")])
    assert_holds(tmp_path / "a.jsonl", solution)
    assert_holds(tmp_path / "b.jsonl", solution)


def events(folder):
    """What TensorBoard would show: (tag, step) -> value, the last written one."""
    from tensorboardX.event_file_writer import EventsWriter  # noqa: F401 - it is there
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(folder.glob("events*"), key=lambda path: path.stat().st_mtime_ns):
        content, at = path.read_bytes(), 0
        while at < len(content):  # records: length, its checksum, the event, its checksum
            length = int.from_bytes(content[at : at + 8], "little")
            event = Event.FromString(content[at + 12 : at + 12 + length])
            found |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
            at += 16 + length
    return found


def test_tensorboard(tmp_path):
    for steps in (20, 40):
        solution = fit(steps, log=riesz.TensorBoard(tmp_path / "board"), checkpoint=tmp_path / "run")
    found = events(tmp_path / "board")
    for name in ("loss", "step_norm"):
        column = solution.history[name]
        shown = [found[f"riesz/{name}", k] for k in range(41 - column.size, 41)]
        np.testing.assert_array_equal(np.float32(shown), np.float32(column))


def test_tensorboard_is_an_extra(monkeypatch):
    plain = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "tensorboardX":
            raise ImportError
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install riesz\[tensorboard\]"):
        riesz.TensorBoard("board")


@pytest.mark.parametrize("log", [3, object(), [3], {"a": 1}])
def test_what_is_no_log(log):
    with pytest.raises(TypeError, match="log must be"):
        fit(log=log)


def test_messages(tmp_path, caplog):
    """Silent unless asked; at INFO, how a run began and ended."""
    with caplog.at_level(logging.INFO, "riesz"):
        fit(20, checkpoint=tmp_path)
        fit(40, checkpoint=tmp_path)
    messages = [record.getMessage() for record in caplog.records if record.name == "riesz"]
    assert messages[0].startswith("After 20 steps, loss ") and "The step limit was reached" in messages[0]
    assert messages[1] == f"Goes on from {tmp_path}/step-000000000020.npz, after 20 steps."
    assert messages[2].startswith("After 40 steps, loss ")
