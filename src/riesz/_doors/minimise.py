"""minimise and minimise_many: a host loop over compiled chunks."""

import collections
import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .. import _check
from .._methods.names import careful
from .._methods.result import Result
from .._methods.schemes import AbstractMethod
from .._problem.integral import AbstractLoss
from .._problem.ridge import ridged
from .._records.checkpoint import Checkpoint, as_checkpoint
from .._records.logs import as_logs
from .._running.interrupt import wish_to_stop
from .._running.prepare import Options, check_start, checked_mesh, has_lapack_at_points, prepare
from .._running.restarts import Restarts, Starts
from .._running.run import Run
from .._running.solution import Solution, SolveError
from .._running.standing import Standing, method_of, theta_of
from .._types import Key, Parametrisation
from .call import Call
from .given import given, given_again
from .lines import bar_of

logger = logging.getLogger("riesz")


def minimise(
    loss: AbstractLoss,
    D: Parametrisation,
    theta0: Any = None,
    method: AbstractMethod | str | None = None,
    max_steps: int = 1000,
    target: float | dict[str, float] | None = None,
    tolerance: float | dict[str, float] | None = None,
    max_seconds: float | None = None,
    metrics: dict[str, Callable[[Any], Any]] | None = None,
    key: Key | None = None,
    callback: Callable[[int, Solution], Any] | None = None,
    progress: bool | str = "auto",
    checkpoint: Checkpoint | str | os.PathLike | None = None,
    log: Any = None,
    throw: bool = True,
    memory: float | None = None,
    restarts: Restarts | None = None,
    mesh: Mesh | None = None,
    start: Solution | None = None,
    validation: AbstractLoss | Callable[[Any], Any] | None = None,
    patience: int = 20,
    ridge: float | None = None,
) -> Solution:
    r"""Minimise $L(\theta) = \mathcal{L}(D(\theta))$ from one start, or from others where that one ends badly.

    **Arguments:**

    - `loss`: a loss, such as `riesz.least_squares(over)`.
    - `D`, `theta0`: the parametrisation and the start, a vector. Any other pytree in the place of theta0 holds the
      parameters of a model `D(params, x)`, as `riesz.parametrise` takes it; a module of equinox or flax nnx carries its
      own, and theta0 is left out.
    - `method`: a method or its name; `riesz.auto()` by default.
    - `max_steps`: the step limit.
    - `target`: stop when the loss is at most this number, or, for `{"mse": 3e-2}`, when those metrics are.
    - `tolerance`: stop when |step| <= tolerance (|theta| + tolerance). Or a dictionary with any of `"step"`, that test;
      `"gradient"`, |grad L(theta)| <= tolerance; `"loss"`, five steps in a row that change L by at most tolerance |L|.
      Where points are drawn, targets and tolerances are for fading means over at least 20 batches; steps that a method
      has held back meet no tolerance; and `solution.theta` is where the test held.
    - `max_seconds`: the time limit, compilation and metrics aside; looked at between chunks of at most 32 steps.
    - `metrics`: functions of theta to record at every iterate; their time is not counted.
    - `key`: a random key, needed where points are drawn anew each step, and for restarts.
    - `callback`: called as `callback(steps, solution_so_far)` between chunks; returning True stops the run.
    - `progress`: a progress bar: True, False, or "auto": a bar where standard error is a terminal, and a line every ten
      seconds where it is not.
    - `checkpoint`: a folder, or a `riesz.Checkpoint`, to save the run in; the same call goes on where it was.
    - `log`: a file for a line of JSON per step, a function that is called with a dictionary per step (`wandb.log`), a
      `riesz.TensorBoard`, or a list of these.
    - `throw`: raise `riesz.SolveError` for failures; never for limits, callbacks or Ctrl-C.
    - `memory`: the bytes that a step may take; by default 60 % of what is available. Where more is predicted, rows are
      assembled in chunks, or `Gram` is used without storing them, with a note in the log "riesz" of what that costs;
      where nothing fits, a `MemoryError` comes before the first step.
    - `restarts`: a `riesz.Restarts(n)`, to begin again up to n times where a start ends badly; all share the limits.
    - `mesh`: devices over which the points of every measure are spread, such as `jax.make_mesh((8,), ("points",))`.
    - `start`: a solution to go on from, in place of theta0: with its method, at `solution.last`, with the momentum that
      it had. Steps and history are counted anew; on fixed points `solution.theta` remains the best until there is a
      lower loss. Where points are drawn give another key, or the same points are drawn again.
    - `validation`: a loss on other data, or a function of theta, that is measured after every step. `solution.theta` is
      where it was lowest, and the run ends when it has not improved for `patience` steps. The default method then makes
      shorter steps, so as not to pass by the best point: see docs/fitting.md.
    - `ridge`: a weight; adds weight/2 |theta - theta0|^2 to the loss, as one more row per parameter. The solution's
      loss and history include it, `loss(v)` does not.

    **Returns:** a `Solution`: the best parameters `theta`, their `loss` and `function`, the `last` parameters,
    the `result`, the number of `steps`, the `history`, and `notes`: what else there is to know, in sentences. With
    restarts, all these are of the start that reached the target, or else of the one with the lowest loss, and `starts`
    tells of every start.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=y)), D, theta0, target=1e-8)
    ```
    """
    if start is None:
        D, theta0 = given(D, theta0)
    else:
        theta0 = theta_of(start, theta0, restarts, ridge)
        D = given_again(D, start)
    theta0 = check_start(theta0, 1, "theta0")
    if callback is not None:
        _check.function("callback", callback)
    options = Options.checked(theta0, max_steps, target, tolerance, max_seconds, metrics, progress)
    options = dataclasses.replace(options, patience=_check.count("patience", patience))
    starts = Starts.checked(restarts, D, theta0, key)
    if starts is not None and (validation is not None or ridge is not None):
        raise ValueError("restarts must be None where there is a validation or a ridge, which belong to one start.")
    if ridge is not None:
        _check.kind("loss", loss, AbstractLoss, "a loss, such as riesz.least_squares(over)")
        loss, D = ridged(loss, _check.function("D", D), theta0, ridge)
    method = method_of(start, method)
    if method is None and validation is not None:
        method = careful()
    problem, key, notes = prepare(
        *(loss, D, theta0, method, key, options, memory),
        mesh=checked_mesh(mesh),
        validation=validation,
    )
    standing = Standing.checked(start, problem)
    saved, logs = as_checkpoint(checkpoint), as_logs(log)
    with bar_of(progress, options.max_steps, "step") as bar, wish_to_stop() as wish, contextlib.ExitStack() as held:
        call = Call(problem, key, notes, options, callback, saved, logs, bar, wish, held, standing)
        solution = call.run(theta0).solution() if starts is None else call.run_starts(starts)
    if throw and solution.result.failed:
        raise SolveError(solution)
    return solution


