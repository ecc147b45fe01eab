"""Finished runs on disk: one file each, put in its place whole, so that a kill loses at most what was running."""

import contextlib
import io
import json
import pathlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from .._bytes.files import reason, replacing
from .._methods.result import Result


class StoreError(Exception):
    """A folder or a file that cannot be used, in a sentence that says so."""


@contextlib.contextmanager
def aside(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` only when it is whole; its folder is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {reason(error)}.") from error


@dataclass(frozen=True)
class Stored:
    """One finished run."""

    problem: str
    method: str
    """Its label, as in the paper."""
    seed: int
    result: str
    """The name of a `riesz.Result`."""
    timed: bool
    """Whether it ran alone, so that its seconds are a single run's seconds."""
    theta: np.ndarray
    """The best parameters."""
    history: dict[str, np.ndarray]
    settings: dict[str, Any]
    versions: dict[str, str]

    @property
    def steps(self) -> int:
        """How many steps it made."""
        return self.history["loss"].size - 1


def _path(folder: pathlib.Path, problem: str, method: str, seed: int) -> pathlib.Path:
    return folder / "runs" / problem / method.lower().replace(" ", "-") / f"{seed}.npz"


def damaged(folder: pathlib.Path, problem: str, method: str, seed: int) -> StoreError:
    """The sentence on a run that is not what was kept."""
    path = _path(folder, problem, method, seed)
    return StoreError(f"{path} is damaged; remove it and run again to compute that one run anew.")


class Store:
    """The runs below one folder, all made with the same settings."""

    def __init__(self, folder: pathlib.Path, settings: dict[str, Any] | None = None):
        """Open a folder; with settings, to add runs made with them, creating it if need be."""
        self.folder = folder
        self._manifest = folder / "settings.json"
        if settings is not None and not self._manifest.exists():
            with aside(self._manifest) as file:
                file.write(json.dumps(settings, indent=2, sort_keys=True).encode())
        self.settings = self._read()
        wanted = self.settings if settings is None else json.loads(json.dumps(settings))
        differing = sorted(k for k in {*self.settings, *wanted} if self.settings.get(k) != wanted.get(k))
        if differing:
            raise StoreError(
                f"{folder} holds runs with other settings ({', '.join(differing)}); choose another folder."
            )

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._manifest.read_text())
        except OSError as error:
            raise StoreError(f"{self.folder} holds no runs: {self._manifest.name} cannot be read.") from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StoreError(f"{self._manifest} is damaged; move it away and run again.")
        return found

    @property
    def steps(self) -> int | None:
        """The step limit of all runs; None for each problem's own."""
        found = self.settings.get("steps")
        if found is not None and not (isinstance(found, int) and not isinstance(found, bool) and found >= 1):
            raise StoreError(f"{self._manifest} is damaged: steps must be a whole number above 0, or null.")
        return found

    def _path(self, problem: str, method: str, seed: int) -> pathlib.Path:
        return _path(self.folder, problem, method, seed)

    def __contains__(self, run: tuple[str, str, int]) -> bool:
        return self._path(*run).exists()

    def seeds(self, problem: str, method: str) -> list[int]:
        """The seeds of the kept runs, in order."""
        names = [path.stem for path in self._path(problem, method, 0).parent.glob("*.npz")]
        return sorted(int(name) for name in names if SEED.fullmatch(name))

    def save(self, run: Stored) -> None:
        """Keep a finished run."""
        about = {"result": run.result, "timed": run.timed, "settings": run.settings, "versions": run.versions}
        with aside(self._path(run.problem, run.method, run.seed)) as file:
            np.savez(file, about=np.array(json.dumps(about)), theta=run.theta, **run.history)  # type: ignore[arg-type]

    def load(self, problem: str, method: str, seed: int) -> Stored:
        """A kept run."""
        path = self._path(problem, method, seed)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                history = {name: file[name] for name in file.files}
            about, theta = json.loads(str(history.pop("about"))), history.pop("theta")
            run = Stored(problem, method, seed, theta=theta, history=history, **about)
            _check(run)
            return run
        except UNREADABLE as error:
            raise damaged(self.folder, problem, method, seed) from error


SEED = re.compile("0|[1-9][0-9]{0,17}")
"""The name of a run's file, as `save` gives it."""
UNREADABLE = (
    OSError, ValueError, TypeError, AttributeError, LookupError, EOFError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What readers of files raise where a file is not what was written."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _demand(holds: bool) -> None:
    if not holds:
        raise ValueError


def _check(run: Stored) -> None:
    """Raise a ValueError unless a run is one that tables, figures and claims can be computed from."""
    _demand(isinstance(run.result, str) and run.result in Result.__members__ and isinstance(run.timed, bool))
    _demand(isinstance(run.versions, dict) and all(isinstance(version, str) for version in run.versions.values()))
    _demand(run.theta.ndim == 1 and run.theta.dtype.kind == "f")
    _demand(all(column.ndim == 1 and column.dtype.kind in "fiub" for column in run.history.values()))
    loss, seconds = run.history["loss"], run.history["seconds"]
    _demand(loss.size >= 1 and loss.dtype.kind == "f" and seconds.dtype.kind == "f")
    target = run.settings["target"]
    _demand(isinstance(target, dict) and all(_is_number(value) for value in target.values()))
    # A column has an entry for every step, or one for every iterate.
    _demand(all(run.steps <= column.size <= run.steps + 1 for column in run.history.values()))
    _demand(all(run.history[name].size == run.steps + 1 for name in ("seconds", *target)))
