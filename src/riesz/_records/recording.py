"""What a run leaves on the disk while it runs: its checkpoints and its logs."""

import contextlib
import logging
import pathlib
from collections.abc import Callable, Iterator

import jax

from .._methods.result import Result
from .._running.run import Run
from .checkpoint import Checkpoint, Keeper, alone
from .logs import AbstractLog, rows

logger = logging.getLogger("riesz")


@contextlib.contextmanager
def kept(
    run: Run, theta0: jax.Array, checkpoint: Checkpoint | None, logs: list[AbstractLog]
) -> Iterator[Callable[[], None]]:
    """Bring the run to where it was; then a function to call after every chunk, which logs it and saves what is due.

    Whatever ends the run, an exception of a callback included, the last chunk is saved. Logs come first, so that a
    checkpoint never knows more than they do.
    """
    with contextlib.ExitStack() as stack:
        keeper = None
        if checkpoint is not None:
            folder = pathlib.Path(checkpoint.folder)
            _make(folder)
            stack.enter_context(alone(folder))
            keeper = Keeper(checkpoint, run, theta0)
            keeper.resume()
        resumed = keeper is not None and keeper.resumed
        written = []
        for log in logs:
            written.append(log.open(run.record.steps if resumed else -1))
            stack.callback(log.close)

        def keep() -> None:
            steps = run.record.steps
            for index, log in enumerate(logs):
                with _going_on("The log cannot be written"):
                    log.write(list(rows(run.history(after=written[index]), written[index], steps)))
                    written[index] = steps
            if keeper is not None and keeper.due():
                with _going_on("The checkpoint cannot be saved"):
                    keeper.save()

        # A folder that cannot be written to is an error at the start, and no reason to lose a run later.
        if keeper is not None:
            keeper.save_first()
        keep()
        try:
            yield keep
        finally:
            keep()
            if keeper is not None and not keeper.up_to_date:
                with _going_on("The checkpoint cannot be saved"):
                    keeper.save()
            if run.result is not Result.RUNNING:
                logger.info("After %d steps, loss %.6e: %s", run.record.steps, run.record.loss, run.result)


@contextlib.contextmanager
def _going_on(what: str) -> Iterator[None]:
    """A full disk ends no run: it is told, and tried again after the next chunk."""
    try:
        yield
    except OSError as error:
        logger.error("%s (%s); the run goes on.", what, error.strerror or error)


def _make(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"checkpoint must be a folder that can be made, but {folder} cannot: {error.strerror}."
        ) from error
