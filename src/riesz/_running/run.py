"""One run from one start: the host's record of its compiled chunks.

Chunk lengths depend on the number of steps made, never on the clock, so that the same call always stops at the same
places.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._methods.result import CODES, Result, code
from .._problem.ridge import plain
from .._types import Vector
from .between import Looks, can_look
from .compiled import here
from .loop import CHUNK, TOLERANCES, Carry, Log, Tests, advance, measure, redraw, start
from .problem import Problem
from .solution import Solution
from .standing import Standing

ENOUGH = 0.5
"""A run that would end goes on with new points if the loss between them fell to this share since it last would have."""


@dataclasses.dataclass(frozen=True)
class Record:
    """What the host knows of a run; replaced as a whole, so that Ctrl-C never leaves half of one."""

    carry: Carry
    result: Result
    steps: int
    seconds: float
    chunks: tuple[dict[str, np.ndarray], ...]
    """The history, chunk by chunk."""

    @property
    def theta(self) -> jax.Array:
        """The best parameters; the last ones where the loss draws its points."""
        return self.carry.best

    @property
    def loss(self) -> float:
        """The loss there."""
        return float(self.carry.best_loss)

    @property
    def last(self) -> jax.Array:
        """The last accepted parameters."""
        return self.carry.theta


class Run:
    """A run in the making: call `advance` until `result` is no longer RUNNING, then take the `solution`."""

    def __init__(
        self,
        problem: Problem,
        theta: Vector,
        key: Any,
        notes: tuple[str, ...] = (),
        standing: Standing | None = None,
        *,
        max_steps: int,
        target: float | dict[str, float] | None,
        tolerance: dict[str, float],
        metrics: dict[str, Callable[[Any], Any]],
        patience: int = 0,
    ):
        self.problem, self.key, self.max_steps, self.metrics = problem, key, max_steps, metrics
        self._notes, self.standing = notes, standing
        self.tests = {"target": target, "tolerance": tolerance}
        self.tests |= {} if problem.validation is None else {"patience": patience}
        self._metric_targets = target if isinstance(target, dict) else {}
        loss_target = None if isinstance(target, dict) else target
        never = lambda bound: np.asarray(np.nan if bound is None else bound, theta.dtype)
        self._tests = Tests(
            never(loss_target), {name: never(tolerance.get(name)) for name in TOLERANCES}, np.asarray(patience)
        )
        self.looks = Looks(problem, theta) if can_look(problem.loss) and not problem.drawn else None
        self.adapts = problem.loss.adapts
        self.record = self._first(theta)

    def _first(self, theta: Vector) -> Record:
        carry = start(self.problem, theta, self.key, quick=True, mesh=self.problem.mesh)
        validated = carry.validated
        if self.standing is not None:
            carry = self.standing.placed(self.problem, carry, self.key)
        loss = float(carry.best_loss)
        if self.adapts and self.looks is not None:
            seen = jnp.asarray(self.looks.first.loss, carry.best_loss.dtype)
            carry = dataclasses.replace(carry, kept=(carry.best, seen))
        columns = {name: np.zeros(0, dtype) for name, dtype in self.problem.columns.items()}
        columns |= {"loss": np.array(carry.loss)[None], "seconds": np.zeros(1)}
        columns |= {"validation": np.array(validated["lowest"])[None]} if validated else {}
        columns |= {} if self.looks is None else {"between": np.array([self.looks.first.loss])}
        columns |= {"redrawn": np.zeros(1, bool)} if self.adapts else {}
        columns |= self._measured(lambda: np.broadcast_to(np.asarray(theta), (CHUNK, *theta.shape)), 1)
        if not np.isfinite(loss):
            result = Result.NONFINITE_INPUT
        elif (loss <= float(self._tests.target) and not self.problem.drawn) or self._reached(columns) is not None:
            result = Result.TARGET_REACHED
        else:
            result = Result.RUNNING if self.max_steps else Result.STEP_LIMIT
        return Record(carry, result, 0, 0.0, (columns,))

    def go_on(self, record: Record, tests: dict[str, Any], devices: int) -> None:
        """Stand where an earlier call, with its tests and its number of devices, has been."""
        mesh = self.problem.mesh
        mine = 1 if mesh is None else mesh.size
        if devices != mine and not record.result.ends_run:
            self._notes += (f"Began on {devices} devices and went on with {mine}: sums round otherwise.",)
        self.record = self._judged(record, tests)

    def _judged(self, record: Record, tests: dict[str, Any]) -> Record:
        """A record of an earlier call, whose tests are given, with the result that this call gives it.

        Limits, callbacks and interruptions end a call, not a run: there may be more steps to make. So there may be
        where the tests are no longer the same.
        """
        if record.result.ends_run and tests == self.tests:
            return record
        if record.loss <= float(self._tests.target):
            result = Result.TARGET_REACHED
        else:
            result = Result.RUNNING if record.steps < self.max_steps else Result.STEP_LIMIT
        carry = record.carry
        if record.result.ends_run:  # else a run with points that adapt may stand where it would have ended
            carry = eqx.tree_at(lambda carry: carry.code, carry, jnp.zeros_like(carry.code))
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
        try:
            jax.block_until_ready(self._call(0))
            if self.adapts:
                jax.block_until_ready(self._redrawn(self.record.carry))
        except (TypeError, NotImplementedError) as error:
            if "custom_vjp" not in str(error) and "custom_lin" not in str(error):
                raise
            raise TypeError(
                "D must be differentiable in forward mode for this method, but it uses jax.custom_vjp: define it by "
                "jax.custom_jvp, or take riesz.ngd(), riesz.nhb_fd(), riesz.spring() or riesz.gd()."
            ) from error

    def _call(self, count: int) -> tuple[Carry, Log]:
        carry, most = self.record.carry, np.asarray(count)
        how = {"quick": self.problem.small, "mesh": self.problem.mesh}
        return advance(self.problem, carry, self.key, most, self._tests, **how)

    def advance(self) -> None:
        """Make the next chunk of steps and record it; before it, place points anew where a look asks for it."""
        began, placed = time.perf_counter(), self._placed_anew()
        anew = placed is not None and placed.points is not self.record.carry.points
        if placed is not None:
            seconds = self.record.seconds + time.perf_counter() - began
            self.record = dataclasses.replace(self.record, carry=placed, seconds=seconds)
        record = self.record
        # After a call that ended within a chunk, the next chunk ends where it would have.
        count = min(CHUNK - record.steps % CHUNK, max(1, record.steps), self.max_steps - record.steps)
        began = time.perf_counter()
        carry, log = jax.block_until_ready(self._call(count))
        elapsed = time.perf_counter() - began

        made = int(carry.steps) - record.steps
        result, each = CODES[int(carry.code)], elapsed / made
        # Copies: a view of a JAX array would keep the whole of it for as long as the history lives.
        names = ("loss", *(("validation",) if carry.validated else ()), *self.problem.columns)
        columns = {name: np.array(np.asarray(log[name])[:made]) for name in names}
        columns["seconds"] = record.seconds + each * np.arange(1, made + 1)
        columns |= self._measured(lambda: log["theta"], made)
        reached = self._reached(columns)
        if reached is not None:
            made, result = reached + 1, Result.TARGET_REACHED
            columns = {name: column[:made] for name, column in columns.items()}
            carry, _ = self._call(made)  # where the run stands is where it stopped, and what it returns
            if not carry.validated:
                carry = eqx.tree_at(lambda carry: (carry.best, carry.best_loss), carry, (carry.theta, carry.loss))
            elif int(carry.validated["waited"]):
                result = Result.VALIDATED
        elif result is Result.RUNNING and record.steps + made >= self.max_steps:
            result = Result.STEP_LIMIT
        steps = record.steps + made
        if self.looks is not None:
            began, columns["between"] = time.perf_counter(), np.full(made, np.nan)
            if steps % CHUNK == 0 and not result.ends_run:
                columns["between"][-1] = self.looks.at(carry.theta).loss
            columns["seconds"][-1] += time.perf_counter() - began
        if self.adapts:
            columns["redrawn"] = np.arange(made) == (0 if anew else -1)
            result = self._at_an_end(carry, result, steps)
        self.record = Record(carry, result, steps, float(columns["seconds"][-1]), (*record.chunks, columns))

    def _placed_anew(self) -> Carry | None:
        """The run with new points, where it would have ended or the loss between them is far above that at them.

        It goes on where the loss between the points was lowest, by all looks there were.
        """
        if not self.adapts or self.looks is None or self.record.steps == 0:
            return None
        carry, ended = self.record.carry, int(self.record.carry.code) != code(Result.RUNNING)
        if not ended and self.record.steps % CHUNK:
            return None
        # Points are placed once in any case: quick steps that are stuck may come free.
        asks = self.record.steps == CHUNK or self.looks.at(carry.best).asks(float(carry.best_loss), self.looks.first)
        carry = dataclasses.replace(carry, kept=self._kept(carry))
        return self._redrawn(carry) if ended or asks else carry

    def _redrawn(self, carry: Carry) -> Carry:
        """The run at what was kept, with new points."""
        return redraw(self.problem, carry, carry.kept[0], quick=self.problem.small, mesh=self.problem.mesh)

    def _kept(self, carry: Carry) -> tuple[Any, ...]:
        """The best parameters so far by looks between the points, and what was seen there."""
        assert self.looks is not None
        look = self.looks.at(carry.best).loss
        better = not carry.kept[1] <= look
        return (carry.best, jnp.asarray(look, carry.loss.dtype)) if better else carry.kept

    def _at_an_end(self, carry: Carry, result: Result, steps: int) -> Result:
        """A run that would end goes on with new points, while these bring the loss between them down."""
        assert self.looks is not None
        if not (result.converged or result is Result.STAGNATED):
            return result
        look, kept = self.looks.at(carry.best), float(carry.kept[1])
        asks = look.asks(float(carry.best_loss), self.looks.first)
        if asks and look.loss < ENOUGH * kept:
            return Result.RUNNING if steps < self.max_steps else Result.STEP_LIMIT
        # What is returned is then not where the run has converged.
        return Result.STAGNATED if kept < look.loss else result

    def _measured(self, thetas: Callable[[], Any], made: int) -> dict[str, np.ndarray]:
        """The metrics at the first `made` of the given parameters."""
        if not self.metrics:
            return {}
        found = measure(self.metrics, thetas(), np.asarray(made), mesh=self.problem.mesh)
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
        record, carry = self.record, self.record.carry
        history = self.history()
        # On one device: what is done with these next is no part of the run.
        problem = self.problem.placed(carry.points)
        notes: tuple[str, ...] = ()
        if self.adapts and record.result is not Result.TARGET_REACHED and not record.result.converged:
            kept, seen = self._kept(carry)
            if not np.array_equal(*here((kept, carry.best), self.problem.mesh)):
                there = start(problem, kept, self.key, quick=True, mesh=problem.mesh)
                carry = dataclasses.replace(carry, best=kept, best_loss=there.loss)
                notes = (
                    f"What is returned was lowest between the points, {float(seen):.2g}: later points did no better.",
                )
        found = carry.best, carry.best_loss, carry.theta, carry.state, problem
        best, loss, last, state, problem = here(found, self.problem.mesh)
        method = self.problem.method.method
        notes += self._notes + method.notes(self.problem.loss, record.result, history)
        notes += () if method.solver is None else method.solver.notes(history)
        notes += _of_validation(history, carry.validated)
        look = None if self.looks is None else self.looks.at(carry.best)
        if look is not None and np.array_equal(best, last):
            history["between"][-1] = look.loss
        notes += () if self.looks is None else self.looks.at(carry.best).note(float(loss), self.looks.first)
        notes += _of_points(history)
        whole = best, loss, last, record.result, record.steps, history, plain(problem.D), notes
        return Solution(*whole, problem=problem, state=state, between=None if look is None else look.loss)


def _of_points(history: dict[str, np.ndarray]) -> tuple[str, ...]:
    """How often points were placed anew."""
    steps = np.flatnonzero(history.get("redrawn", ()))
    if not steps.size:
        return ()
    often = "once" if steps.size == 1 else f"{steps.size} times"
    return (f"Points were placed anew {often}, the last time after step {steps[-1] - 1}: losses before are of others.",)


def _of_validation(history: dict[str, np.ndarray], validated: dict[str, jax.Array]) -> tuple[str, ...]:
    """Where the validation was lowest."""
    if "validation" not in history:
        return ()
    values = history["validation"]
    if not np.isfinite(values).any():
        return ("The validation was a finite number nowhere, so that theta0 is returned.",)
    at = int(np.nanargmin(values))
    if float(validated["lowest"]) < values[at]:
        return (f"The validation was lowest before this run began, {float(validated['lowest']):.6g}.",)
    return (f"The validation was lowest after step {at}, {values[at]:.6g}.",)
