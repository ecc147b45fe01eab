"""What a run leaves on the disk while it runs: its checkpoints and its logs."""

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator

import jax

from .._bytes.files import reason
from .._methods.result import Result
from .._running import hosts
from .._running.run import Run
from .checkpoint import Checkpoint, CheckpointError, Keeper, locked
from .logs import AbstractLog, JSONLines, rows

logger = logging.getLogger("riesz")


@contextlib.contextmanager
def recording(
    run: Run,
    theta0: jax.Array,
    checkpoint: Checkpoint | None,
    logs: list[AbstractLog],
    held: contextlib.ExitStack,
    number: int = 0,
) -> Iterator[Callable[[], None]]:
    """Bring the run to where it was; then a function to call after every chunk, which logs it and saves what is due.

    Whatever ends the run, an exception of a callback included, the last chunk is saved. Logs come first, so that a
    checkpoint never knows more than they do. `held` keeps the folder locked while there may be further starts, which
    have a positive `number`: a disk that refuses does not end these, or what earlier ones have found would be lost.
    """
    with contextlib.ExitStack() as stack:
        keeper = None if checkpoint is None else Keeper(checkpoint, run, theta0, number)
        written: dict[AbstractLog, int] = {}

        def begin() -> bytes:
            """Lock, read and open what there is; for other processes, the checkpoint that the run goes on from."""
            nonlocal logs
            if keeper is not None:
                _check_apart(keeper.folder, logs)
                _resume(keeper, held)
            resumed = keeper is not None and keeper.resumed
            logs = [log.of_start(number) for log in logs] if number else logs
            # The logs of earlier runs are put away before this run is saved: a kill in between must not mix them up.
            written.update(_open(run, logs, resumed, stack, number))
            if keeper is not None and not keeper.resumed:
                # A folder that cannot be written to is an error at the start, and no reason to lose a run later.
                with _going_on("The checkpoint cannot be saved") if number else _refusing(keeper.folder):
                    keeper.save()
            return keeper.content if keeper is not None and keeper.resumed and hosts.are_many() else b""

        found = hosts.from_first(begin)
        if not hosts.is_first():
            # Only the first process writes; the others go on from what it has read.
            if keeper is not None and found:
                keeper.take(found)
            yield lambda: None
            return

        def write_records(last: bool = False) -> None:
            steps = run.record.steps
            for log, known in written.items():
                with _going_on("The log cannot be written"):
                    log.write(list(rows(run.history(after=known), known, steps)))
                    written[log] = steps
            if keeper is not None and keeper.due(last):
                with _going_on("The checkpoint cannot be saved"):
                    keeper.save()

        write_records()
        try:
            yield write_records
        finally:
            write_records(last=True)
            if run.result is not Result.RUNNING:
                logger.info("After %d steps, loss %.6e: %s", run.record.steps, run.record.loss, run.result)


def _resume(keeper: Keeper, held: contextlib.ExitStack) -> None:
    """Lock the folder and put the run where its newest checkpoint is; a run that has ended needs no writing."""
    folder, number = keeper.folder, keeper.number
    unwritable = _locked(folder, held) if number == 0 else None
    keeper.resume()
    others = [] if keeper.resumed or number > 0 else keeper.further_starts()
    if others:
        raise CheckpointError(
            f"checkpoint: {others[0]} is of a run whose first start is not there; give this run another folder."
        )
    ended = keeper.resumed and keeper.run.result is not Result.RUNNING
    if unwritable is not None and ended:
        logger.warning("%s cannot be written to (%s); the run in it has ended and is read.", folder, unwritable)
    elif unwritable is not None:
        raise _refused(folder, unwritable)
    else:
        keeper.remove_unfinished()


def _locked(folder: pathlib.Path, held: contextlib.ExitStack) -> str | None:
    """Make the folder and keep other processes out of it; the reason where nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = reason(error)
        raise ValueError(f"checkpoint must be a folder that can be made, but {folder} cannot: {why}.") from error
    return held.enter_context(locked(folder))


def _open(
    run: Run, logs: list[AbstractLog], resumed: bool, stack: contextlib.ExitStack, number: int
) -> dict[AbstractLog, int]:
    """Open the logs; for each, the last step that need not be written again."""
    written = {}
    for log in logs:
        try:
            written[log] = log.open(run.history()["loss"].tolist() if resumed else [])
        except (OSError, ValueError) as error:
            if number > 0:
                why = reason(error) if isinstance(error, OSError) else str(error).rstrip(".")
                logger.error("Start %d is not logged (%s); the run goes on.", number, why)
                continue
            if isinstance(error, ValueError):
                raise
            if not resumed or run.result is Result.RUNNING:
                raise ValueError(f"log: {log} cannot be written to: {reason(error)}.") from error
            logger.warning("%s cannot be written to (%s); the run has ended and is read.", log, reason(error))
            continue
        stack.callback(_close, log)
    return written


def _close(log: AbstractLog) -> None:
    try:
        log.close()
    except OSError as error:
        logger.warning("%s may be incomplete (%s).", log, reason(error))


@contextlib.contextmanager
def _going_on(what: str) -> Iterator[None]:
    """A full disk does not end a run: it is told, and writing is tried again after the next chunk."""
    try:
        yield
    except OSError as error:
        logger.error("%s (%s); the run goes on.", what, reason(error))


def _check_apart(folder: pathlib.Path, logs: list[AbstractLog]) -> None:
    """Refuse logs in the place of the folder of checkpoints, or of its lock."""
    taken = folder.resolve()
    for log in logs:
        if isinstance(log, JSONLines) and log.path.resolve() in (taken, taken / "lock", *taken.parents):
            raise ValueError(
                f"log must be a file apart from the checkpoints in {folder}, such as {folder / 'log.jsonl'}, "
                f"but it is {log}."
            )


@contextlib.contextmanager
def _refusing(folder: pathlib.Path) -> Iterator[None]:
    """A folder that cannot be written to, in a sentence."""
    try:
        yield
    except OSError as error:
        raise _refused(folder, reason(error)) from error


def _refused(folder: pathlib.Path, why: str) -> CheckpointError:
    return CheckpointError(f"checkpoint: {folder} cannot be written to ({why}); give this run another folder.")
