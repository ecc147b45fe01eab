"""march: an equation in time, solved slab by slab."""

import dataclasses
import inspect
import logging
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.result import Result
from .._problem.bound import Bound
from .._problem.integral import AbstractLoss
from .._records.checkpoint import Checkpoint, as_checkpoint
from .._records.logs import AbstractLog, as_logs
from .._running import hosts
from .._running.interrupt import wish_to_stop
from .._running.prepare import Options
from .._running.slabs import MarchSolution, made_again, notes_of, seconds_of, verdict
from .._running.solution import Solution, SolveError
from .._types import Key, Parametrisation
from .call import is_true
from .given import given, given_again
from .lines import bar_of
from .minimise import minimise

logger = logging.getLogger("riesz")

REFUSED = {
    "start": "start must be left out of march: its first slab starts from theta0, each other from the one before.",
    "restarts": "restarts must be left out of march: minimise the first slab with them, and march from what they find.",
    "validation": "validation must be left out of march, where it would judge every slab by the same data.",
}
"""Options of minimise that a march does not take, with what to do."""
STOPPED = (Result.TIME_LIMIT, Result.STOPPED_BY_CALLBACK, Result.INTERRUPTED)
"""How a slab ends that ends the march."""
Slab = Callable[[jax.Array, jax.Array, Any], tuple[AbstractLoss, Parametrisation]]


def march(
    slab: Slab,
    times: Any,
    theta0: Any = None,
    *,
    max_seconds: float | None = None,
    key: Key | None = None,
    callback: Callable[[int, MarchSolution], Any] | None = None,
    progress: bool | str = "auto",
    checkpoint: Checkpoint | str | pathlib.Path | None = None,
    log: Any = None,
    throw: bool = True,
    **options: Any,
) -> MarchSolution:
    r"""Solve an equation in time slab by slab: a run of `minimise` for each, which goes on from the one before.

    One network for a long time has to be large, and often fails. Small ones, each for the time between two instants,
    take less to fit, and each begins close to its solution. Time is the last coordinate of points (x, t).

    **Arguments:**

    - `slab`: a function `slab(t0, t1, before)` that returns the pair (loss, D) of the slab from t0 to t1. `before` is
      the function of the slab before, to be taken at t0; in the first slab it is None. The condition at t0 is built
      into D by `riesz.hard_initial`, or is one more term of the loss.
    - `times`: increasing numbers, one more than there are slabs.
    - `theta0`: the start of the first slab, as for `minimise`. Every other slab starts from the parameters of the one
      before.
    - `max_seconds`: the time limit of all slabs together.
    - `key`: slab k has the key `jax.random.fold_in(key, k)`.
    - `callback`: called as `callback(steps, solution_so_far)` with the steps of all slabs and a `MarchSolution` whose
      last slab is under way; returning True stops the march.
    - `progress`: one progress bar for all slabs, as for `minimise`.
    - `checkpoint`: a folder, or a `riesz.Checkpoint`, in which slab k has the folder `slab-k`. The same call goes on in
      the slab where it was, and reads those that have ended.
    - `log`: as for `minimise`; a file `run.jsonl` stands for `run.slab-0.jsonl` and so on, and rows for functions have
      the entry `slab`.
    - `throw`: raise `riesz.SolveError` where a slab fails, with the `MarchSolution` so far as its `solution`.
    - `options`: those of `minimise` for every slab: `method`, `max_steps` (of each slab), `target`, `tolerance`,
      `metrics`, `memory`, `mesh`, `ridge`.

    **Returns:** a `MarchSolution`: its `function` of (x, t), the `slabs` with the solution of each, `times`, `result`,
    `results` and `notes`. A march that is stopped, by Ctrl-C, the time limit or the callback, returns the slabs that
    were made.

    Slabs whose losses and models differ in arrays alone, such as points, data and `before`, share one compiled program.
    Functions are told apart by identity: make operators and sources outside of `slab`.

    ```python
    network, theta0 = riesz.mlp(jax.random.key(0), (2, 10, 1))

    def transport(v):  # u_t + u_x
        return lambda x: riesz.time_derivative(v)(x) + riesz.partial(0)(v)(x)

    def bump(x):
        return jnp.exp(-x[0] ** 2)

    def slab(t0, t1, before):
        D = riesz.hard_initial(network, before or bump, t0)
        return riesz.residual(transport, 0.0, riesz.gauss_legendre((-1, t0), (1, t1), 12)), D

    solution = riesz.march(slab, [0.0, 0.5, 1.0], theta0)
    ```
    """
    _check.function("slab", slab)
    _check_names(options)
    times = _checked_times(times, theta0)
    if callback is not None:
        _check.function("callback", callback)
    if key is not None:
        _check.key("key", key)
    max_steps = options.get("max_steps", inspect.signature(minimise).parameters["max_steps"].default)
    limits = Options.checked(
        jnp.zeros(1), max_steps, target=None, tolerance=None, max_seconds=max_seconds, metrics=None, progress=progress
    )
    saved, logs = as_checkpoint(checkpoint), as_logs(log)
    count = times.size - 1
    with bar_of(progress, count * limits.max_steps, "step") as bar, wish_to_stop() as wish:
        shared = (slab, times, theta0, options, limits, key, callback, saved, logs, bar, wish)
        marching = Marching(*shared)
        marching.run()
    solution = marching.solution
    if throw and marching.made[-1].result.failed:
        raise SolveError(solution, f"{marching.where(len(marching.made) - 1)}: {solution.result}")
    return solution


def _check_names(options: dict[str, Any]) -> None:
    """Refuse what is no option of every slab."""
    for name in options:
        if name in REFUSED:
            raise TypeError(REFUSED[name])
        if name in ("loss", "D") or name not in inspect.signature(minimise).parameters:
            raise TypeError(f"{name} must be left out of march, whose options are those of riesz.minimise.")


def _checked_times(times: Any, theta0: Any) -> jax.Array:
    """Increasing times; plain numbers are in the precision of theta0."""
    dtype = None if hasattr(times, "dtype") else getattr(theta0, "dtype", None)
    times = _check.floating("times", times)
    if times.ndim != 1 or times.size < 2:
        raise ValueError(f"times must be a sequence of at least two numbers, but its shape is {times.shape}.")
    _check.finite_rows("times", times)
    falls = np.diff(times) <= 0
    if falls.any():
        at = int(np.argmax(falls))
        raise ValueError(f"times must increase, but times[{at}] is {times[at]} and times[{at + 1}] is {times[at + 1]}.")
    return times if dtype is None or not jnp.issubdtype(dtype, jnp.floating) else times.astype(dtype)


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
