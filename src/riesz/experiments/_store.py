"""Finished runs on disk: one file each, written aside and renamed, so that a kill loses at most what was running."""

import contextlib
import csv
import io
import itertools
import json
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np


class StoreError(Exception):
    """A folder or a file that cannot be used, in a sentence that says so."""


@contextlib.contextmanager
def _aside(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` only when it is complete and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".writing-", delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


@dataclass(frozen=True)
class Stored:
    """One finished run."""

    problem: str
    method: str
    seed: int
    result: str
    timed: bool
    """Whether it ran alone, so that its seconds are a single run's seconds."""
    history: dict[str, np.ndarray]


class Store:
    """The runs below one folder, all made with the same settings."""

    def __init__(self, folder: pathlib.Path, settings: dict[str, Any]):
        self.folder = folder
        manifest = folder / "settings.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not manifest.exists():
                with _aside(manifest) as file:
                    file.write(json.dumps(settings, indent=2, sort_keys=True).encode())
            found = json.loads(manifest.read_text())
        except OSError as error:
            raise StoreError(f"--out {folder} cannot be written: {error.strerror}.") from error
        except ValueError as error:
            raise StoreError(f"{manifest} is damaged; move it away and run again.") from error
        differing = sorted(k for k in {*found, *settings} if found.get(k) != json.loads(json.dumps(settings.get(k))))
        if differing:
            raise StoreError(
                f"--out {folder} holds runs with other settings ({', '.join(differing)}); choose another folder."
            )

    def _path(self, problem: str, method: str, seed: int) -> pathlib.Path:
        return self.folder / "runs" / problem / method / f"{seed}.npz"

    def __contains__(self, run: tuple[str, str, int]) -> bool:
        return self._path(*run).exists()

    def save(self, run: Stored) -> None:
        """Keep a finished run."""
        arrays: dict[str, Any] = {"result": np.array(run.result), "timed": np.array(run.timed), **run.history}
        with _aside(self._path(run.problem, run.method, run.seed)) as file:
            np.savez(file, **arrays)

    def load(self, problem: str, method: str, seed: int) -> Stored:
        """A kept run."""
        path = self._path(problem, method, seed)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            result, timed = str(arrays.pop("result")), bool(arrays.pop("timed"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} is damaged; remove it and run again to compute that one run anew.") from error
        return Stored(problem, method, seed, result, timed, arrays)

    def table(self, runs: list[Stored], errors: dict[str, str]) -> pathlib.Path:
        """Write all iterates of all runs as one tidy CSV table; `errors` names the paper's error of each problem."""
        path = self.folder / "iterates.csv"
        columns = ["loss", "seconds", "gradient_norm", "step_norm", "alpha", "rank", "accepted"]
        with _aside(path) as file:
            text = io.TextIOWrapper(file, newline="")
            writer = csv.writer(text)
            writer.writerow(["problem", "method", "seed", "timed", "iteration", "error", *columns])
            for run in runs:
                error = run.history[errors[run.problem]]
                cells = itertools.zip_longest(*(run.history[column] for column in columns), fillvalue="")
                who = [run.problem, run.method, run.seed, run.timed]
                writer.writerows([*who, k, e, *rest] for k, (e, rest) in enumerate(zip(error, cells, strict=True)))
            text.detach()  # flushes, and leaves the file open for its own end
        return path
