"""minimise and minimise_many: a host loop over compiled chunks."""

import collections
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from . import _check
from ._features import evaluate
from ._inner_product import AbstractMetric, GaussNewton, InnerProduct
from ._integral import AbstractLoss, Integral, check_problem, check_term
from ._methods import as_method, nhb
from ._result import Result, Solution, SolveError
from ._run import Problem, Run
from ._safeguard import Safeguard
from ._scheme import AbstractMethod, AbstractScheme, Choices
from ._step_size import Search
from ._types import Key, Parametrisation, Vector

_warned = threading.Event()


def _check_precision(dtype: Any) -> None:
    if dtype == jnp.float32 and not jax.config.read("jax_enable_x64") and not _warned.is_set():
        _warned.set()
        warnings.warn(
            "theta0 is float32, which limits natural gradients to about three digits; for more, put this first: "
            'import jax; jax.config.update("jax_enable_x64", True)',
            stacklevel=3,
        )


def _check_start(theta: Any, ndim: int, name: str) -> jax.Array:
    theta = _check.array(name, theta)
    shape = "one axis of parameters" if ndim == 1 else "two axes, starts and parameters"
    if theta.ndim != ndim or theta.size == 0:
        raise ValueError(f"{name} must have {shape}, but its shape is {theta.shape}.")
    if not jnp.issubdtype(theta.dtype, jnp.floating):
        raise TypeError(f"{name} must be floating-point, but its dtype is {theta.dtype}.")
    _check.finite_rows(name, theta)
    return theta


def _check_metrics(metrics: Any, theta: jax.Array) -> dict[str, Callable[[Any], Any]]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dictionary of functions of theta, not {_check.shown(metrics)}.")
    for name in metrics:
        _check.kind("every name in metrics", name, str, "text")
    taken = {"loss", "gradient_norm", "step_norm", "alpha", "rank", "accepted", "seconds"} & set(metrics)
    if taken:
        raise ValueError(f"metrics must not be named {', '.join(sorted(taken))}: the history has that column.")
    for name, f in metrics.items():
        _check.function(f"metrics[{name!r}]", f)
        with _check.explained(f"metrics[{name!r}] must be a function of theta that JAX can trace, but it fails"):
            value = jax.eval_shape(f, theta)
        if getattr(value, "shape", None) != ():
            raise ValueError(f"metrics[{name!r}] must return a scalar, but it returns {_check.shown(value)}.")
    return dict(metrics)


def _check_target(target: Any, metrics: dict[str, Any]) -> Any:
    if isinstance(target, dict):
        unknown = set(target) - set(metrics)
        if unknown or not target:
            names = ", ".join(sorted(map(str, unknown))) or "in it"
            raise ValueError(f"target must name metrics; there is no metric {names}.")
        return {name: float(_check.scalar(f"target[{name!r}]", value)) for name, value in target.items()}
    return None if target is None else float(_check.scalar("target", target))


def _check_choices(choices: Choices, theta: jax.Array) -> None:
    """Refuse parts whose numbers are not single ones in the precision of theta."""
    number = jax.ShapeDtypeStruct((), theta.dtype)
    parts: dict[str, tuple[Callable[..., Any], Any, Any]] = {
        "filter": (choices.filter, theta, theta),
        "beta": (choices.momentum, jnp.zeros((), int), number),
        "step_size": (lambda g: choices.step_size(Search(g, lambda alpha: alpha, g[0], g[0])), theta, number),
    }
    for name, (part, argument, expected) in parts.items():
        with _check.explained(f"{name} must be made of single numbers, but it fails"):
            found = jax.eval_shape(part, argument)
        if found.shape != expected.shape:
            raise ValueError(f"{name} must be made of single numbers, but it gives shape {found.shape}.")
        if not found.weak_type and jnp.promote_types(found.dtype, theta.dtype) != theta.dtype:
            raise TypeError(f"theta and {name} must have one dtype, but they are {theta.dtype} and {found.dtype}.")


def _check_metric(name: str, metric: AbstractMetric, loss: AbstractLoss, D: Any, theta: Any, key: Any) -> None:
    """Refuse an inner product that does not fit the problem."""
    if metric.drawn and key is None:
        raise ValueError(f"key must be given, such as jax.random.key(0): {name} draws its points each step.")
    if isinstance(metric, GaussNewton):
        linear = []

        def look(theta: Any) -> None:
            for term, over in zip(loss.terms, loss.draw(key, D, theta), strict=True):
                linear.append(term.is_linear(evaluate(D, term.operator, theta, over.x), over))

        jax.eval_shape(look, theta)
        if all(linear):
            raise ValueError(f"{name}=GaussNewton() has no metric here: every density of the loss is linear.")
    if isinstance(metric, InnerProduct):
        density = (lambda z: jnp.sum(z**2)) if metric.density is None else metric.density
        for over in [term.over for term in loss.terms] if metric.over is None else [metric.over]:
            term = Integral(density, over, metric.operator)
            check_term(name, term, jax.eval_shape(lambda term=term: term.draw_points(key, D, theta)), D, theta)


