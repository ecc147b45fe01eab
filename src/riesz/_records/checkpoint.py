"""Checkpoints: a run that was killed at any instant goes on, and ends with the same numbers."""

import contextlib
import dataclasses
import errno
import logging
import os
import pathlib
import re
import time
from collections.abc import Iterator
from typing import IO, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._bytes.archive import Damaged, pack, parse, unpack
from .._bytes.files import UNFINISHED, reason, replacing
from .._methods.result import Result
from .._running.fingerprint import difference, fingerprint, versions
from .._running.run import Record, Run

FORMAT = 2
NAME = re.compile(r"(?:start-([1-9][0-9]*)-)?step-([0-9]{12}|[1-9][0-9]{12,})\.npz")
"""The name of a checkpoint, with the number of a further start and that of steps."""
logger = logging.getLogger("riesz")


class CheckpointError(RuntimeError):
    """A folder of checkpoints that this call cannot go on from, in a sentence that says why."""


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where, how often and how many checkpoints are saved.

    The call `minimise(..., checkpoint=riesz.Checkpoint("run"))`, or `checkpoint="run"` for short, saves at the start,
    then between chunks of at most 32 steps, and at the end. The same call goes on from the newest checkpoint;
    with a larger `max_steps`, or another target, also from the end of a run.

    **Arguments:**

    - `folder`: made if it does not exist; every run needs a folder of its own, with all its starts.
    - `steps`, `seconds`: the run is saved when this many steps, or seconds, have passed since it was saved last.
    - `keep`: how many checkpoints of a start are kept; older ones are deleted. Files with other names are left alone.

    ```python
    solution = riesz.minimise(loss, D, theta0, checkpoint=riesz.Checkpoint("run", seconds=300))
    ```
    """

    folder: str | os.PathLike
    steps: int = 1000
    seconds: float = 60.0
    keep: int = 3

    def __post_init__(self):
        _check.kind("folder", self.folder, str | os.PathLike, "a path")
        _check.count("steps", self.steps)
        _check.scalar("seconds", self.seconds, above=0.0)
        _check.count("keep", self.keep)


def as_checkpoint(value: Any) -> Checkpoint | None:
    """A folder stands for a checkpoint with the usual choices."""
    if value is None or isinstance(value, Checkpoint):
        return value
    return Checkpoint(_check.kind("checkpoint", value, str | os.PathLike, "a folder or a riesz.Checkpoint"))


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[str | None]:
    """Keep other processes out of a folder; the lock goes with the process, however it ends.

    Gives the reason, in the words of the file system, where nothing can be written to the folder; else None.
    """
    try:
        # Nothing is truncated, should a user have a file of this name.
        file = open(folder / "lock", "ab")
    except OSError as error:
        yield reason(error)
        return
    with file:
        _lock(file, folder)
        yield None


def _lock(file: IO[bytes], folder: pathlib.Path) -> None:
    """Lock a file, unless the system or the file system has no locks; refuse where another process has it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            raise CheckpointError(
                f"checkpoint: another process is running in {folder}; give it another folder."
            ) from error
        logger.warning("%s cannot be locked (%s); start no other process in it.", folder, reason(error))


