"""Finished runs on disk: one file each, written aside and renamed, so that a kill loses at most what was running."""

import contextlib
import io
import json
import pathlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from .._records.files import reason, replacing


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
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StoreError(f"{self._manifest} is damaged; move it away and run again.")
        return found

    def _path(self, problem: str, method: str, seed: int) -> pathlib.Path:
        return self.folder / "runs" / problem / method.lower().replace(" ", "-") / f"{seed}.npz"

    def __contains__(self, run: tuple[str, str, int]) -> bool:
        return self._path(*run).exists()

    def seeds(self, problem: str, method: str) -> list[int]:
        """The seeds of the kept runs, in order."""
        names = [path.stem for path in self._path(problem, method, 0).parent.glob("*.npz")]
        return sorted(int(name) for name in names if name.isdecimal())

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
            return Stored(problem, method, seed, theta=theta, history=history, **about)
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} is damaged; remove it and run again to compute that one run anew.") from error