def _prepare(
    loss: Any, D: Any, theta: jax.Array, method: Any, max_steps: Any, target: Any, tolerance: Any,
    max_seconds: Any, metrics: Any, key: Any, progress: Any,
) -> tuple[Problem, Any, dict[str, Any]]:  # fmt: skip
    """Check everything before anything is compiled; `theta` is one start."""
    if method is not None and not isinstance(method, str):
        _check.kind("method", method, AbstractScheme, "a method, such as riesz.nhb(), or its name")
    scheme: Any = nhb() if method is None else as_method(method)
    check_problem(loss, D, theta, key)
    _check_choices(scheme.choices, theta)
    own = {name: metric for name in ("W", "X") if (metric := getattr(scheme.choices, name)) is not None}
    for name, metric in own.items():
        _check_metric(name, metric, loss, D, theta, key)
    drawn = loss.drawn or any(metric.drawn for metric in own.values())
    if max_seconds is not None:
        _check.scalar("max_seconds", max_seconds, above=0.0)
    if progress not in (True, False, "auto"):
        raise ValueError(f'progress must be True, False or "auto", not {_check.shown(progress)}.')
    checked = _check_metrics(metrics, theta)
    options = {
        "max_steps": _check.count("max_steps", max_steps, least=0),
        "target": _check_target(target, checked),
        "tolerance": None if tolerance is None else _check.scalar("tolerance", tolerance, least=0.0),
        "metrics": checked,
    }
    _check_precision(theta.dtype)
    return Problem(loss, D, Safeguard(scheme), drawn), key if drawn else None, options


def _bar(progress: Any, total: int, unit: str) -> Any:
    disable = None if progress == "auto" else not progress
    return tqdm(total=total, unit=unit, disable=disable, dynamic_ncols=True)


def minimise(
    loss: AbstractLoss,
    D: Parametrisation,
    theta0: Vector,
    method: AbstractMethod | str | None = None,
    max_steps: int = 1000,
    target: float | dict[str, float] | None = None,
    tolerance: float | None = None,
    max_seconds: float | None = None,
    metrics: dict[str, Callable[[Any], Any]] | None = None,
    key: Key | None = None,
    callback: Callable[[int, Solution], Any] | None = None,
    progress: bool | str = "auto",
    throw: bool = True,
) -> Solution:
    r"""Minimise $L(\theta) = \mathcal{L}(D(\theta))$ from one start.

    **Arguments:**

    - `loss`: a loss, such as `riesz.least_squares(over)`.
    - `D`, `theta0`: the parametrisation and the start.
    - `method`: a method or its name; `riesz.nhb()` by default.
    - `max_steps`: the step limit.
    - `target`: stop when the loss is at most this number, or, for `{"mse": 3e-2}`, when those metrics are.
    - `tolerance`: stop when |step| <= tolerance (|theta| + tolerance).
    - `max_seconds`: the time limit, compilation and metrics aside; looked at between chunks of at most 32 steps.
    - `metrics`: functions of theta to record at every iterate; their time is not counted.
    - `key`: a random key, needed where points are drawn anew each step.
    - `callback`: called as `callback(steps, solution_so_far)` between chunks; returning True stops the run.
    - `progress`: a progress bar: True, False, or "auto" (where standard error is a terminal).
    - `throw`: raise `riesz.SolveError` for failures; never for limits, callbacks or Ctrl-C.

    **Returns:** a `Solution`: the best parameters `theta`, their `loss` and `function`, the `last` parameters,
    the `result`, the number of `steps` and the `history`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=y)), D, theta0, target=1e-8)
    ```
    """
    theta0 = _check_start(theta0, 1, "theta0")
    if callback is not None:
        _check.function("callback", callback)
    problem, key, options = _prepare(
        loss, D, theta0, method, max_steps, target, tolerance, max_seconds, metrics, key, progress
    )
    with _bar(progress, options["max_steps"], "step") as bar:
        run = Run(problem, theta0, key, **options)
        try:
            if run.result is Result.RUNNING and options["max_steps"] == 0:
                run.result = Result.STEP_LIMIT
            if run.result is Result.RUNNING:
                run.warm_up()
                bar.unpause()
            while run.result is Result.RUNNING:
                run.advance()
                bar.update(run.steps - bar.n)
                bar.set_postfix(loss=f"{run.loss:.3e}", refresh=False)
                if run.result is Result.RUNNING and max_seconds is not None and run.seconds >= max_seconds:
                    run.result = Result.TIME_LIMIT
                if callback is not None and callback(run.steps, run.solution()) is True:
                    if run.result is Result.RUNNING:
                        run.result = Result.STOPPED_BY_CALLBACK
        except KeyboardInterrupt:
            run.result = Result.INTERRUPTED
    solution = run.solution()
    if throw and solution.result.failed:
        raise SolveError(solution)
    return solution


