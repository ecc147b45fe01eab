"""Long steps: walk at the edge of what the linearisation can tell, and dive from there to every digit."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.linearise import Linearisation
from ..._types import Vector
from ..choose import choose
from ..result import Result, first_code
from ..retractions import Straight
from .damped_steps import DampedSteps
from .view import Outcome, View

QUICK, WALK, DIVE = 0, 1, 2
"""The phases of a run of auto, as its history tells them."""
SLOW = 6
"""A dive is over when this many steps have not halved the loss."""

NEAR = 1e5
"""Where dives have come to this multiple of rounding, a second walk would find nothing that is worth its steps."""


class Walk(eqx.Module):
    """Where the walk stands, and how the dives from it went."""

    first: jax.Array
    """Where walks begin."""
    theta: jax.Array
    """Where the walk stands, and goes on after a dive."""
    radius: jax.Array
    """The length of its last step."""
    edge: jax.Array
    """The gain ratio at which it walks."""
    lowest: jax.Array
    """The lowest loss that a dive has ended at; infinite before the first dive of a walk."""
    again: jax.Array
    """Whether this is the second walk."""
    length: jax.Array
    """The length of the last step, of the walk or of the dive."""
    made: jax.Array
    """How many steps of this stretch, or of this dive, were made; from below zero in the first, longer stretch."""
    losses: jax.Array
    """The losses before the last steps of a dive, the newest first."""

    @classmethod
    def start(cls, theta: Vector, edge: jax.Array, stretch: int) -> "Walk":
        """At the start, with a step of length one: the first probes find its right length."""
        one, none, inf = jnp.ones((), theta.dtype), jnp.zeros((), int), jnp.full((), jnp.inf, theta.dtype)
        losses = jnp.full(SLOW, jnp.inf, theta.dtype)
        return cls(theta, theta, one, edge.astype(theta.dtype), inf, jnp.asarray(False), one, none - stretch, losses)

    def turned(self, **changes: jax.Array) -> "Walk":
        """At the beginning of a stretch or of a dive."""
        losses = jnp.full_like(self.losses, jnp.inf)
        return dataclasses.replace(self, made=jnp.zeros_like(self.made), losses=losses, **changes)


class LongSteps(eqx.Module):
    r"""The longest step whose gain ratio is still $\rho$, from one factorisation and a batch of forward passes.

    The ratio is $(L(\theta) - L(\theta + \delta)) / m(\delta)$ with m the decrease that the linear model promises.
    Steps $\delta(\lambda)$ of several lengths around the last one are tried, and the one at which the ratio falls below
    $\rho$ for the last time is taken. With $\rho$ near zero this walks: the loss falls slowly, and the model wanders to
    where its tangent functions are rich enough to hold the residual. With $\rho$ near one it dives: the loss falls by
    the same factor with every step, down to what the tangent space can hold. How deep a dive goes depends on how long
    the walk was, so walks and dives take turns until a dive reaches rounding. After one that is not ten times as deep
    as the one before, a second walk begins at the start, at half the ratio, and takes another way.
    """

    edge: jax.Array = eqx.field(converter=_check.parameter("edge", above=0.0), default=0.02)
    """The gain ratio of a walk."""
    safe: jax.Array = eqx.field(converter=_check.parameter("safe", above=0.0), default=0.8)
    """The gain ratio of a dive."""
    window: jax.Array = eqx.field(converter=_check.parameter("window", above=1.0), default=3.0)
    """Lengths between the last one divided by this and the last one times this are tried."""
    probes: int = eqx.field(static=True, default=24)
    """The number of lengths: the edge must be met closely, or the walk falls into a narrow valley."""
    stretch: int = eqx.field(static=True, default=75)
    """How many steps the walk makes between two dives; before the first one, twice as many."""

    def __check_init__(self):
        _check.count("probes", self.probes, least=2)
        _check.count("stretch", self.stretch)

    def move(self, view: View, phase: jax.Array, walk: Walk) -> tuple[Outcome, jax.Array, Walk, jax.Array]:
        """One step of the walk or of the dive, the phase and the walk after it, and whether the next step goes back."""
        at, steps = view.at, DampedSteps.of(view.at, view.space)
        dtype = at.theta.dtype
        wanted = jnp.where(phase == DIVE, jnp.asarray(self.safe, dtype), walk.edge)
        span = jnp.log(jnp.asarray(self.window, dtype))
        lengths = walk.length * jnp.exp(jnp.linspace(-span, span, self.probes))
        dampings = jax.vmap(steps.damping)(lengths)
        losses = in_batches(lambda damping: view.value(at.theta + steps(damping)), dampings, at)
        ratios = (at.loss - losses) / jax.vmap(steps.promised)(dampings)
        length = last_crossing(lengths, jnp.where(jnp.isfinite(ratios), ratios, -1), wanted)
        delta = steps(steps.damping(length))
        trial = view.value(at.theta + delta)
        lower = trial < at.loss
        moved, loss = Straight()(at, None, jnp.where(lower, delta, 0)), jnp.where(lower, trial, at.loss)
        walk = dataclasses.replace(
            walk,
            length=jnp.where(lower, length, lengths[0]),
            made=walk.made + 1,
            losses=jnp.append(at.loss, walk.losses[:-1]),
        )
        phase, walk, back, over = self._after(view, moved.theta, loss, phase, walk)
        end = first_code([(over & view.vanished, Result.CONVERGED_LOSS), (over, Result.STAGNATED)])
        nan = jnp.full((), jnp.nan, dtype)
        return Outcome(moved, loss, lower, end, jnp.asarray(True), nan), phase, walk, back

    def _after(
        self, view: View, theta: Vector, loss: jax.Array, phase: jax.Array, walk: Walk
    ) -> tuple[jax.Array, Walk, jax.Array, jax.Array]:
        """What comes after a step: the phase, the walk, whether the next step goes back, and whether all is over."""
        exhausted = walk.length <= jnp.finfo(theta.dtype).eps * (1 + jnp.linalg.norm(theta))
        walked = (phase == WALK) & ((walk.made >= self.stretch) | exhausted)
        slow = (walk.made > SLOW) & ~(loss < walk.losses[-1] / 2)
        dived = (phase == DIVE) & (slow | exhausted | view.vanished)
        vain = dived & ~(loss < walk.lowest / 10)
        over = dived & (view.vanished | vain & (walk.again | (walk.lowest <= NEAR * view.rounding)))
        lowest = jnp.minimum(walk.lowest, loss)
        dives = walk.turned(theta=theta, radius=walk.length)
        again = dataclasses.replace(Walk.start(walk.first, walk.edge / 2, self.stretch), again=jnp.asarray(True))
        goes_on = walk.turned(length=walk.radius, lowest=lowest)
        walk = choose((walked, dives), (vain, again), (dived, goes_on), (True, walk))
        return jnp.where(walked, DIVE, phase), walk, dived & ~over, over


def last_crossing(lengths: jax.Array, ratios: jax.Array, wanted: jax.Array) -> jax.Array:
    """The length at which the ratios fall below what is wanted for the last time, between two probes.

    The longest where the last ratio is not below, the shortest where all are.
    """
    before, after = ratios[:-1], ratios[1:]
    falls = (before >= wanted) & (after < wanted)
    share = (before - wanted) / jnp.where(falls, before - after, 1)
    between = lengths[:-1] * (lengths[1:] / lengths[:-1]) ** jnp.where(falls, share, 0)
    # Lengths grow, so the last crossing is the longest.
    return jnp.where(after[-1] >= wanted, lengths[-1], jnp.max(jnp.where(falls, between, lengths[0])))


def in_batches(value: Callable[[jax.Array], jax.Array], dampings: jax.Array, at: Linearisation) -> jax.Array:
    """The loss at every damping, in equal batches of as many as make a few thousand values."""
    values, count = sum(part.features.values.size for part in at.parts), dampings.size
    batches = next(n for n in range(1, count + 1) if count % n == 0 and (count // n * values <= 4096 or n == count))
    if batches == 1:
        return jax.vmap(value)(dampings)
    return jax.lax.map(jax.vmap(value), dampings.reshape(batches, -1)).reshape(-1)
