"""Checkpoints: a run that was killed at any instant goes on, and ends with the same numbers."""

import contextlib
import dataclasses
import logging
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.result import Result
from .._running.run import Record, Run
from .archive import Damaged, pack, unpack, write
from .fingerprint import difference, identify, versions

FORMAT = 2
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

    - `folder`: made if it does not exist; one folder a run.
    - `steps`, `seconds`: save when so many steps, or seconds, have passed since the last time.
    - `keep`: so many checkpoints are kept, the newest ones.

    ```python
    solution = riesz.minimise(loss, D, theta0, checkpoint=riesz.Checkpoint("run", seconds=300))
    ```
    """

    folder: str | os.PathLike
    steps: int = 1000
    seconds: float = 60.0
    keep: int = 3

    def __post_init__(self):
        if not isinstance(self.folder, str | os.PathLike):
            raise TypeError(f"folder must be a path, not {_check.shown(self.folder)}.")
        _check.count("steps", self.steps)
        _check.scalar("seconds", self.seconds, above=0.0)
        _check.count("keep", self.keep)


def as_checkpoint(value: Any) -> Checkpoint | None:
    """A folder stands for a checkpoint with the usual choices."""
    if value is None or isinstance(value, Checkpoint):
        return value
    if isinstance(value, str | os.PathLike):
        return Checkpoint(value)
    raise TypeError(f"checkpoint must be a folder or a riesz.Checkpoint, not {_check.shown(value)}.")


@contextlib.contextmanager
def alone(folder: pathlib.Path) -> Iterator[None]:
    """Keep other processes out of a folder; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint: another process is running in {folder}; give it another folder."
            ) from error
        yield


class Keeper:
    """The checkpoints of one run: `resume` once, then `save` whenever `due`."""

    def __init__(self, checkpoint: Checkpoint, run: Run, theta0: jax.Array):
        self.checkpoint, self.run, self.folder = checkpoint, run, pathlib.Path(checkpoint.folder)
        self.identity = identify(run.problem, theta0, run.key, run.record.carry, run.metrics)
        self.resumed = False
        """Whether there was a checkpoint to go on from."""
        self._saved: Any = 0, None, time.monotonic()

    def _path(self, steps: int) -> pathlib.Path:
        return self.folder / f"step-{steps:012d}.npz"

    def _newest_first(self) -> list[pathlib.Path]:
        return sorted(self.folder.glob("step-*.npz"), reverse=True)

    @property
    def up_to_date(self) -> bool:
        """Whether the newest checkpoint is the run as it stands."""
        return self._saved[:2] == (self.run.record.steps, self.run.result)

    def due(self) -> bool:
        """Whether it is time to save: by the steps made, by the clock, or at the end."""
        steps, _, clock = self._saved
        ended = self.run.result is not Result.RUNNING
        late = time.monotonic() - clock >= self.checkpoint.seconds
        often = self.run.record.steps - steps >= self.checkpoint.steps
        return not self.up_to_date and (ended or late or often)

    def save_first(self) -> None:
        """Save the start of a new run, so that it has a checkpoint from its first instant on."""
        if not self.resumed:
            self.save()

    def _note(self) -> None:
        self._saved = self.run.record.steps, self.run.result, time.monotonic()

    def save(self) -> None:
        """Write the run as it stands, then forget what is too old."""
        record = self.run.record
        manifest = {
            "format": FORMAT,
            "versions": versions(),
            "identity": self.identity,
            "tests": self.run.tests,
            "steps": record.steps,
            "result": record.result.name,
        }
        write(self._path(record.steps), pack(manifest, _arrays(self.run)))
        for old in self._newest_first()[self.checkpoint.keep :]:
            old.unlink(missing_ok=True)
        self._note()
        logger.debug("Saved %s.", self._path(record.steps))

    def resume(self) -> None:
        """Put the run where its newest whole checkpoint is, if there is any."""
        paths, wrong = self._newest_first(), []
        for path in paths:
            try:
                manifest, arrays = unpack(path, self._limit(path))
                _check_manifest(manifest)
                if manifest["format"] != FORMAT:
                    raise self._refused(path, f"format {manifest['format']}, and this version reads format {FORMAT}")
                self._check(path, manifest)
                record = _record(self.run, manifest, arrays)
            except Damaged as damage:
                wrong.append(f"{path} {damage}")
                logger.warning("%s %s; the checkpoint before it is used.", path, damage)
                continue
            self.run.record = self.run.judged(record, manifest["tests"])
            self.resumed = True
            self._note()
            logger.info("Goes on from %s, after %d steps.", path, record.steps)
            return
        if wrong:
            raise CheckpointError(
                f"checkpoint: no file in {self.folder} can be read ({wrong[0]}); "
                "restore one, or remove them to start again."
            )

    def _limit(self, path: pathlib.Path) -> int:
        """The bytes that a checkpoint of this run can have after the steps that its name tells."""
        try:
            steps = int(path.stem.removeprefix("step-"))
        except ValueError:
            raise Damaged("has no number of steps in its name") from None
        fixed = sum(array.nbytes for array in _arrays(self.run).values())
        return fixed + 8 * (steps + 1) * len(self.run.record.chunks[0])

    def _refused(self, path: pathlib.Path, why: str) -> CheckpointError:
        return CheckpointError(f"checkpoint: {path} is of {why}; give this run another folder.")

    def _check(self, path: pathlib.Path, manifest: dict[str, Any]) -> None:
        """Refuse a checkpoint of another run."""
        found = difference(manifest["identity"], self.identity)
        if found is None:
            return
        changed = [f"{name} {old}" for name, old in manifest["versions"].items() if versions().get(name) != old]
        raise self._refused(path, found + (f" (it was written with {', '.join(changed)})" if changed else ""))


def _check_manifest(manifest: dict[str, Any]) -> None:
    """A good checksum says that nothing was damaged, not that a checkpoint was written."""
    kinds = {"format": int, "versions": dict, "identity": dict, "tests": dict, "steps": int, "result": str}
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
        "seconds": np.asarray(record.seconds),
    }


def _record(run: Run, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Record:
    """The record that the arrays describe, in the form of this run's own."""
    steps, result = manifest["steps"], manifest["result"]
    blank = _arrays(run)
    columns = {name.removeprefix("history/"): array for name, array in arrays.items() if name.startswith("history/")}
    fits = arrays.keys() == blank.keys()
    for name, array in arrays.items() if fits else ():
        expected = blank[name]
        if name.startswith("history/"):
            extra = steps if expected.size == 0 else steps + 1
            fits &= array.shape == (extra,)
        else:
            fits &= array.shape == expected.shape and array.dtype == expected.dtype
    if not fits:
        raise Damaged("does not hold the arrays of this run")
    leaves, tree = jax.tree.flatten(eqx.filter(run.record.carry, eqx.is_array))
    moving = jax.tree.unflatten(tree, [jnp.asarray(arrays[f"carry/{i}"]) for i in range(len(leaves))])
    return Record(
        carry=eqx.combine(moving, run.record.carry),
        result=Result[result],
        steps=steps,
        seconds=float(arrays["seconds"]),
        chunks=(columns,),
    )
