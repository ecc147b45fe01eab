"""A march in the making: one slab after the other, each a call of `minimise`."""

import dataclasses
import logging
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import jax

from .. import _check
from .._methods.result import Result
from .._problem.bound import Bound
from .._problem.integral import AbstractLoss
from .._records.checkpoint import Checkpoint
from .._records.logs import AbstractLog
from .._running import hosts
from .._running.prepare import Options
from .._running.slabs import MarchSolution, made_again, notes_of, seconds_of, verdict
from .._running.solution import Solution, SolveError
from .._types import Parametrisation
from .call import is_true
from .given import given, given_again
from .minimise import minimise

logger = logging.getLogger("riesz")

Slab = Callable[[jax.Array, jax.Array, Any], tuple[AbstractLoss, Parametrisation]]
"""What users give: `slab(t0, t1, before) -> (loss, D)`."""
STOPPED = (Result.TIME_LIMIT, Result.STOPPED_BY_CALLBACK, Result.INTERRUPTED)
"""How a slab ends that ends the march."""


def _strong(theta: Any) -> Any:
    """Parameters of a type that Python's numbers do not decide: programs are compiled for one of the two."""
    return jax.lax.convert_element_type(theta, theta.dtype) if isinstance(theta, jax.Array) else theta


@dataclasses.dataclass
class Marching:
    """A march in the making."""

    slab: Slab
    times: jax.Array
    theta0: Any
    options: dict[str, Any]
    limits: Options
    key: Any
    callback: Callable[[int, MarchSolution], Any] | None
    checkpoint: Checkpoint | None
    logs: list[AbstractLog]
    bar: Any
    wish: threading.Event
    """Set by Ctrl-C."""
    made: tuple[Solution, ...] = ()
    converts: bool = False
    """Whether the slab returns modules, or functions of parameters, in the place of parametrisations."""
    wish_of_callback: Result | None = None
    """How the callback has asked to stop, though the slab may just have ended by itself."""
    stopped: Result | None = None
    """What has stopped the march."""
    anew: tuple[str, ...] = ()
    """The functions for which programs were compiled anew."""

    @property
    def count(self) -> int:
        """The number of slabs that are asked for."""
        return self.times.size - 1

    def where(self, k: int) -> str:
        """A slab in words."""
        return f"In slab {k}, from t = {self.times[k]:.6g} to {self.times[k + 1]:.6g}"

    def run(self) -> None:
        """Make the slabs, until something stops the march."""
        try:
            while self._goes_on():
                self._next()
        except KeyboardInterrupt:  # the second Ctrl-C, between two runs
            if not self.made:
                raise
            self.stopped = Result.INTERRUPTED

    def _goes_on(self) -> bool:
        """Whether there is another slab to make, and nothing against it."""
        if not self.made:
            return True
        last, left = self.made[-1].result, self._seconds_left()
        if last.failed or last in STOPPED:
            self.stopped = last
        elif len(self.made) == self.count:
            return False
        elif self.wish_of_callback is not None:
            self.stopped = self.wish_of_callback
        elif hosts.any_of(self.wish.is_set()):
            self.stopped = Result.INTERRUPTED
        elif left is not None and hosts.any_of(left <= 0):
            self.stopped = Result.TIME_LIMIT
        return self.stopped is None

    def _seconds_left(self) -> float | None:
        limit = self.limits.max_seconds
        return None if limit is None else limit - sum(map(seconds_of, self.made))

    def _next(self) -> None:
        """Make the next slab."""
        k, left = len(self.made), self.count - len(self.made) - 1
        self.bar.set_description(f"slab {k} of {self.count}", refresh=False)
        loss, D, theta = self._problem(k)
        self.bar.unpause()
        solution = minimise(
            *(loss, D, theta),
            max_seconds=self._seconds_left(),
            key=None if self.key is None else jax.random.fold_in(self.key, k),
            callback=self._tell,
            progress=False,
            checkpoint=self._folder(k),
            log=[log.of_slab(k) for log in self.logs],
            throw=False,
            **self.options,
        )
        if self.made:
            self.anew += tuple(name for name in made_again(self.made[-1], solution) if name not in self.anew)
        self.made += (solution,)
        steps = sum(slab.steps for slab in self.made)
        self.bar.total = steps + left * self.limits.max_steps
        self.bar.update(steps - self.bar.n)
        logger.info("%s, %d steps: %s", self.where(k), solution.steps, solution.result)

    def _problem(self, k: int) -> tuple[AbstractLoss, Any, Any]:
        """The loss of a slab, its parametrisation and its start."""
        if k == 0:
            loss, D = self._pair(k, None)
            parametrised, theta = given(D, self.theta0)
            self.converts = parametrised is not D
            return loss, parametrised, _strong(theta)
        last = self.made[-1]
        before = Bound(last.D, _strong(last.theta))
        try:
            loss, D = self._pair(k, before)
        except Exception as error:  # of the user's own function: it must not cost the slabs that were made
            cause = (str(error).splitlines() or [""])[0].rstrip(".")
            raise SolveError(self.solution, f"{self.where(k)}, slab fails: {cause}.") from error
        return loss, given_again(D, last) if self.converts else D, before.theta

    def _pair(self, k: int, before: Bound | None) -> tuple[AbstractLoss, Any]:
        found: Any = self.slab(self.times[k], self.times[k + 1], before)
        if not (isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], AbstractLoss)):
            raise TypeError(f"slab must return a pair (loss, D), not {_check.shown(found)}.")
        return found[0], found[1]

    def _folder(self, k: int) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        return dataclasses.replace(self.checkpoint, folder=pathlib.Path(self.checkpoint.folder) / f"slab-{k}")

    def _tell(self, steps: int, so_far: Solution) -> bool:
        """What is told between the chunks of a slab; whether the callback wants no more of them."""
        made = (*self.made, so_far)
        self.bar.update(sum(slab.steps for slab in made) - self.bar.n)
        self.bar.set_postfix(loss=f"{float(so_far.loss):.3e}", refresh=False)
        if self.callback is None:
            return False
        solution = MarchSolution(made, self.times[: len(made) + 1], so_far.result, notes_of(made))
        try:
            stops = is_true(self.callback(solution.steps, solution))
        except KeyboardInterrupt:
            self.wish_of_callback = Result.INTERRUPTED
            raise
        if stops:
            self.wish_of_callback = Result.STOPPED_BY_CALLBACK
        return stops

    @property
    def solution(self) -> MarchSolution:
        """What the march has found."""
        slabs, notes = self.made, notes_of(self.made)
        if self.stopped is not None:
            end = f"The march was stopped at slab {len(slabs) - 1} of 0 to {self.count - 1} ({self.stopped.name})."
            notes += (end,)
        if self.anew:
            names = ", ".join(self.anew)
            notes += (f"Programs were compiled anew for functions that are made in every slab: {names}.",)
        result = verdict(tuple(slab.result for slab in slabs)) if self.stopped is None else self.stopped
        return MarchSolution(slabs, self.times[: len(slabs) + 1], result, notes)
