"""The quick rule of auto: damped Gauss-Newton steps along a path that bends with the manifold."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.linearise import Linearisation
from ..._geometry.rows import Block, split
from ..._geometry.tangent import TangentSpace
from ..._linalg.filters import Shift
from ..._linalg.rows import AbstractRows
from ..._types import Vector
from ..choose import choose
from ..result import Result, code
from ..retractions import Retracted, SecondOrder, Straight
from .coordinates import scale, turning
from .fate import Fate, Prospect
from .losses import LossWindow
from .pace import Pace
from .trust import Trust
from .view import Outcome, View

CUT = 0.3
"""Where the loss is not quadratic, a step that bends so much that it is cut below this share is damped more instead."""
LIMIT = 0.5
"""What is kept of the last displacement is at most this multiple of the step that the points ask for."""
FADING = 0.99
"""The share of the squared sizes of tangent functions that is left after a step, where points are drawn."""
FAINT = 0.01
"""A tangent function below this share of the largest is measured as if it had that size, where points are drawn."""


class QuickState(eqx.Module):
    """What the quick rule carries from step to step."""

    speed: jax.Array
    """How fast every parameter turns its tangent function: a fading root mean square."""
    sizes: jax.Array
    """The norms of the tangent functions; a fading root mean square where points are drawn."""
    turned: jax.Array
    """How much all paths together have bent."""
    measured: jax.Array
    """How much they had bent when speeds were last measured."""
    reach: jax.Array
    """The norm of the parameters then."""
    damping: jax.Array
    """The factor on lambda that rejections raise and straight paths lower."""
    window: LossWindow
    trust: Trust
    share: jax.Array
    """How far l'' is raised: the root of what is left to gain, as a share of the loss."""
    pace: Pace
    last: jax.Array
    """The last displacement, as tangent coefficients; zero where there was none, or a retreat."""

    @classmethod
    def start(cls, theta: Vector) -> "QuickState":
        """Nothing is known yet."""
        one, none = jnp.ones((), theta.dtype), jnp.zeros_like(theta)
        window, trust = LossWindow.start(theta), Trust.start(theta.dtype)
        return cls(none, none, 0 * one, 0 * one, 0 * one, one, window, trust, one, Pace.start(theta), none)


class Trial(eqx.Module):
    """A step that was tried."""

    moved: Retracted
    loss: jax.Array
    predicted: jax.Array
    """The decrease that the Gauss-Newton model promises."""
    residual: jax.Array
    """The relative residual of its linear system, where the solver has no spectrum."""
    good: jax.Array
    """Whether it ends low enough to be taken."""

    @classmethod
    def none(cls, theta: Vector) -> "Trial":
        """Before anything was tried."""
        zero = jnp.zeros((), theta.dtype)
        still = Retracted(jnp.zeros_like(theta), jnp.zeros_like(theta), zero, zero)
        return cls(still, jnp.inf + zero, zero, zero, jnp.asarray(False))


class QuickSteps(eqx.Module):
    r"""$(G + \lambda S^2)\, \delta = -\nabla L(\theta)$ with $\lambda = f\, g / (2 d\, \text{radius}^2)$.

    g is what the model promises a full step to gain. With f = 1 no component of S delta is longer than
    radius times sqrt(d), and damping goes when nothing is left to gain.
    """

    radius: jax.Array = eqx.field(converter=_check.leaf, default=1.0)
    """How far the tangent space may turn in a step: a multiple of sqrt(d) for every component of S delta."""
    retraction: SecondOrder = eqx.field(default_factory=lambda: SecondOrder(0.75, 2, lowest=True))
    """The bent path."""
    tries: int = eqx.field(static=True, default=8)
    """The number of dampings that are tried with one factorisation, each ten times the last."""
    decrease: jax.Array = eqx.field(converter=_check.leaf, default=1e-4)
    """The share of the predicted decrease that a step must bring, below the highest loss of the last ones."""
    straight: jax.Array = eqx.field(converter=_check.leaf, default=0.3)
    """A path that bends less than this is so straight that the damping may shrink."""
    seldom: jax.Array = eqx.field(converter=_check.leaf, default=4.0)
    """Speeds are measured again when the total bending exceeds this multiple of its value at the last measurement."""
    climbs: bool = eqx.field(static=True, default=True)
    """Whether a step may end higher than it began, below the highest of the last losses."""
    momentum: jax.Array = eqx.field(converter=_check.leaf, default=0.95)
    """Where points are drawn anew: the share that is kept of what they do not resolve of the last displacement."""

    def scaled(
        self,
        at: Linearisation,
        blocks: tuple[Block, ...],
        psi: AbstractRows,
        covector: Vector,
        state: QuickState,
        first: jax.Array,
        drawn: bool,
    ) -> tuple[jax.Array, QuickState]:
        """S, and the speeds and sizes that it was made of.

        Speeds are measured at the start and each time that paths have bent four times as much as at the last
        measurement, or that the parameters have doubled: they matter most while the tangent space is new, and measuring
        costs more than the Jacobian.
        """
        sizes = psi.norms()
        if drawn:
            sizes = jnp.where(first, sizes, jnp.sqrt(FADING * state.sizes**2 + (1 - FADING) * sizes**2))
        # Of a function that few points have only touched, the units are not known: it must not be moved by its tail.
        units = jnp.maximum(sizes, FAINT * jnp.max(sizes)) if drawn else sizes

        def measure() -> jax.Array:
            now = turning(at, blocks, psi, sizes, jnp.sign(covector))
            return jnp.where(first, now, jnp.sqrt((state.speed**2 + now**2) / 2))

        reach = jnp.linalg.norm(at.theta)
        due = first | (state.turned > self.seldom * state.measured) | (reach > 2 * state.reach)
        speed = jax.lax.cond(due, measure, lambda: state.speed)
        measured = jnp.where(due, state.turned, state.measured)
        r, _ = split(blocks, at.slopes)
        residual = jnp.zeros((), speed.dtype) if r is None else jnp.linalg.norm(r)
        S = scale(units, at.theta, residual, speed, drawn or not at.quadratic)
        reach = jnp.where(due, reach, state.reach)
        return S, dataclasses.replace(state, speed=speed, sizes=sizes, measured=measured, reach=reach)

    def move(
        self, view: View, state: QuickState, k: jax.Array, vain: jax.Array
    ) -> tuple[Outcome, QuickState, jax.Array]:
        """One step, the state after it, and whether progress is slow though the loss could vanish.

        `vain` says that long steps have not made it vanish either.
        """
        at, theta, drawn = view.at, view.at.theta, view.loss.drawn
        ahead = Prospect.of(view)
        stranded = ahead.stationary & (state.window.lowest < -ahead.noise)
        retreat = state.window.exhausted | stranded
        trust = state.trust.after_new_points(at.loss) if drawn else state.trust
        # Straight paths do not ease the damping of a step that fits its own points only.
        factor = jnp.where(trust.caution > 1, trust.caution * jnp.maximum(state.damping, 1), state.damping)
        trial, tries = self._search(view, ahead, state, factor, ~retreat)
        accepted = ~retreat & trial.good
        # Not finite however damped: derivatives here are not. The safeguard sees such a trial, and counts it.
        lost = ~retreat & ~jnp.all(jnp.isfinite(trial.moved.theta))
        window = choose(
            (accepted, state.window.moved(trial.moved.theta, trial.loss - at.loss, ahead.noise)),
            (retreat, state.window.retreated()),
            (lost, state.window),
            (True, state.window.stayed()),
        ).settling(ahead.stationary & ~stranded)
        back, still = (Straight()(at, None, delta) for delta in (state.window.best - theta, jnp.zeros_like(theta)))
        tried, nan = accepted | lost, jnp.full((), jnp.nan, theta.dtype)
        moved, loss = choose((tried, (trial.moved, trial.loss)), (retreat, (back, nan)), (True, (still, at.loss)))
        damping = choose(
            (retreat, 10 * jnp.maximum(state.damping, 1)),
            (True, self._controlled(state.damping, tries, accepted, trial.moved.bending)),
        )
        fate = Fate.of(view, ahead, (state.window, window), state.pace, k, vain)
        unbounded = fate.end == code(Result.UNBOUNDED)
        origin = Straight()(at, None, fate.modest - theta)
        moved, loss = choose((unbounded, (origin, nan)), (True, (moved, loss)))
        state = dataclasses.replace(
            state, turned=state.turned + moved.scale * moved.bending, damping=damping, window=window,
            trust=trust.after_step(jnp.where(accepted, at.loss - trial.loss, 0)),
            share=jnp.minimum(jnp.sqrt(ahead.gain / jnp.where(at.magnitude > 0, at.magnitude, 1)), 1),
            pace=fate.pace,
            last=jnp.where(accepted, moved.delta, 0),
        )  # fmt: skip
        shortened = (factor > 1) | (tries > 1) | (moved.scale < 1) | ~accepted
        outcome = Outcome(moved, loss, accepted | retreat | unbounded, fate.end, shortened, trial.residual)
        return outcome, state, fate.slow

    def _search(
        self, view: View, ahead: Prospect, state: QuickState, factor: jax.Array, wanted: jax.Array
    ) -> tuple[Trial, jax.Array]:
        """The trial to take, and with how many dampings it was found; the first one where no more are wanted.

        The first trial that is good; where the loss is not quadratic and it was cut short, dampings go on growing for
        as long as they promise more.
        """
        at, space = view.at, view.space
        allowance = state.window.allowance if self.climbs else 0.0
        highest = at.loss + allowance + ahead.noise

        def attempt(shift: jax.Array) -> Trial:
            damped = space.filtered(Shift(shift))
            g = damped.solve(*ahead.parts)
            kept = self._kept(damped, g, state.last) if view.loss.drawn else 0.0
            moved = self.retraction(at, damped, kept - g)
            if view.box is not None and view.free is not None:
                moved = view.box.project(at.theta, moved, view.free)
            predicted = -(view.covector @ moved.delta) - space.norm(moved.delta) ** 2 / 2
            has_spectrum = space.factors.eigenvalues is not None
            residual = jnp.full((), jnp.nan, g.dtype) if has_spectrum else damped.residual(g, view.covector)
            loss = view.value(moved.theta)
            finite = jnp.all(jnp.isfinite(moved.theta)) & jnp.isfinite(loss)
            # A path that was projected onto bounds may promise nothing.
            enough = highest - self.decrease * jnp.maximum(predicted, 0)
            return Trial(moved, loss, predicted, residual, finite & (loss <= enough))

        def better(trial: Trial, last: Trial) -> jax.Array:
            return trial.good & (trial.predicted > last.predicted)

        def unfinished(carry: Any) -> jax.Array:
            tries, _, last, trial = carry
            more = ~trial.good
            if not at.quadratic:
                more = jnp.where(last.good, better(trial, last), more | (trial.moved.scale < CUT))
            return wanted & more & (tries < self.tries)

        def harder(carry: Any) -> Any:
            tries, bent, _, trial = carry
            return tries + 1, bent + trial.good, trial, attempt(first * _tenfold(tries, at.theta.dtype))

        shift = factor * ahead.gain / (2 * at.theta.size * self.radius**2)
        first = jnp.maximum(shift, ahead.floor).astype(at.theta.dtype)
        none, untried = jnp.zeros((), int), Trial.none(at.theta)
        # Most steps need one trial. It stands before the loop: within one a small program runs half as fast.
        begun = harder((none, none, untried, untried))
        tries, bent, last, trial = jax.lax.while_loop(unfinished, harder, begun)
        if at.quadratic:
            return trial, tries
        return choose((last.good & ~better(trial, last), last), (True, trial)), tries - bent

    def _kept(self, damped: TangentSpace, g: Vector, last: Vector) -> Vector:
        r"""Momentum, $\beta (I - (G + \lambda S^2)^{-1} G)\, \delta_{k-1}$, or as much of it as is short beside g.

        Unless it is shortened, $(G + \lambda S^2)\, \delta_k = -c + \lambda S^2 \beta\, \delta_{k-1}$: the last
        displacement is kept where damping decides, and forgotten where the points do. It is the momentum of SPRING.
        """
        kept = self.momentum * (last - damped.project(damped.psi @ last))
        longest, length = LIMIT * damped.length(g), damped.length(kept)
        return jnp.where(length > longest, longest / jnp.where(length > 0, length, 1), 1) * kept

    def _controlled(self, damping: jax.Array, tries: jax.Array, accepted: jax.Array, bending: jax.Array) -> jax.Array:
        """The factor on lambda after a step: what rejections raised is kept, then eased to 1, or less if straight."""
        rounding = jnp.finfo(damping.dtype)
        raised = damping * _tenfold(jnp.maximum(tries - 1, 0), damping.dtype)
        eased = jnp.where(tries > 1, raised, jnp.maximum(damping / 3, 1))
        straight = raised * jnp.clip(bending / self.straight, 1 / 3, 3)
        return jnp.clip(
            jnp.where(accepted, jnp.minimum(eased, straight), 10 * raised), rounding.tiny**0.5, rounding.eps**-2
        )


def _tenfold(times: jax.Array, dtype: Any) -> jax.Array:
    return jnp.asarray(10.0, dtype) ** times.astype(dtype)
