"""Logs: the history, line by line while it is made, for whoever watches a run or looks at it after a kill."""

import abc
import json
import math
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import _check

Row = dict[str, Any]
"""One iterate: its `step`, and what the history knows of it."""


class AbstractLog(abc.ABC):
    """A place for rows."""

    @abc.abstractmethod
    def open(self, steps: int) -> int:
        """Make ready for a run that stands after so many steps; the last step that need not be written again.

        Rows of later steps are dropped: the run will make these steps again. A new run has made -1 steps.
        """

    @abc.abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Add rows, so that they survive the end of the process."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


class JSONLines(AbstractLog):
    """A log of one JSON object a line, `{"step": 3, "loss": 0.01, ...}`.

    Lines reach the file system after every chunk of steps. A kill loses at most the line that was being written, and
    the run that goes on from a checkpoint mends it. Numbers that are not finite are null. A log that a new run finds is
    kept, with `.old` after its name.

    **Arguments:**

    - `path`: the file.

    ```python
    solution = riesz.minimise(loss, D, theta0, log="run.jsonl")  # pandas.read_json("run.jsonl", lines=True)
    ```
    """

    def __init__(self, path: str | os.PathLike):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a path, not {_check.shown(path)}.")
        self.path = pathlib.Path(path)
        self._file: Any = None

    def open(self, steps: int) -> int:
        """Keep the whole lines of the first steps, in their order, and cut off what follows."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        last, end = -1, 0
        if steps < 0 and self.path.exists():
            os.replace(self.path, self.path.with_name(self.path.name + ".old"))
        self._file = open(self.path, "ab+", buffering=0)
        self._file.seek(0)
        for line in self._file:
            if _step(line) != last + 1 or last + 1 > steps:
                break
            last, end = last + 1, end + len(line)
        self._file.truncate(end)
        return last

    def write(self, rows: Sequence[Row]) -> None:
        """All rows, or none where the disk is full."""
        content = memoryview(b"".join(json.dumps(_plain(row)).encode() + b"\n" for row in rows))
        end = os.fstat(self._file.fileno()).st_size
        try:
            while content:
                content = content[self._file.write(content) :]
        except OSError:
            self._file.truncate(end)
            raise

    def close(self) -> None:
        """Close the file, with everything on the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


def _step(line: bytes) -> int | None:
    """The step of a whole line."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return row.get("step") if isinstance(row, dict) else None


def _plain(row: Row) -> Row:
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}


class TensorBoard(AbstractLog):
    """A log that TensorBoard shows; needs `pip install riesz[tensorboard]`.

    **Arguments:**

    - `folder`: where its event files are.

    ```python
    solution = riesz.minimise(loss, D, theta0, log=riesz.TensorBoard("runs/first"))
    ```
    """

    def __init__(self, folder: str | os.PathLike):
        if not isinstance(folder, str | os.PathLike):
            raise TypeError(f"folder must be a path, not {_check.shown(folder)}.")
        try:
            import tensorboardX  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError("riesz.TensorBoard needs tensorboardX: pip install riesz[tensorboard].") from error
        self.folder, self._library = str(folder), tensorboardX
        self._writer: Any = None

    def open(self, steps: int) -> int:
        """A further event file, which replaces what earlier ones say of later steps."""
        # Files are named by the second: without a suffix, a quick restart would overwrite its own beginning.
        suffix = f".{os.getpid()}.{steps + 1}"
        self._writer = self._library.SummaryWriter(self.folder, purge_step=steps + 1, filename_suffix=suffix)
        return steps

    def write(self, rows: Sequence[Row]) -> None:
        """One scalar a column and step."""
        for row in rows:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(f"riesz/{name}", value, row["step"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()


def as_logs(value: Any) -> list[AbstractLog]:
    """One log or several; a path stands for JSON lines."""
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    logs: list[AbstractLog] = [JSONLines(log) if isinstance(log, str | os.PathLike) else log for log in values]
    for log in logs:
        _check.kind("log", log, AbstractLog, "a path, riesz.JSONLines, riesz.TensorBoard, or a list of these")
    return logs


def rows(history: dict[str, np.ndarray], after: int, steps: int) -> Iterator[Row]:
    """The rows of a history after some step: columns that belong to steps have no entry for the start."""
    for k in range(after + 1, steps + 1):
        shift = {name: k - (steps + 1 - column.size) for name, column in history.items()}
        yield {"step": k} | {name: history[name][at].item() for name, at in shift.items() if at >= 0}
