"""One run from one start: compiled chunks of steps, and the host's record of them.

Within a chunk nothing touches the host. Chunk lengths depend on the number of steps made, never on the clock, so
that the same call always stops at the same places.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._methods.result import CODES, Result, code, first_code
from .._methods.safeguard import GuardedState, Safeguard
from .._methods.state import STEP_COLUMNS
from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector
from .solution import Solution

CHUNK = 32
"""The longest chunk: what a callback, a progress bar or Ctrl-C may have to wait for."""
PATIENCE = 5
"""So many non-finite trials, steps without any direction, or steps that change nothing, in a row end a run."""


TOLERANCES = ("gradient", "step", "loss")
"""What a tolerance may be for."""


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
    level: jax.Array
    """How many steps in a row changed the loss by less than the tolerance."""
    code: jax.Array


Log = dict[str, jax.Array]
"""A chunk of the history: the parameters and their loss after every step, and the columns of its info."""


def look(problem: Problem, theta: Vector, key: Any, step: Any) -> tuple[Any, jax.Array]:
    """The points of a step and the loss on them."""
    loss, D = problem.loss, problem.D
    sample = problem.method.draw(loss, D, theta, jax.random.fold_in(key, step) if problem.drawn else None)
    return sample, loss.value(D(theta), sample.terms)


@eqx.filter_jit
def _start(problem: Problem, theta: Vector, key: Any) -> Carry:
    sample, loss = look(problem, theta, key, 0)
    zero = jnp.zeros((), int)
    return Carry(theta, problem.method.init(theta), sample if problem.drawn else None, loss, zero, zero, zero, zero)


@eqx.filter_jit
def _advance(problem: Problem, carry: Carry, key: Any, count: Any, target: Any, tolerance: Any) -> tuple[Carry, Log]:
    """At most `count` steps, fewer where a test stops the run."""
    fixed = None if problem.drawn else problem.method.draw(problem.loss, problem.D, carry.theta, None)

    def step(carry: Carry) -> tuple[Carry, Log]:
        sample: Any = carry.sample if problem.drawn else fixed
        theta, state, guarded = problem.method.step(problem.loss, problem.D, carry.theta, carry.state, sample)
        info, steps = guarded.info, carry.steps + 1
        if problem.drawn:
            sample, loss = look(problem, theta, key, steps)
        else:
            sample, loss = None, jnp.where(info.accepted, guarded.trial_loss, carry.loss)
        collapsed = jnp.where(info.rank == 0, carry.collapsed + 1, 0)
        small = info.step_norm <= tolerance["step"] * (jnp.linalg.norm(theta) + tolerance["step"])
        flat = jnp.abs(guarded.trial_loss - info.loss) <= tolerance["loss"] * jnp.abs(info.loss)
        level = jnp.where(info.accepted & flat, carry.level + 1, 0)
        ends = [
            (loss <= target, Result.TARGET_REACHED),
            (info.gradient_norm <= tolerance["gradient"], Result.CONVERGED_GRADIENT),
            (info.accepted & small, Result.CONVERGED_STEP),
            (level >= PATIENCE, Result.CONVERGED_LOSS),
            *((info.end == number, result) for number, result in enumerate(CODES) if number),
            (state.failures >= PATIENCE, Result.NONFINITE_STEPS),
            (collapsed >= PATIENCE, Result.RANK_COLLAPSE),
        ]
        number = first_code(ends)
        log = {"theta": theta, "loss": loss} | {name: getattr(info, name) for name in STEP_COLUMNS}
        return Carry(theta, state, sample, loss, steps, collapsed, level, number.astype(carry.code.dtype)), log

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

    shapes = {name: jax.eval_shape(f, thetas[0]) for name, f in metrics.items()}
    empty = {name: jnp.zeros(thetas.shape[0], shape.dtype) for name, shape in shapes.items()}
    return jax.lax.fori_loop(0, count, one, empty)


def _latest_of_the_lowest(losses: np.ndarray, known: float) -> int | None:
    """The last iterate whose loss is the lowest so far, up to rounding; None where an earlier chunk's is lower.

    Losses that differ by rounding are equal, and then the later iterate is the better one.
    """
    losses = np.where(np.isnan(losses), np.inf, losses)
    lowest = min(float(losses.min()), known)
    equal = np.flatnonzero(losses <= lowest + 4 * np.finfo(losses.dtype).eps * abs(lowest))
    return int(equal[-1]) if equal.size else None


@dataclasses.dataclass(frozen=True)
class Record:
    """What the host knows of a run; replaced as a whole, so that Ctrl-C never leaves half of one."""

    carry: Carry
    result: Result
    steps: int
    seconds: float
    theta: jax.Array
    """The best parameters; the last ones where the loss draws its points."""
    loss: float
    last: jax.Array
    chunks: tuple[dict[str, np.ndarray], ...]
    """The history, chunk by chunk."""


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
        tolerance: dict[str, float],
        metrics: dict[str, Callable[[Any], Any]],
    ):
        self.problem, self.key, self.max_steps, self.metrics = problem, key, max_steps, metrics
        self.tests = {"target": target, "tolerance": tolerance}
        self._metric_targets = target if isinstance(target, dict) else {}
        loss_target = None if isinstance(target, dict) else target
        # No number is at most NaN, so a test that was not asked for never stops the run.
        never = lambda bound: jnp.asarray(np.nan if bound is None else bound, theta.dtype)
        self._tests = never(loss_target), {name: never(tolerance.get(name)) for name in TOLERANCES}
        self.record = self._first(theta)

    def _first(self, theta: Vector) -> Record:
        carry = _start(self.problem, theta, self.key)
        loss = float(carry.loss)
        columns = {name: np.zeros(0, dtype) for name, dtype in STEP_COLUMNS.items()}
        columns |= {"loss": np.array(carry.loss)[None], "seconds": np.zeros(1)}
        columns |= self._measured(jnp.broadcast_to(theta, (CHUNK, *theta.shape)), 1)
        if not np.isfinite(loss):
            result = Result.NONFINITE_INPUT
        elif loss <= float(self._tests[0]) or self._reached(columns) is not None:
            result = Result.TARGET_REACHED
        else:
            result = Result.RUNNING if self.max_steps else Result.STEP_LIMIT
        return Record(carry, result, 0, 0.0, theta, loss, theta, (columns,))

    def judged(self, record: Record, tests: dict[str, Any]) -> Record:
        """A record of an earlier call, whose tests are given, with the result that this call gives it.

        Limits, callbacks and interruptions end a call, not a run: there may be more steps to make. So there may be
        where the tests are no longer the same.
        """
        ended = record.result in (Result.TARGET_REACHED, Result.STAGNATED)
        if (ended or record.result.converged or record.result.failed) and tests == self.tests:
            return record
        if float(record.carry.loss) <= float(self._tests[0]):
            result = Result.TARGET_REACHED
        else:
            result = Result.RUNNING if record.steps < self.max_steps else Result.STEP_LIMIT
        carry = eqx.tree_at(lambda carry: carry.code, record.carry, jnp.zeros_like(record.carry.code))
        return dataclasses.replace(record, carry=carry, result=result)

    @property
    def result(self) -> Result:
        """How the run ended, or RUNNING."""
        return self.record.result

    def stop(self, result: Result) -> None:
        """End the run, unless it has ended by itself."""
        if self.result is Result.RUNNING:
            self.record = dataclasses.replace(self.record, result=result)

    def warm_up(self) -> None:
        """Compile, without a step, so that no compilation is counted as a step's time."""
        jax.block_until_ready(self._call(0))

    def _call(self, count: int) -> tuple[Carry, Log]:
        return _advance(self.problem, self.record.carry, self.key, jnp.asarray(count), *self._tests)

    def advance(self) -> None:
        """Make the next chunk of steps and record it."""
        record = self.record
        count = min(CHUNK, max(1, record.steps), self.max_steps - record.steps)
        began = time.perf_counter()
        carry, log = jax.block_until_ready(self._call(count))
        elapsed = time.perf_counter() - began

        made = int(carry.steps) - record.steps
        host = jax.tree.map(np.asarray, log)
        result, each = CODES[int(carry.code)], elapsed / made
        # Copies: a view of a JAX array would keep the whole of it for as long as the history lives.
        columns = {name: np.array(value[:made]) for name, value in host.items() if name != "theta"}
        columns["seconds"] = record.seconds + each * np.arange(1, made + 1)
        columns |= self._measured(log["theta"], made)
        reached = self._reached(columns)
        if reached is not None:
            made, result = reached + 1, Result.TARGET_REACHED
            columns = {name: column[:made] for name, column in columns.items()}
            carry, _ = self._call(made)  # where the run stands is where it stopped
        elif result is Result.RUNNING and record.steps + made >= self.max_steps:
            result = Result.STEP_LIMIT

        theta, loss, last = record.theta, record.loss, log["theta"][made - 1]
        if self.problem.loss.drawn:
            theta, loss = last, float(columns["loss"][-1])
        else:
            best = _latest_of_the_lowest(columns["loss"], loss)
            if best is not None:
                theta, loss = log["theta"][best], float(columns["loss"][best])
        seconds = float(columns["seconds"][-1])
        chunks = (*record.chunks, columns)
        self.record = Record(carry, result, record.steps + made, seconds, theta, loss, last, chunks)

    def _measured(self, thetas: jax.Array, made: int) -> dict[str, np.ndarray]:
        """The metrics at the first `made` parameters."""
        if not self.metrics:
            return {}
        found = _measure(self.metrics, thetas, jnp.asarray(made))
        return {name: np.array(np.asarray(column)[:made]) for name, column in found.items()}

    def _reached(self, columns: dict[str, np.ndarray]) -> int | None:
        """The first iterate of a chunk at which every metric with a target has reached it."""
        if not self._metric_targets:
            return None
        reached = np.all([columns[name] <= target for name, target in self._metric_targets.items()], axis=0)
        return int(np.argmax(reached)) if reached.any() else None

    def history(self, after: int = -1) -> dict[str, np.ndarray]:
        """The history in one piece; or no more chunks of it than hold the iterates after a step."""
        first, needed = self.record.steps + 1, []
        for chunk in reversed(self.record.chunks):
            if first <= after + 1:
                break
            needed.insert(0, chunk)
            first -= chunk["loss"].size
        return {
            name: np.concatenate([empty[:0], *(chunk[name] for chunk in needed)])
            for name, empty in self.record.chunks[0].items()
        }

    def solution(self) -> Solution:
        """What the run has found so far."""
        record, history = self.record, self.history()
        loss = jnp.asarray(record.loss, record.carry.loss.dtype)
        return Solution(record.theta, loss, record.last, record.result, record.steps, history, self.problem.D)
