"""Logs: the history, written while it is made, to watch a run or to look at it after a kill."""

import abc
import copy
import itertools
import json
import math
import os
import pathlib
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import _check
from .._bytes.files import reason, synchronise

Row = dict[str, Any]
"""One iterate: its `step`, and what the history knows of it."""


class AbstractLog(abc.ABC):
    """A place for rows."""

    def check(self) -> None:
        """Refuse, with a `ValueError`, a place that belongs to something else; nothing is changed there."""
        return

    def of_start(self, number: int) -> "AbstractLog":
        """The log of a further start of the run; by default this one, which is opened anew for every start."""
        return self

    def of_slab(self, number: int) -> "AbstractLog":
        """The log of a slab of a march; by default this one, which is opened anew for every slab."""
        return self

    @abc.abstractmethod
    def open(self, losses: Sequence[float]) -> int:
        """Make ready for a run that has had these losses, none if it is new.

        Returns the last step that need not be written again. Rows of later steps are dropped: the run will make these
        steps again.
        """

    @abc.abstractmethod
    def write(self, rows: Sequence[Row]) -> None:
        """Add rows, so that they survive the end of the process."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


class JSONLines(AbstractLog):
    """A log with one JSON object per line, `{"step": 3, "loss": 0.01, ...}`.

    Lines reach the file system after every chunk of steps. A kill loses at most the line that was being written, and
    the run that goes on from a checkpoint mends it. Numbers that are not finite are null. The log of another run is
    kept under another name, with `.old`, `.old.2` and so on after it. A file that is no log is refused. Further starts
    have files of their own: beside `run.jsonl` they are `run.start-1.jsonl`, `run.start-2.jsonl` and so on. Those of a
    march are `run.slab-0.jsonl`, `run.slab-1.jsonl` and so on.

    **Arguments:**

    - `path`: the file.

    ```python
    solution = riesz.minimise(loss, D, theta0, log="run.jsonl")  # pandas.read_json("run.jsonl", lines=True)
    ```
    """

    def __init__(self, path: str | os.PathLike):
        self.path = pathlib.Path(_check.kind("path", path, str | os.PathLike, "a path"))
        self._file: Any = None

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        """Refuse folders, devices, and files that no run has written."""
        try:
            mode = self.path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise ValueError(f"log must be a file, but {self} cannot be used: {reason(error)}.") from error
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise ValueError(f"log must be a file, but {self} is {what}.")
        try:
            with open(self.path, "rb") as file:
                first = file.readline(LONGEST)
        except OSError as error:
            raise ValueError(f"log must be a file that can be read, but {self} cannot: {reason(error)}.") from error
        if not _begins_a_log(first):
            raise ValueError(f"log must be a new file or the log of a run, but {self} holds something else.")

    def of_start(self, number: int) -> "JSONLines":
        """The file beside this one that has the number in its name."""
        return self._beside(f"start-{number}")

    def of_slab(self, number: int) -> "JSONLines":
        """The same for a slab."""
        return self._beside(f"slab-{number}")

    def _beside(self, name: str) -> "JSONLines":
        log = copy.copy(self)
        log.path = self.path.with_name(f"{self.path.stem}.{name}{self.path.suffix}")
        return log

    def open(self, losses: Sequence[float]) -> int:
        """Keep the lines that agree with the run, in their order, and cut off what follows."""
        self.check()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        last, end, foreign = self._compare(losses)
        if foreign:
            os.rename(self.path, self._unused_name())
            last, end = -1, 0
        self._file = open(self.path, "ab+", buffering=0)
        if end < os.fstat(self._file.fileno()).st_size:
            self._file.truncate(end)
        return last

    def _compare(self, losses: Sequence[float]) -> tuple[int, int, bool]:
        """The last step of this run in the file, the bytes up to its line, and whether the file is of another run.

        It is of another run where a line has another loss. A line that is damaged, or out of order, is to be mended.
        """
        last, end = -1, 0
        if not losses or not self.path.exists():
            return last, end, self.path.exists() and self.path.stat().st_size > 0
        with open(self.path, "rb") as file:
            for line, loss in zip(file, losses, strict=False):
                row = _row(line)
                if row is None or row.get("step") != last + 1:
                    break
                if row.get("loss") != (loss if math.isfinite(loss) else None):
                    return -1, 0, True
                last, end = last + 1, end + len(line)
        return last, end, False

    def _unused_name(self) -> pathlib.Path:
        """The first free name for an old log."""
        ends = itertools.chain([".old"], (f".old.{number}" for number in itertools.count(2)))
        names = (self.path.with_name(self.path.name + end) for end in ends)
        return next(name for name in names if not os.path.lexists(name))

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
            file, self._file = self._file, None
            with file:
                synchronise(file.fileno())


BEGINNING = b'{"step": 0, "'
"""How the first line of a log begins."""
LONGEST = 1 << 20
"""More bytes than the first line of a log has."""


def _begins_a_log(line: bytes) -> bool:
    """Whether a file with this first line is a log, or empty; a first line that a kill cut off counts."""
    if not line.endswith(b"\n"):
        return BEGINNING.startswith(line) or line.startswith(BEGINNING)
    row = _row(line)
    return row is not None and row.get("step") == 0 and {"loss", "seconds"} <= row.keys()


def _row(line: bytes) -> Row | None:
    """The row of a whole line."""
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _plain(row: Row) -> Row:
    return {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}


class TensorBoard(AbstractLog):
    """A log that TensorBoard shows; needs `pip install riesz[tensorboard]`.

    Further starts are shown beside the first one: their event files are in the subfolders `start-1` and so on. Those of
    a march are in `slab-0`, `slab-1` and so on.

    **Arguments:**

    - `folder`: where its event files are.

    ```python
    solution = riesz.minimise(loss, D, theta0, log=riesz.TensorBoard("runs/first"))
    ```
    """

    def __init__(self, folder: str | os.PathLike):
        _check.kind("folder", folder, str | os.PathLike, "a path")
        try:
            import tensorboardX  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError("riesz.TensorBoard needs tensorboardX: pip install riesz[tensorboard].") from error
        self.folder, self._library = str(folder), tensorboardX
        self._writer: Any = None

    def __str__(self) -> str:
        return self.folder

    def of_start(self, number: int) -> "TensorBoard":
        """The subfolder with the number in its name."""
        return self._below(f"start-{number}")

    def of_slab(self, number: int) -> "TensorBoard":
        """The same for a slab."""
        return self._below(f"slab-{number}")

    def _below(self, name: str) -> "TensorBoard":
        log = copy.copy(self)
        log.folder = os.path.join(self.folder, name)
        return log

    def open(self, losses: Sequence[float]) -> int:
        """A further event file, which replaces what earlier ones say of later steps."""
        steps = len(losses) - 1
        # Files are named by the second: without a suffix, a quick restart would overwrite its own beginning.
        suffix = f".{os.getpid()}.{steps + 1}"
        self._writer = self._library.SummaryWriter(self.folder, purge_step=steps + 1, filename_suffix=suffix)
        return steps

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(f"riesz/{name}", value, row["step"])
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Callback(AbstractLog):
    """A log that is any function of a dictionary, such as `wandb.log`.

    It is called once for every iterate, with its `step`, its loss, and what else the history knows of it. It cannot be
    asked what it was told before, so that a run that goes on from a checkpoint tells it of the steps it makes itself.
    """

    def __init__(self, function: Callable[[Row], Any]):
        self.function = function

    def of_slab(self, number: int) -> "Callback":
        """The same function, whose rows have the number too."""
        return Callback(lambda row: self.function({"slab": number} | row))

    def open(self, losses: Sequence[float]) -> int:
        return len(losses) - 1

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.function(row)

    def close(self) -> None:
        return


def as_logs(value: Any) -> list[AbstractLog]:
    """One log or several; a path stands for JSON lines, and a function is called with every row."""
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    logs: list[AbstractLog] = [_as_log(log) for log in values]
    for log in logs:
        log.check()
    paths = [log.path.resolve() for log in logs if isinstance(log, JSONLines)]
    if len(set(paths)) < len(paths):
        raise ValueError("log must be a list of different files, but it holds one of them twice.")
    return logs


def _as_log(value: Any) -> AbstractLog:
    if isinstance(value, str | os.PathLike):
        return JSONLines(value)
    # A class is no place for rows, though it can be called.
    if callable(value) and not isinstance(value, AbstractLog | type):
        return Callback(value)
    kinds = "a path, a function of a dictionary, riesz.JSONLines, riesz.TensorBoard, or a list of these"
    return _check.kind("log", value, AbstractLog, kinds)


def rows(history: dict[str, np.ndarray], after: int, steps: int) -> Iterator[Row]:
    """The rows of a history after some step: columns that belong to steps have no entry for the start."""
    for k in range(after + 1, steps + 1):
        shift = {name: k - (steps + 1 - column.size) for name, column in history.items()}
        yield {"step": k} | {name: history[name][at].item() for name, at in shift.items() if at >= 0}
