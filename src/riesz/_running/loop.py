"""The compiled part of a run: chunks of steps, within which nothing touches the host."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._geometry.linearise import linearise
from .._methods.choose import choose
from .._methods.result import CODES, Result, code, first_code
from .._methods.safeguard import GuardedState
from .._problem.measures import Points
from .._types import Vector
from .compiled import Compiled
from .problem import Problem

CHUNK = 32
"""The longest chunk: what a callback, a progress bar or Ctrl-C may have to wait for."""
PATIENCE = 5
"""This many non-finite trials, steps without any direction, or steps that change nothing, in a row end a run."""
FADING, BATCHES = 0.95, 20
"""Where points are drawn, tests see means that fade by this factor per step, once they have seen this many batches."""
TOLERANCES = ("gradient", "step", "loss")
"""What a tolerance may be for."""
TESTED = ("loss", "gradient", "length", "change")
"""What tests see: the loss, the gradient's norm, the step's relative length, and its relative change of the loss."""


class Carry(eqx.Module):
    """Where a run stands."""

    theta: jax.Array
    state: GuardedState
    sample: Any
    """The points of the coming step, where they are drawn; else None."""
    loss: jax.Array
    """L(theta), on the points of the coming step."""
    best: jax.Array
    """The parameters with the lowest loss; of losses that differ by rounding, the latest."""
    best_loss: jax.Array
    """The loss there."""
    lowest: jax.Array
    """The lowest loss, which may be lower by rounding."""
    steps: jax.Array
    collapsed: jax.Array
    """How many steps in a row had rank zero."""
    level: jax.Array
    """How many steps in a row changed the loss by less than the tolerance."""
    means: dict[str, jax.Array]
    """Fading means of what is tested where points are drawn; empty where they are not."""
    validated: dict[str, jax.Array]
    """The lowest validation, and for how many steps it has been; empty where there is none."""
    code: jax.Array
    points: tuple[Points, ...] = ()
    """The points of measures that adapt, as they were placed last; empty where there are none."""
    kept: tuple[Any, ...] = ()
    """With such measures, the parameters with the lowest loss between the points that was seen, and that loss."""


class Tests(eqx.Module):
    """When to stop; NaN where a test was not asked for, because no number is at most NaN."""

    target: Any
    tolerance: dict[str, Any]
    patience: Any
    """For how many steps the validation may not improve."""


Log = dict[str, jax.Array]
"""A chunk of the history: the loss after every step, the columns of its info, and the parameters if measured."""


def look(problem: Problem, theta: Vector, key: Any, step: Any) -> tuple[Any, jax.Array]:
    """The points of a step and the loss on them."""
    loss, D = problem.loss, problem.D
    sample = problem.method.draw(loss, D, theta, jax.random.fold_in(key, step) if problem.drawn else None)
    return sample, loss.value(D(theta), problem.spread(sample).terms)


def _start(problem: Problem, theta: Vector, key: Any) -> Carry:
    sample, loss = look(problem, theta, key, 0)
    state, zero = problem.method.init(theta), jnp.zeros((), int)
    means = {name: jnp.zeros((), theta.dtype) for name in TESTED} if problem.drawn else {}
    drawn = sample if problem.drawn else None
    validated = {}
    if problem.validation is not None:
        value = problem.validation(theta)
        validated = {"lowest": jnp.where(jnp.isnan(value), jnp.inf, value), "waited": zero}
    points = tuple(term.over.current for term in problem.loss.terms if term.over is not None and term.over.adapts)
    kept = (theta, jnp.full_like(loss, jnp.inf)) if points else ()
    return Carry(theta, state, drawn, loss, theta, loss, loss, zero, zero, zero, means, validated, zero, points, kept)


def _redraw(problem: Problem, carry: Carry, theta: Vector) -> Carry:
    """Where a run stands at theta with new points for measures that adapt; what it knew of losses is void."""
    points = problem.loss.replaced(carry.steps, problem.D, theta)
    problem = problem.placed(points)
    _, loss = look(problem, theta, None, 0)
    state, zero = problem.method.elsewhere(theta, carry.state), jnp.zeros_like(carry.collapsed)
    where = theta, state, None, loss, theta, loss, loss
    return Carry(
        *where, carry.steps, zero, zero, carry.means, carry.validated, jnp.zeros_like(carry.code), points, carry.kept
    )


def _gradient_norm(problem: Problem, theta: Vector, sample: Any) -> jax.Array:
    """The norm of the gradient at theta itself, less what bounds hold: a method's own may be that of another point."""
    at = linearise(problem.loss, problem.D, theta, sample, rows=False)
    covector, box = at.covector(at.slopes), getattr(problem.method.method, "box", None)
    return jnp.linalg.norm(covector if box is None else jnp.where(box.free(theta, covector), covector, 0))


