"""What a run leaves on the disk while it runs: its checkpoints and its logs."""

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator

import jax

from .._methods.result import Result
from .._running.run import Run
from .checkpoint import Checkpoint, CheckpointError, Keeper, locked
from .files import reason
from .logs import AbstractLog, JSONLines, rows

logger = logging.getLogger("riesz")


@contextlib.contextmanager
def recording(
    run: Run, theta0: jax.Array, checkpoint: Checkpoint | None, logs: list[AbstractLog]
) -> Iterator[Callable[[], None]]:
    """Bring the run to where it was; then a function to call after every chunk, which logs it and saves what is due.

    Whatever ends the run, an exception of a callback included, the last chunk is saved. Logs come first, so that a
    checkpoint never knows more than they do.
    """
    with contextlib.ExitStack() as stack:
        keeper = None
        if checkpoint is not None:
            _check_apart(pathlib.Path(checkpoint.folder), logs)
            keeper = _resumed(run, theta0, checkpoint, stack)
        resumed = keeper is not None and keeper.resumed
        # The logs of earlier runs are put away before this run is saved: a kill in between must not mix them up.
        written = _open(run, logs, resumed, stack)
        if keeper is not None and not keeper.resumed:
            # A folder that cannot be written to is an error at the start, and no reason to lose a run later.
            try:
                keeper.save()
            except OSError as error:
                raise _refused(keeper.folder, reason(error)) from error

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


def _resumed(run: Run, theta0: jax.Array, checkpoint: Checkpoint, stack: contextlib.ExitStack) -> Keeper:
    """Lock the folder and put the run where its newest checkpoint is; a run that has ended needs no writing."""
    folder = pathlib.Path(checkpoint.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = reason(error)
        raise ValueError(f"checkpoint must be a folder that can be made, but {folder} cannot: {why}.") from error
    unwritable = stack.enter_context(locked(folder))
    keeper = Keeper(checkpoint, run, theta0)
    keeper.resume()
    ended = keeper.resumed and run.result is not Result.RUNNING
    if unwritable is not None and ended:
        logger.warning("%s cannot be written to (%s); the run in it has ended and is read.", folder, unwritable)
    elif unwritable is not None:
        raise _refused(folder, unwritable)
    else:
        keeper.remove_unfinished()
    return keeper


def _open(run: Run, logs: list[AbstractLog], resumed: bool, stack: contextlib.ExitStack) -> dict[AbstractLog, int]:
    """Open the logs; for each, the last step that need not be written again."""
    written = {}
    for log in logs:
        try:
            written[log] = log.open(run.history()["loss"].tolist() if resumed else [])
        except OSError as error:
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


def _refused(folder: pathlib.Path, why: str) -> CheckpointError:
    return CheckpointError(f"checkpoint: {folder} cannot be written to ({why}); give this run another folder.")
