"""Long steps: walk at the edge of what the linearisation can tell, and dive from there to every digit."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.linearise import Linearisation
from ..._geometry.tangent import TangentSpace
from ..._problem.integral import AbstractLoss
from ..._types import Vector
from ..choose import choose
from ..retractions import Retracted, Straight
from .damped_steps import DampedSteps

QUICK, WALK, DIVE = 0, 1, 2
"""The phases of a run of auto, as its history tells them."""
SLOW = 6
"""A dive is over when so many steps have not halved the loss."""


class Walk(eqx.Module):
    """Where the walk stands, and how the dives from it went."""

    theta: jax.Array
    """Where the walk stands, and where it goes on after a dive."""
    radius: jax.Array
    """The length of its last step."""
    stretch: jax.Array
    """How many steps it makes before the next dive."""
    lowest: jax.Array
    """The lowest loss that a dive has ended at."""
    vain: jax.Array
    """How many dives in a row have not lowered that tenfold."""
    length: jax.Array
    """The length of the last step, of the walk or of the dive."""
    made: jax.Array
    """How many steps of this stretch, or of this dive, were made."""
    losses: jax.Array
    """The losses before the last steps of a dive, the newest first."""

    @classmethod
    def start(cls, theta: Vector, stretch: int) -> "Walk":
        """At the start, with a step of length one: the first probes find its right length."""
        one, none, inf = jnp.ones((), theta.dtype), jnp.zeros((), int), jnp.full((), jnp.inf, theta.dtype)
        return cls(theta, one, none + stretch, inf, none, one, none, jnp.full(SLOW, jnp.inf, theta.dtype))


class LongSteps(eqx.Module):
    r"""The longest step whose gain ratio is still $\rho$, from one factorisation and a batch of forward passes.

    The ratio is $(L(\theta) - L(\theta + \delta)) / m(\delta)$ with m the decrease that the linear model promises.
    Steps $\delta(\lambda)$ of several lengths around the last one are tried, and the one at which the ratio falls below
    $\rho$ for the last time is taken. With $\rho$ near zero this walks: the loss falls slowly, and the model wanders to
    where its tangent functions are rich enough to hold the residual. With $\rho$ near one it dives: the loss falls by
    the same factor with every step, down to what the tangent space can hold. How deep a dive goes depends on how long
    the walk was, so walks and dives take turns until a dive reaches rounding, or two in a row find nothing new.
    """

    edge: jax.Array = eqx.field(converter=_check.leaf, default=0.02)
    """The gain ratio of a walk."""
    safe: jax.Array = eqx.field(converter=_check.leaf, default=0.8)
    """The gain ratio of a dive."""
    window: jax.Array = eqx.field(converter=_check.leaf, default=3.0)
    """Lengths between the last one divided by this and the last one times this are tried."""
    probes: int = eqx.field(static=True, default=24)
    """The number of lengths: the edge must be met closely, or the walk falls into a narrow valley."""
    stretch: int = eqx.field(static=True, default=80)
    """How many steps the walk makes before the first dive; each further stretch is a quarter longer."""

    def move(
        self, loss: AbstractLoss, at: Linearisation, space: TangentSpace, sample: tuple, phase: jax.Array, walk: Walk
    ) -> tuple[Retracted, jax.Array, jax.Array, Walk]:
        """One step of the walk or of the dive: where it leads, the loss there, whether it is lower, and the walk."""
        steps = DampedSteps.of(at, space)
        value = lambda damping: loss.value(at.D(at.theta + steps(damping)), sample)
        diving = phase == DIVE
        wanted = jnp.where(diving, self.safe, self.edge).astype(at.theta.dtype)
        span = jnp.log(self.window).astype(at.theta.dtype)
        lengths = walk.length * jnp.exp(jnp.linspace(-span, span, self.probes))
        dampings = jax.vmap(steps.damping)(lengths)
        ratios = (at.loss - in_batches(value, dampings, at)) / jax.vmap(steps.promised)(dampings)
        length = last_crossing(lengths, jnp.where(jnp.isfinite(ratios), ratios, -1), wanted)
        damping = steps.damping(length)
        delta = steps(damping)
        trial = loss.value(at.D(at.theta + delta), sample)
        lower = trial < at.loss
        moved = choose((lower, Straight()(at, None, delta)), (True, Straight()(at, None, jnp.zeros_like(delta))))
        length = jnp.where(lower, length, lengths[0])
        losses = jnp.roll(walk.losses, 1).at[0].set(at.loss)
        walk = eqx.tree_at(lambda walk: (walk.length, walk.made, walk.losses), walk, (length, walk.made + 1, losses))
        return moved, jnp.where(lower, trial, at.loss), lower, walk

    def after(
        self, theta: Vector, value: jax.Array, phase: jax.Array, walk: Walk, vanished: jax.Array
    ) -> tuple[jax.Array, Walk, jax.Array, jax.Array]:
        """What comes after a step: the phase, the walk, whether the next step goes back, and whether all is over."""
        smallest = jnp.finfo(theta.dtype).eps * (1 + jnp.linalg.norm(theta))
        exhausted = walk.length <= smallest
        walked = (phase == WALK) & ((walk.made >= walk.stretch) | exhausted)
        slow = (walk.made > SLOW) & ~(value < walk.losses[-1] / 2)
        dived = (phase == DIVE) & (slow | exhausted | vanished)
        vain = jnp.where(value < walk.lowest / 10, 0, walk.vain + 1)
        over = dived & (vanished | (vain >= 2) | (walk.stretch == 0))
        none = jnp.full_like(walk.losses, jnp.inf)
        ready = Walk(theta, walk.length, walk.stretch, walk.lowest, walk.vain, walk.length, 0 * walk.made, none)
        # A walk that can go no further makes no second stretch.
        ready = eqx.tree_at(lambda w: w.stretch, ready, jnp.where(exhausted, 0, walk.stretch))
        back = Walk(
            walk.theta, walk.radius, walk.stretch + walk.stretch // 4, jnp.minimum(walk.lowest, value), vain,
            walk.radius, 0 * walk.made, none,
        )  # fmt: skip
        walk = choose((walked, ready), (dived, back), (True, walk))
        return jnp.where(walked, DIVE, phase), walk, dived & ~over, over


def last_crossing(lengths: jax.Array, ratios: jax.Array, wanted: jax.Array) -> jax.Array:
    """The length at which the ratios fall below what is wanted for the last time, between two probes.

    The longest where none is below, the shortest where all are.
    """
    falls = (ratios[:-1] >= wanted) & (ratios[1:] < wanted)
    i = falls.size - 1 - jnp.argmax(falls[::-1])
    share = (ratios[i] - wanted) / jnp.where(falls[i], ratios[i] - ratios[i + 1], 1)
    between = lengths[i] * (lengths[i + 1] / lengths[i]) ** share
    return jnp.where(ratios[-1] >= wanted, lengths[-1], jnp.where(jnp.any(falls), between, lengths[0]))


def in_batches(value: Callable[[jax.Array], jax.Array], dampings: jax.Array, at: Linearisation) -> jax.Array:
    """The loss at every damping, for as many at a time as a few thousand points allow."""
    points = sum(part.over.x.shape[0] for part in at.parts)
    return jax.lax.map(value, dampings, batch_size=max(1, min(dampings.size, 4096 // points)))