class Keeper:
    """The checkpoints of one run: `resume` once, then `save` whenever `due`.

    Those of a further start have its number in front of their names, and those of the first one have none: a run
    without restarts can go on as one with restarts.
    """

    def __init__(self, checkpoint: Checkpoint, run: Run, theta0: jax.Array, number: int = 0):
        self.checkpoint, self.run, self.folder = checkpoint, run, pathlib.Path(checkpoint.folder)
        self.number = number
        begins = run.problem, theta0, run.key, run.record.carry, run.metrics
        self.fingerprint = fingerprint(*begins, goes_on=run.standing is not None)
        self._blank = _arrays(run)
        """The arrays of the run before its first step, with which those of a file are compared."""
        self.resumed = False
        """Whether there was a checkpoint to go on from."""
        self._saved: Any = 0, None, time.monotonic()
        """The steps and the result that were saved last, and when."""
        self._whole: dict[pathlib.Path, tuple[int, int]] = {}
        """The files that are known to be whole, with their sizes and times."""

    def _newest_first(self) -> list[pathlib.Path]:
        """The files with names that `save` gives; other files in the folder are the user's, or of other starts."""
        mine = (path for path in self.folder.iterdir() if _start(path) == self.number)
        return sorted(mine, key=_steps, reverse=True)

    def further_starts(self) -> list[pathlib.Path]:
        """The files of starts after this one."""
        return sorted(path for path in self.folder.iterdir() if (_start(path) or 0) > self.number)

    def due(self, last: bool) -> bool:
        """Whether it is time to save: by the steps made, by the clock, or at the end of the run or of the call."""
        steps, result, clock = self._saved
        ended = last or self.run.result is not Result.RUNNING
        late = time.monotonic() - clock >= self.checkpoint.seconds
        often = self.run.record.steps - steps >= self.checkpoint.steps
        return (steps, result) != (self.run.record.steps, self.run.result) and (ended or late or often)

    def _note(self) -> None:
        self._saved = self.run.record.steps, self.run.result, time.monotonic()

    @property
    def content(self) -> bytes:
        """The bytes of a checkpoint of the run as it stands."""
        record, mesh = self.run.record, self.run.problem.mesh
        manifest = {
            "format": FORMAT,
            "versions": versions(),
            "fingerprint": self.fingerprint,
            "tests": self.run.tests,
            "steps": record.steps,
            "result": record.result.name,
            "devices": 1 if mesh is None else mesh.size,
        }
        return pack(manifest, _arrays(self.run))

    def take(self, content: bytes) -> None:
        """Put the run where another process has read it to be."""
        manifest, arrays = parse(content)
        self._go_on(manifest, self._record(manifest, arrays))

    def _go_on(self, manifest: dict[str, Any], record: Record) -> None:
        self.run.go_on(record, manifest["tests"], manifest.get("devices", 1))
        self.resumed = True
        self._note()

    def save(self) -> None:
        """Write the run as it stands, then delete what is too old."""
        record = self.run.record
        prefix = f"start-{self.number}-" if self.number else ""
        path, content = self.folder / f"{prefix}step-{record.steps:012d}.npz", self.content
        with replacing(path) as file:
            file.write(content)
        self._note()
        self._whole[path] = _stamp(path)
        self._forget_old(path)
        logger.debug("Saved %s.", path)

    def _forget_old(self, written: pathlib.Path) -> None:
        """Delete all but the newest checkpoints; what is damaged does not count, and is left to its owner."""
        whole = [path for path in self._newest_first() if path != written and self._is_whole(path)]
        for path in whole[self.checkpoint.keep - 1 :]:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s cannot be deleted (%s).", path, reason(error))

    def _is_whole(self, path: pathlib.Path) -> bool:
        """Whether a run could go on from a file, which is read only if it has changed since that was known."""
        try:
            stamp = _stamp(path)
            if self._whole.get(path) != stamp:
                self._read(path)
                self._whole[path] = stamp
        except (OSError, Damaged, CheckpointError):
            return False
        return True

    def remove_unfinished(self) -> None:
        """Delete the checkpoints that processes were writing when they were killed; call it with the folder locked."""
        for path in self.folder.glob(f"{UNFINISHED}*-step-*.npz"):
            with contextlib.suppress(OSError):
                path.unlink()

    def _read(self, path: pathlib.Path) -> tuple[dict[str, Any], Record]:
        """The manifest of a checkpoint and the record of the run."""
        fixed = sum(array.nbytes for array in self._blank.values())
        history = 8 * (_steps(path) + 1) * len(self.run.record.chunks[0])  # after the steps that the name tells
        manifest, arrays = unpack(path, fixed + history)
        _check_manifest(manifest)
        if manifest["format"] != FORMAT:
            other = f"format {manifest['format']}, and this version reads format {FORMAT}"
        else:
            other = difference(manifest["fingerprint"], self.fingerprint)
            changed = [f"{name} {old}" for name, old in manifest["versions"].items() if versions().get(name) != old]
            other = f"{other} (it was written with {', '.join(changed)})" if other and changed else other
        if other is not None:
            raise CheckpointError(f"checkpoint: {path} is of {other}; give this run another folder.")
        return manifest, self._record(manifest, arrays)

    def _record(self, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Record:
        """The record that the arrays describe."""
        steps, old = manifest["steps"], self.run.record.carry

        def fits(name: str, array: np.ndarray) -> bool:
            expected = self._blank[name]
            if name.startswith("history/"):  # columns that belong to steps have no entry for the start
                return array.shape == (steps if expected.size == 0 else steps + 1,)
            return array.shape == expected.shape and array.dtype == expected.dtype

        if arrays.keys() != self._blank.keys() or not all(fits(*item) for item in arrays.items()):
            raise Damaged("does not hold the arrays of this run")
        leaves, tree = jax.tree.flatten(eqx.filter(old, eqx.is_array))
        moving = jax.tree.unflatten(tree, [jnp.asarray(arrays[f"carry/{i}"]) for i in range(len(leaves))])
        columns = {name[len("history/") :]: array for name, array in arrays.items() if name.startswith("history/")}
        seconds = float(arrays["seconds"])
        return Record(eqx.combine(moving, old), Result[manifest["result"]], steps, seconds, (columns,))

    def resume(self) -> None:
        """Put the run where its newest whole checkpoint is, if there is any."""
        wrong = []
        for path in self._newest_first():
            try:
                manifest, record = self._read(path)
            except Damaged as damage:
                wrong.append(f"{path} {damage}")
                logger.warning("%s %s; the checkpoint before it is used.", path, damage)
                continue
            self._go_on(manifest, record)
            logger.info("Goes on from %s, after %d steps.", path, record.steps)
            return
        if wrong:
            raise CheckpointError(
                f"checkpoint: no file in {self.folder} can be read ({wrong[0]}); "
                "restore one, or remove them to start again."
            )


def _start(path: pathlib.Path) -> int | None:
    """The number of the start in the name of a checkpoint; None for other files."""
    name = NAME.fullmatch(path.name)
    return None if name is None else int(name[1] or 0)


def _steps(path: pathlib.Path) -> int:
    """The number of steps in the name of a checkpoint."""
    return int(path.stem.rpartition("step-")[2])


def _stamp(path: pathlib.Path) -> tuple[int, int]:
    """What changes with a file's content."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _check_manifest(manifest: dict[str, Any]) -> None:
    """A good checksum says that nothing was damaged, not that a checkpoint was written."""
    kinds = {"format": int, "versions": dict, "fingerprint": dict, "tests": dict, "steps": int, "result": str}
    for name, kind in kinds.items():
        if not isinstance(manifest.get(name), kind):
            raise Damaged(f"has a manifest without {name}")
    if manifest["steps"] < 0 or manifest["result"] not in Result.__members__:
        raise Damaged("has a manifest that no run has written")


def _arrays(run: Run) -> dict[str, np.ndarray]:
    """Everything that a run is made of."""
    record = run.record
    leaves = jax.tree.leaves(eqx.filter(record.carry, eqx.is_array))
    return {
        **{f"carry/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        **{f"history/{name}": column for name, column in run.history().items()},
        # For who opens the file: the carry has them too, under numbers.
        "theta": np.asarray(record.theta),
        "last": np.asarray(record.last),
        "loss": np.asarray(record.loss),
        "seconds": np.asarray(record.seconds),
    }