def _stack(runs: list[Run], D: Parametrisation) -> Solution:
    """One solution with a leading axis; a stopped start's last value is carried forward."""
    solutions = [run.solution() for run in runs]
    longest = max(solution.steps for solution in solutions)
    names = dict.fromkeys(name for solution in solutions for name in solution.history)

    def padded(solution: Solution, name: str) -> np.ndarray:
        column = solution.history.get(name, np.zeros(0))
        last = column[-1] if column.size else (False if name == "accepted" else np.nan)
        return np.concatenate([column, np.full(longest + 1 - column.size, last)])

    return Solution(
        theta=jnp.stack([solution.theta for solution in solutions]),
        loss=jnp.stack([solution.loss for solution in solutions]),
        last=jnp.stack([solution.last for solution in solutions]),
        result=np.array([solution.result for solution in solutions], dtype=object),
        steps=np.array([solution.steps for solution in solutions]),
        history={name: np.stack([padded(solution, name) for solution in solutions]) for name in names},
        D=D,
    )


def minimise_many(
    loss: AbstractLoss,
    D: Parametrisation,
    thetas: jax.Array,
    method: AbstractMethod | str | None = None,
    max_steps: int = 1000,
    target: float | dict[str, float] | None = None,
    tolerance: float | None = None,
    max_seconds: float | None = None,
    metrics: dict[str, Callable[[Any], Any]] | None = None,
    key: Key | None = None,
    progress: bool | str = "auto",
    threads: int | None = None,
) -> Solution:
    """Minimise from many starts with one compiled program, on all cores.

    Every start runs the program that `minimise` would run, so it ends with the same numbers. Threads take turns
    at the starts, a chunk of steps at a time; a start that has ended costs nothing more, and one that diverges
    touches no other. It never raises for a single start: look at `solution.result`.

    **Arguments:** as for `minimise`, except

    - `thetas`: the starts, of shape (n, d).
    - `max_seconds`: the time limit for all starts together.
    - `threads`: how many starts run at once; the number of cores by default.

    **Returns:** a `Solution` with a leading axis: theta (n, d), steps (n,), result (n,), and every column of the
    history (n, longest + 1), where a stopped start's last value is carried forward. All starts see the same draws.

    ```python
    thetas = jnp.stack([riesz.mlp(key, (1, 10, 1))[1] for key in jax.random.split(jax.random.key(0), 10)])
    solution = riesz.minimise_many(loss, D, thetas, riesz.nhb(), target=1e-8)
    ```
    """
    thetas = _check_start(thetas, 2, "thetas")
    problem, key, options = _prepare(
        loss, D, thetas[0], method, max_steps, target, tolerance, max_seconds, metrics, key, progress
    )
    workers = _check.count("threads", os.cpu_count() or 1 if threads is None else threads)
    runs = [Run(problem, theta, key, **options) for theta in thetas]
    for run in runs:
        if run.result is Result.RUNNING and options["max_steps"] == 0:
            run.result = Result.STEP_LIMIT
    waiting = collections.deque(run for run in runs if run.result is Result.RUNNING)
    stop = threading.Event()

    def work(bar: Any, lock: Any, began: float) -> None:
        while not stop.is_set():
            with lock:
                if not waiting:
                    return
                run = waiting.popleft()
            run.advance()
            if run.result is Result.RUNNING and max_seconds is not None and time.perf_counter() - began >= max_seconds:
                run.result = Result.TIME_LIMIT
            with lock:
                if run.result is Result.RUNNING:
                    waiting.append(run)
                else:
                    bar.update()
                bar.set_postfix(best=f"{min(run.loss for run in runs):.3e}", refresh=False)

    with _bar(progress, len(runs), "start") as bar:
        bar.update(len(runs) - len(waiting))
        try:
            if waiting:
                waiting[0].warm_up()
            lock, began = threading.Lock(), time.perf_counter()
            with ThreadPoolExecutor(min(workers, max(len(waiting), 1))) as pool:
                futures = [pool.submit(work, bar, lock, began) for _ in range(workers)]
                try:
                    for future in futures:
                        future.result()
                finally:
                    stop.set()
        except KeyboardInterrupt:
            for run in runs:
                if run.result is Result.RUNNING:
                    run.result = Result.INTERRUPTED
    return _stack(runs, D)
