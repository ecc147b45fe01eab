"""What there is to gain where a quick step stands, and what becomes of the run after it."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linalg.filters import Shift
from ..._types import Vector
from ..result import Result, first_code
from .losses import LossWindow
from .pace import Pace
from .view import View

SETTLED, SETTLED_DRAWN = 3, 100
"""This many steps in a row with nothing to gain end a run; more where points are drawn, since few may miss much."""
LEVEL = 5
"""With bounds, this many steps in a row at the lowest loss, with no more than rounding to gain, end a run too."""
FAR = 30.0
"""Parameters this many times as large as at the start run to infinity, if the loss falls along them by its own size."""


class Prospect(eqx.Module):
    """What there is to gain at theta, and what of it would be rounding."""

    parts: tuple[jax.Array | None, Vector | None]
    """L' as an inner product with rows, and as a covector."""
    floor: jax.Array
    """The least damping: below it there is only noise."""
    gain: jax.Array
    """What a full Gauss-Newton step is predicted to gain."""
    noise: jax.Array
    """The rounding of the loss."""
    stationary: jax.Array
    """Whether there is nothing to gain."""

    @classmethod
    def of(cls, view: View) -> "Prospect":
        """By an undamped look at the model of the loss."""
        at, space, number = view.at, view.space, jnp.finfo(view.at.theta.dtype)
        parts, floor = space.split(at, at.slopes), space.factors.noise + number.tiny
        gain = space.filtered(Shift(floor)).representer_norm(*parts) ** 2 / 2
        noise = 4 * number.eps * at.magnitude + view.rounding
        return cls(parts, floor, gain, noise, gain <= number.eps**0.75 * noise)


class Fate(eqx.Module):
    """What becomes of the run after a step: whether and how it ends, or whether long steps should take over."""

    end: jax.Array
    """The code of the result with which the run ends where it stands; that of RUNNING to go on."""
    slow: jax.Array
    """Whether progress is slow though the loss could vanish."""
    pace: Pace
    modest: Vector
    """The parameters to return where they run to infinity: there is no lowest loss, but a place where they began to."""

    @classmethod
    def of(
        cls,
        view: View,
        ahead: Prospect,
        losses: tuple[LossWindow, LossWindow],
        pace: Pace,
        k: jax.Array,
        vain: jax.Array,
    ) -> "Fate":
        """By the last losses before and after step k and the pace so far; `vain` says that long steps were tried."""
        at, theta, (before, window) = view.at, view.at.theta, losses
        lowest, best, goes_on = at.loss + before.lowest, before.best, ~view.fallen
        paced, positive = (k, lowest, best, ahead.gain), at.positive
        left = _far(theta, window) & pace.runs_away(*paced, jnp.where(positive, at.magnitude, 0)) & goes_on
        creeps = pace.creeps(*paced, vain & positive) & goes_on
        end = _end(view, ahead, window, left, creeps)
        slow = (pace.slow(k, lowest) | window.stuck) & (ahead.gain > at.magnitude / 2)
        after = pace.after(k, lowest, best, window.first)
        modest = jnp.where(positive, after.modest.theta, pace.lately.theta)
        return cls(end, slow, after, jnp.where(left, modest, best))


def _far(theta: Vector, window: LossWindow) -> jax.Array:
    """Whether the parameters are many times as large as at the start."""
    return jnp.linalg.norm(theta) > FAR * (1 + jnp.linalg.norm(window.first))


def _end(view: View, ahead: Prospect, window: LossWindow, left: jax.Array, creeps: jax.Array) -> jax.Array:
    """The code of the result with which the run ends where it stands; that of RUNNING to go on.

    `left` says that the parameters run away, `creeps` that the loss hardly falls though they still move.
    """
    at, covector, eps = view.at, view.covector, jnp.finfo(view.at.theta.dtype).eps
    settled = window.settled >= (SETTLED_DRAWN if view.loss.drawn else SETTLED)
    stuck = window.stuck
    level = stuck
    if view.box is not None:
        # Parameters go on and off their bounds at the lowest loss, and would for all the steps that a run waits.
        level = stuck | (window.idle >= LEVEL) & (window.lowest >= -ahead.noise)
    flat = jax.lax.cond(settled | level, lambda: at.unbalanced(covector) <= 4 * eps**0.5, lambda: jnp.asarray(False))
    runs_away = _far(at.theta, window) & (-(covector @ at.theta) > at.magnitude / 10)
    return first_code([
        (settled & flat, Result.CONVERGED_GRADIENT),
        (view.vanished & ((window.idle > SETTLED) | (window.retreats > 0)), Result.CONVERGED_LOSS),
        (level & (ahead.gain <= ahead.noise) & flat, Result.CONVERGED_LOSS),
        ((stuck & runs_away) | (left & (not view.loss.drawn)), Result.UNBOUNDED),
        (stuck | (creeps & (not view.loss.drawn)), Result.STAGNATED),
    ])  # fmt: skip