def _step(problem: Problem, carry: Carry, fixed: Any, key: Any, tests: Tests) -> tuple[Carry, Log]:
    """One step, what is known after it, and which test it met."""
    sample: Any = problem.keyed(problem.spread(carry.sample) if problem.drawn else fixed, key, carry.steps)
    theta, state, guarded = problem.method.step(problem.loss, problem.D, carry.theta, carry.state, sample)
    info, steps = guarded.info, carry.steps + 1
    if problem.drawn:
        sample, loss = look(problem, theta, key, steps)
        best, best_loss, lowest = theta, loss, loss
    else:
        sample, loss = None, jnp.where(info.accepted, guarded.trial_loss, carry.loss)
        lowest = jnp.where(loss < carry.lowest, loss, carry.lowest)
        equal = loss <= lowest + 4 * jnp.finfo(loss.dtype).eps * jnp.abs(lowest)
        best, best_loss = jnp.where(equal, theta, carry.best), jnp.where(equal, loss, carry.best_loss)
    collapsed = jnp.where(info.rank == 0, carry.collapsed + 1, 0)
    tolerance = tests.tolerance
    length = info.step_norm / (jnp.linalg.norm(theta) + tolerance["step"])
    change = jnp.abs(guarded.trial_loss - info.loss) / jnp.where(info.loss == 0, 1, jnp.abs(info.loss))
    tested = dict(zip(TESTED, (loss, info.gradient_norm, length, change), strict=True))
    enough, means = jnp.asarray(True), carry.means
    if problem.drawn:
        fading = 1 - jnp.maximum(1 - FADING, 1 / steps).astype(theta.dtype)
        means = {name: fading * means[name] + (1 - fading) * value for name, value in tested.items()}
        tested, enough = means, steps >= BATCHES
    if problem.looks and not problem.drawn:
        there = lambda: _gradient_norm(problem, theta, fixed)
        flat = tested["gradient"] <= tolerance["gradient"]
        tested["gradient"] = jax.lax.cond(flat, there, lambda: jnp.full((), jnp.inf, theta.dtype))
    free = info.accepted & ~info.shortened
    level = jnp.where(free & (tested["change"] <= tolerance["loss"]), carry.level + 1, 0)
    ends = [
        (enough & (tested["loss"] <= tests.target), Result.TARGET_REACHED),
        (enough & (tested["gradient"] <= tolerance["gradient"]), Result.CONVERGED_GRADIENT),
        (enough & free & (tested["length"] <= tolerance["step"]), Result.CONVERGED_STEP),
        (enough & (level >= PATIENCE), Result.CONVERGED_LOSS),
    ]
    # What a test holds of is returned, though another point may have a lower loss.
    held = (first_code(ends) != code(Result.RUNNING)) | (info.end == code(Result.UNBOUNDED))
    best, best_loss = jnp.where(held, theta, best), jnp.where(held, loss, best_loss)
    log, validated = {"loss": loss}, carry.validated
    if problem.validation is not None:
        log["validation"] = problem.validation(theta)
        better = log["validation"] < validated["lowest"]
        best, best_loss = choose((better, (theta, loss)), (True, (carry.best, carry.best_loss)))
        validated = {
            "lowest": jnp.where(better, log["validation"], validated["lowest"]),
            "waited": jnp.where(better, 0, validated["waited"] + 1),
        }
    ends += [
        *((info.end == number, result) for number, result in enumerate(CODES) if number),
        (state.failures >= PATIENCE, Result.NONFINITE_STEPS),
        (collapsed >= PATIENCE, Result.RANK_COLLAPSE),
    ]
    if problem.validation is not None:
        # What is returned is where the validation was lowest, and what else ends the run does not hold there.
        waited = validated["waited"]
        failed = [(test, result) for test, result in ends if result.failed]
        ended = first_code(ends) != code(Result.RUNNING)
        ends = [*failed, ((ended & (waited > 0)) | (waited >= tests.patience), Result.VALIDATED), *ends]
    number = first_code(ends).astype(carry.code.dtype)
    log |= {name: getattr(info, name) for name in problem.columns}
    log |= {"theta": theta} if problem.measured else {}
    where = theta, state, sample, loss, best, best_loss, lowest
    return Carry(*where, steps, collapsed, level, means, validated, number, carry.points, carry.kept), log


def _advance(problem: Problem, carry: Carry, key: Any, count: Any, tests: Tests) -> tuple[Carry, Log]:
    """At most `count` steps, fewer where a test stops the run."""
    fixed, problem = None, problem.placed(carry.points)
    if not problem.drawn:
        fixed = problem.spread(problem.method.draw(problem.loss, problem.D, carry.theta, None))

    def unfinished(loop: tuple[Any, Carry, Log]) -> jax.Array:
        made, carry, _ = loop
        return (made < count) & (carry.code == code(Result.RUNNING))

    def body(loop: tuple[Any, Carry, Log]) -> tuple[Any, Carry, Log]:
        made, carry, logs = loop
        carry, log = _step(problem, carry, fixed, key, tests)
        # Not logs[name].at[made].set(entry), a scatter, which compiles into more.
        put = jax.lax.dynamic_update_index_in_dim
        return made + 1, carry, {name: put(logs[name], entry, made, 0) for name, entry in log.items()}

    kinds = {float: carry.theta.dtype, int: int, bool: bool}
    empty = {name: jnp.zeros(CHUNK, kinds[kind]) for name, kind in problem.columns.items()}
    empty |= {"loss": jnp.zeros(CHUNK, carry.loss.dtype)}
    empty |= {} if problem.validation is None else {"validation": jnp.zeros(CHUNK, carry.validated["lowest"].dtype)}
    empty |= {"theta": jnp.zeros((CHUNK, carry.theta.size), carry.theta.dtype)} if problem.measured else {}
    _, carry, logs = jax.lax.while_loop(unfinished, body, (jnp.zeros((), int), carry, empty))
    return carry, logs


def _measure(metrics: dict[str, Callable[[Any], Any]], thetas: jax.Array, count: Any) -> dict[str, jax.Array]:
    """Every metric at the first `count` of the given parameters."""

    def one(index: Any, columns: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {name: column.at[index].set(metrics[name](thetas[index])) for name, column in columns.items()}

    shapes = {name: jax.eval_shape(f, thetas[0]) for name, f in metrics.items()}
    empty = {name: jnp.zeros(thetas.shape[0], shape.dtype) for name, shape in shapes.items()}
    return jax.lax.fori_loop(0, count, one, empty)


start, redraw, advance, measure = Compiled(_start), Compiled(_redraw), Compiled(_advance), Compiled(_measure)
