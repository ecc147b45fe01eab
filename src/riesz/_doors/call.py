"""One call of `minimise`: the run from its start, and those from further ones."""

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import Any

from .._methods.result import Result
from .._records.checkpoint import Checkpoint
from .._records.logs import AbstractLog
from .._records.recording import recording
from .._running import hosts
from .._running.prepare import Options
from .._running.problem import Problem
from .._running.restarts import Starts, best, told
from .._running.run import Run
from .._running.solution import Solution, Start
from .._running.standing import Standing
from .._types import Vector

logger = logging.getLogger("riesz")


def is_true(answer: Any) -> bool:
    """Whether a callback says stop: True itself, or NumPy's or JAX's, as comparisons of arrays give it."""
    boolean = isinstance(answer, bool) or (getattr(answer, "shape", None) == () and answer.dtype == bool)
    return boolean and bool(answer)


def _seen(run: Run) -> dict[str, str]:
    """What the progress bar says of the last look between the points."""
    return {} if run.looks is None else {"between": f"{run.looks.last.loss:.1e}"}


@dataclasses.dataclass
class Call:
    """What all starts of a call share."""

    problem: Problem
    key: Any
    notes: tuple[str, ...]
    options: Options
    callback: Callable[[int, Solution], Any] | None
    checkpoint: Checkpoint | None
    logs: list[AbstractLog]
    bar: Any
    wish: threading.Event
    """Set by Ctrl-C."""
    held: contextlib.ExitStack
    """What is held until the call ends: the lock of the folder of checkpoints."""
    standing: Standing | None = None
    """Where an earlier run stands, if the start goes on from it."""
    stopped: bool = False
    """Whether a callback or Ctrl-C wants no more steps; the run itself may just have ended in another way."""

    def run(self, theta0: Vector, earlier: tuple[Start, ...] = ()) -> Run:
        """The run from one start, within what earlier ones have left of the limits."""
        left = self._left(earlier)
        spent = self.options.max_steps - left.max_steps
        run = Run(self.problem, theta0, self.key, self.notes, self.standing, **left.tests)
        with recording(run, theta0, self.checkpoint, self.logs, self.held, len(earlier)) as write_records:
            try:
                self.bar.update(spent + run.record.steps - self.bar.n)
                if run.result is Result.RUNNING:
                    run.warm_up()
                    self.bar.unpause()
                while run.result is Result.RUNNING:
                    if hosts.any_of(self.wish.is_set()):
                        raise KeyboardInterrupt
                    if left.max_seconds is not None and hosts.any_of(run.record.seconds >= left.max_seconds):
                        run.stop(Result.TIME_LIMIT)
                        break
                    run.advance()
                    record = run.record
                    self.bar.update(spent + record.steps - self.bar.n)
                    self.bar.set_postfix({"loss": f"{record.loss:.3e}"} | _seen(run), refresh=False)
                    write_records()
                    if self.callback is not None:
                        so_far = dataclasses.replace(run.solution(), starts=earlier)
                        if hosts.any_of(is_true(self.callback(record.steps, so_far))):
                            self.stopped = True
                            run.stop(Result.STOPPED_BY_CALLBACK)
            except KeyboardInterrupt:
                self.stopped = True
                run.stop(Result.INTERRUPTED)
        return run

    def run_starts(self, starts: Starts) -> Solution:
        """Runs from one start after another, while there is a reason for it, and the solution of the best."""
        notes: tuple[str, ...] = ()
        chosen, made = self._next(starts.theta(0), ())
        # Ctrl-C while a further start is drawn, or put where it was, ends the call with the starts that were made.
        with contextlib.suppress(KeyboardInterrupt):
            while self._begins_again(starts, made):
                try:
                    theta0 = starts.theta(len(made))
                except Exception as error:  # of the user's own function: it must not cost the starts that were made
                    notes = (f"Start {len(made)} could not be drawn: {error}",)
                    logger.error(notes[0])
                    break
                run, made = self._next(theta0, made)
                chosen = run if best(made) is made[-1] else chosen
        solution = chosen.solution()
        return dataclasses.replace(solution, notes=(*solution.notes, *notes, told(made)), starts=made)

    def _next(self, theta0: Vector, made: tuple[Start, ...]) -> tuple[Run, tuple[Start, ...]]:
        """The run from the next start, and all starts that are then made."""
        number = len(made)
        self.bar.set_description(f"start {number}", refresh=False)
        run = self.run(theta0, made)
        record = run.record
        logger.info("Start %d has ended: %s.", number, record.result.name)
        return run, (*made, Start(number, theta0, record.result, record.steps, record.loss, record.seconds))

    def _begins_again(self, starts: Starts, made: tuple[Start, ...]) -> bool:
        """Whether the last start leaves a reason to make another, and the limits leave room for it."""
        left = self._left(made)
        over = left.max_steps <= 0 or (left.max_seconds is not None and hosts.any_of(left.max_seconds <= 0))
        stopped = self.stopped or hosts.any_of(self.wish.is_set())
        return not over and not stopped and starts.begins_again(made, self.options.target)

    def _left(self, made: tuple[Start, ...]) -> Options:
        """The options with what the starts that were made have left of the limits."""
        steps, seconds = self.options.max_steps, self.options.max_seconds
        return dataclasses.replace(
            self.options,
            max_steps=steps - sum(start.steps for start in made),
            max_seconds=None if seconds is None else seconds - sum(start.seconds for start in made),
        )