def _stack(runs: list[Run], D: Parametrisation) -> Solution:
    """One solution with a leading axis; a stopped start's last value is carried forward."""
    solutions = [run.solution() for run in runs]
    longest = max(solution.steps for solution in solutions)

    def padded(solution: Solution, name: str) -> np.ndarray:
        column = solution.history[name]
        missing = 0 if column.dtype.kind in "bi" else np.nan  # a start without a step has nothing to carry
        fill = column[-1] if column.size else missing
        return np.concatenate([column, np.full(longest + 1 - column.size, fill, column.dtype)])

    return Solution(
        theta=jnp.stack([solution.theta for solution in solutions]),
        loss=jnp.stack([solution.loss for solution in solutions]),
        last=jnp.stack([solution.last for solution in solutions]),
        result=np.array([solution.result for solution in solutions], dtype=object),
        steps=np.array([solution.steps for solution in solutions]),
        history={name: np.stack([padded(solution, name) for solution in solutions]) for name in solutions[0].history},
        D=D,
        notes=tuple(dict.fromkeys(note for solution in solutions for note in solution.notes)),
        problem=runs[0].problem,
        between=np.array([solution.between for solution in solutions]) if runs[0].looks is not None else None,
    )


def minimise_many(
    loss: AbstractLoss,
    D: Parametrisation,
    thetas: jax.Array,
    method: AbstractMethod | str | None = None,
    max_steps: int = 1000,
    target: float | dict[str, float] | None = None,
    tolerance: float | dict[str, float] | None = None,
    max_seconds: float | None = None,
    metrics: dict[str, Callable[[Any], Any]] | None = None,
    key: Key | None = None,
    progress: bool | str = "auto",
    threads: int | None = None,
    memory: float | None = None,
    mesh: Any = None,
) -> Solution:
    """Minimise from many starts with one compiled program, on all cores.

    Every start runs the program that `minimise` would run, so it ends with the same numbers. Threads take turns
    at the starts, a chunk of steps at a time; a start that has ended costs nothing more, and one that diverges
    touches no other. It never raises for a single start: look at `solution.result`.

    **Arguments:** as for `minimise`, except

    - `thetas`: the starts, of shape (n, d).
    - `max_seconds`: the time limit for all starts together.
    - `threads`: how many starts run at once; the number of cores by default.
    - `memory`: the bytes for all starts that run at once.
    - `mesh`: refused; the points of one start can be spread over devices, by `minimise`.

    **Returns:** a `Solution` with a leading axis: theta (n, d), steps (n,), result (n,), and every column of the
    history (n, longest + 1), where a stopped start's last value is carried forward. All starts see the same draws.

    ```python
    thetas = jnp.stack([riesz.mlp(key, (1, 10, 1))[1] for key in jax.random.split(jax.random.key(0), 10)])
    solution = riesz.minimise_many(loss, D, thetas, riesz.nhb(), target=1e-8)
    ```
    """
    if mesh is not None:
        raise ValueError(
            "mesh must be None for minimise_many, whose starts run side by side on one device: call minimise with a "
            "mesh for one start after another."
        )
    thetas = check_start(thetas, 2, "thetas")
    workers = min(_check.count("threads", os.cpu_count() or 1 if threads is None else threads), len(thetas))
    options = Options.checked(thetas[0], max_steps, target, tolerance, max_seconds, metrics, progress)
    problem, key, notes = prepare(loss, D, thetas[0], method, key, options, memory, workers)
    if workers > 1 and has_lapack_at_points(loss, D, thetas[0], key):
        # Batches of matrices from two threads wait for each other in XLA's threads, for ever.
        notes += ("The model calls LAPACK at every point, so starts run one after another (threads=1).",)
        logger.warning(notes[-1])
        workers = 1

    def work(runs: list[Run], waiting: Any, lock: Any, wish: threading.Event, bar: Any, began: float) -> None:
        while not wish.is_set():
            with lock:
                if not waiting:
                    return
                run = waiting.popleft()
            if max_seconds is not None and time.perf_counter() - began >= max_seconds:
                run.stop(Result.TIME_LIMIT)
            else:
                run.advance()
            with lock:
                if run.result is Result.RUNNING:
                    waiting.append(run)
                else:
                    bar.update()
                bar.set_postfix(best=f"{min(run.record.loss for run in runs):.3e}", refresh=False)

    with bar_of(progress, len(thetas), "start") as bar, wish_to_stop() as wish:
        runs = [Run(problem, theta, key, notes, **options.tests) for theta in thetas]
        waiting = collections.deque(run for run in runs if run.result is Result.RUNNING)
        bar.update(len(runs) - len(waiting))
        try:
            if waiting:
                waiting[0].warm_up()
            shared = (runs, waiting, threading.Lock(), wish, bar, time.perf_counter())
            with ThreadPoolExecutor(workers) as pool:
                futures = [pool.submit(work, *shared) for _ in range(workers)]
                try:
                    for future in futures:
                        future.result()
                except BaseException:
                    wish.set()  # the other threads end with their chunk
                    raise
        except KeyboardInterrupt:
            pass
        for run in runs:
            run.stop(Result.INTERRUPTED)
    return _stack(runs, D)
