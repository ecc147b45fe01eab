"""One run from one start: compiled chunks of steps, and the host's record of them.

Within a chunk nothing touches the host. Chunk lengths depend on the number of steps made, never on the clock, so
that the same call always stops at the same places.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._integral import AbstractLoss
from ._result import CODES, Result, Solution, code
from ._safeguard import GuardedState, Safeguard
from ._types import Parametrisation, Vector

CHUNK = 32
"""The longest chunk: what a callback, a progress bar or Ctrl-C may have to wait for."""
PATIENCE = 5
"""So many non-finite trials, or steps without any direction, in a row end a run."""


class Problem(eqx.Module):
    """What is minimised, over what, and how."""

    loss: AbstractLoss
    D: Parametrisation
    method: Safeguard
    drawn: bool = eqx.field(static=True)


class Carry(eqx.Module):
    """Where a run stands."""

    theta: jax.Array
    state: GuardedState
    sample: Any
    """The points of the coming step, where they are drawn; else None."""
    loss: jax.Array
    """L(theta), on the points of the coming step."""
    steps: jax.Array
    collapsed: jax.Array
    """How many steps in a row had rank zero."""
    code: jax.Array


class Log(eqx.Module):
    """A chunk of the history: after every step, the parameters and their loss; about every step, its info."""

    theta: jax.Array
    loss: jax.Array
    gradient_norm: jax.Array
    step_norm: jax.Array
    alpha: jax.Array
    rank: jax.Array
    accepted: jax.Array


def _look(problem: Problem, theta: Vector, key: Any, step: Any) -> tuple[Any, jax.Array]:
    """The points of a step and the loss on them."""
    loss, D = problem.loss, problem.D
    sample = problem.method.draw(loss, D, theta, jax.random.fold_in(key, step) if problem.drawn else None)
    return sample, loss.value(D(theta), sample.terms)


@eqx.filter_jit
def _start(problem: Problem, theta: Vector, key: Any) -> Carry:
    sample, loss = _look(problem, theta, key, 0)
    zero = jnp.zeros((), int)
    return Carry(theta, problem.method.init(theta), sample if problem.drawn else None, loss, zero, zero, zero)


@eqx.filter_jit
def _advance(problem: Problem, carry: Carry, key: Any, count: Any, target: Any, tolerance: Any) -> tuple[Carry, Log]:
    """At most `count` steps, fewer where a test stops the run."""
    fixed = None if problem.drawn else problem.method.draw(problem.loss, problem.D, carry.theta, None)

    def step(carry: Carry) -> tuple[Carry, Log]:
        sample: Any = carry.sample if problem.drawn else fixed
        theta, state, guarded = problem.method.step(problem.loss, problem.D, carry.theta, carry.state, sample)
        info, steps = guarded.info, carry.steps + 1
        if problem.drawn:
            sample, loss = _look(problem, theta, key, steps)
        else:
            sample, loss = None, jnp.where(info.accepted, guarded.trial_loss, carry.loss)
        collapsed = jnp.where(info.rank == 0, carry.collapsed + 1, 0)
        small = info.accepted & (info.step_norm <= tolerance * (jnp.linalg.norm(theta) + tolerance))
        ends = [
            (loss <= target, Result.TARGET_REACHED),
            (small, Result.CONVERGED),
            (state.failures >= PATIENCE, Result.NONFINITE_STEPS),
            (collapsed >= PATIENCE, Result.RANK_COLLAPSE),
        ]
        number = jnp.select([test for test, _ in ends], [code(result) for _, result in ends], 0)
        log = Log(theta, loss, info.gradient_norm, info.step_norm, info.alpha, info.rank, info.accepted)
        return Carry(theta, state, sample, loss, steps, collapsed, number.astype(carry.code.dtype)), log

    def unfinished(loop: tuple[Any, Carry, Log]) -> jax.Array:
        made, carry, _ = loop
        return (made < count) & (carry.code == code(Result.RUNNING))

    def body(loop: tuple[Any, Carry, Log]) -> tuple[Any, Carry, Log]:
        made, carry, logs = loop
        carry, log = step(carry)
        return made + 1, carry, jax.tree.map(lambda array, row: array.at[made].set(row), logs, log)

    shapes = eqx.filter_eval_shape(step, carry)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((CHUNK, *leaf.shape), leaf.dtype), shapes)
    _, carry, logs = jax.lax.while_loop(unfinished, body, (jnp.zeros((), int), carry, empty))
    return carry, logs


@eqx.filter_jit
def _measure(metrics: dict[str, Callable[[Any], Any]], thetas: jax.Array, count: Any) -> dict[str, jax.Array]:
    """Every metric at the first `count` of the given parameters."""

    def one(index: Any, columns: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {name: column.at[index].set(metrics[name](thetas[index])) for name, column in columns.items()}

    shapes = {name: eqx.filter_eval_shape(f, thetas[0]) for name, f in metrics.items()}
    empty = {name: jnp.zeros(thetas.shape[0], shape.dtype) for name, shape in shapes.items()}
    return jax.lax.fori_loop(0, count, one, empty)


class Run:
    """A run in the making: call `advance` until `result` is no longer RUNNING, then take the `solution`."""

    def __init__(
        self,
        problem: Problem,
        theta: Vector,
        key: Any,
        *,
        max_steps: int,
        target: float | dict[str, float] | None,
        tolerance: float | None,
        metrics: dict[str, Callable[[Any], Any]],
    ):
        self.problem, self.key, self.max_steps, self.metrics = problem, key, max_steps, metrics
        self._metric_targets = target if isinstance(target, dict) else {}
        loss_target = -np.inf if target is None or isinstance(target, dict) else target
        dtype = theta.dtype
        self._tests = (
            jnp.asarray(loss_target, dtype),
            jnp.asarray(-1.0 if tolerance is None else tolerance, dtype),
        )
        self.carry = _start(problem, theta, key)
        self.steps, self.seconds = 0, 0.0
        self.theta, self.loss, self.last = theta, float(self.carry.loss), theta
        self._history: dict[str, list[Any]] = {
            "loss": [np.asarray(self.carry.loss)[None]],
            "seconds": [np.zeros(1)],
        }
        self.result = Result.RUNNING if np.isfinite(self.loss) else Result.NONFINITE_INPUT
        self._record_metrics(jnp.broadcast_to(theta, (CHUNK, *theta.shape)), 1)
        if self.result is Result.RUNNING and (
            self.loss <= float(self._tests[0]) or self._metrics_reached() is not None
        ):
            self.result = Result.TARGET_REACHED

    def warm_up(self) -> None:
        """Compile, without a step, so that no compilation is counted as a step's time."""
        jax.block_until_ready(self._call(0))

    def _call(self, count: int) -> tuple[Carry, Log]:
        return _advance(self.problem, self.carry, self.key, jnp.asarray(count), *self._tests)

    def advance(self) -> None:
        """Make the next chunk of steps and record it."""
        count = min(CHUNK, max(1, self.steps), self.max_steps - self.steps)
        began = time.perf_counter()
        carry, log = jax.block_until_ready(self._call(count))
        elapsed = time.perf_counter() - began
        made = int(carry.steps) - self.steps
        self.carry = carry
        self.result = CODES[int(carry.code)]
        self._record_metrics(log.theta, made)
        reached = self._metrics_reached(made)
        if reached is not None:
            made, self.result = reached + 1, Result.TARGET_REACHED
        self._record(log, made, elapsed / max(int(carry.steps) - self.steps, 1))
        if self.result is Result.RUNNING and self.steps >= self.max_steps:
            self.result = Result.STEP_LIMIT

    def _record(self, log: Log, made: int, seconds: float) -> None:
        columns = {name: np.asarray(value)[:made] for name, value in vars(log).items() if name != "theta"}
        columns["seconds"] = self.seconds + seconds * np.arange(1, made + 1)
        for name, column in columns.items():
            self._history.setdefault(name, []).append(column)
        for name in self.metrics:
            self._history[name][-1] = self._history[name][-1][:made]
        self.steps += made
        self.seconds += seconds * made
        self.last = log.theta[made - 1]
        if self.problem.loss.drawn:
            self.theta, self.loss = self.last, float(columns["loss"][-1])
        else:
            best = int(np.argmin(columns["loss"]))
            if columns["loss"][best] < self.loss:
                self.theta, self.loss = log.theta[best], float(columns["loss"][best])

    def _record_metrics(self, thetas: jax.Array, made: int) -> None:
        if self.metrics:
            for name, column in _measure(self.metrics, thetas, jnp.asarray(made)).items():
                self._history.setdefault(name, []).append(np.asarray(column)[:made])

    def _metrics_reached(self, made: int = 1) -> int | None:
        """The first step of the newest chunk after which every metric with a target has reached it."""
        if not self._metric_targets:
            return None
        reached = np.ones(made, bool)
        for name, target in self._metric_targets.items():
            reached &= self._history[name][-1][:made] <= target
        return int(np.argmax(reached)) if reached.any() else None

    def solution(self) -> Solution:
        """What the run has found so far."""
        history = {name: np.concatenate(column) for name, column in self._history.items()}
        loss = jnp.asarray(self.loss, self.carry.loss.dtype)
        return Solution(self.theta, loss, self.last, self.result, self.steps, history, self.problem.D)
