"""Auto: damped Gauss-Newton steps along a path that bends with the manifold, with nothing to tune."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.frame import Frame, Sample, draw_sample
from ..._geometry.inner_products import AbstractMetric, GaussNewton
from ..._linalg.filters import Shift
from ..._linalg.solvers import QRSVD, AbstractFactorisation, Scaled
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..result import Result, first_code
from ..retractions import Landing, SecondOrder, Straight
from ..schemes.base import AbstractMethod, narrate
from ..state import Info
from .coordinates import scale, turning
from .losses import Memory
from .trust import Trust

TRIES = 8
"""So many dampings are tried with one factorisation, each ten times the last."""
DECREASE = 1e-4
"""The share of the predicted decrease that a step must bring, below the highest loss in memory."""
STRAIGHT = 0.3
"""A path that bends less than this is so straight that the damping may shrink."""

SELDOM = 4.0
"""Speeds are measured again once paths have bent so many times as much as when they were last measured."""


class AutoState(eqx.Module):
    """What auto carries from step to step."""

    speed: jax.Array
    """How fast every parameter turns its tangent function: a fading root mean square."""
    turned: jax.Array
    """How much all paths together have bent."""
    measured: jax.Array
    """How much they had bent when speeds were last measured."""
    damping: jax.Array
    """The factor on lambda that rejections raise and straight paths lower."""
    memory: Memory
    trust: Trust
    k: jax.Array


class Trial(eqx.Module):
    """A step that was tried."""

    landing: Landing
    loss: jax.Array
    predicted: jax.Array
    """The decrease that the Gauss-Newton model promises."""


class Auto(AbstractMethod):
    r"""$v_{k+1} = R[v_k + \psi^T \delta_k]$ with $(G + \lambda_k S^2)\, \delta_k = -\nabla L(\theta_k)$.

    - G is the Gram matrix of the loss's own metric (Gauss-Newton), and R is `SecondOrder` with its curvature limit and
      two corrections.
    - S holds the speeds at which parameters turn their tangent functions, so that |S delta| measures how much the
      tangent space turns under a displacement, whatever the units of the parameters.
    - $\lambda_k = f_k\, g_k / (2 d\, \text{radius}^2)$ with $g_k = |\mathrm{grad}\, L|_W^2 / 2$, what is left to gain.
      With f = 1 no component of S delta is longer than radius times sqrt(d); damping goes when nothing is left to gain.
    - Where points are drawn anew, a caution grows while the next points do not keep what steps promise on their own;
      f, then at least 1, is multiplied by it.
    - A step is accepted below the highest of the last losses; otherwise $\lambda$ is raised tenfold, with the same
      factorisation. A run that finds nothing lower for as long goes back to its best parameters, damped more.
    """

    radius: jax.Array = eqx.field(converter=_check.leaf, default=1.0)
    retraction: SecondOrder = eqx.field(default_factory=lambda: SecondOrder(0.75, 2))
    factorisation: AbstractFactorisation = eqx.field(default_factory=QRSVD)

    def init(self, theta: Vector) -> AutoState:
        """Nothing is known yet."""
        one = jnp.ones((), theta.dtype)
        memory, trust = Memory.start(theta), Trust.start(theta.dtype)
        return AutoState(jnp.zeros_like(theta), 0 * one, 0 * one, one, memory, trust, jnp.ones((), int))

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points of the loss."""
        return draw_sample(loss, D, theta, key, GaussNewton())

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        """Auto shortens its own steps."""
        return self

    def refactorised(self, change: Callable[[AbstractFactorisation], AbstractFactorisation]) -> AbstractMethod:
        """Auto with another factorisation of its scaled rows."""
        return dataclasses.replace(self, factorisation=change(self.factorisation))

    @property
    def metrics(self) -> dict[str, AbstractMetric]:
        """Gauss-Newton."""
        return {"method=riesz.auto(), with W": GaussNewton()}

    def at_rest(self, theta: Vector, state: AutoState) -> AutoState:
        """There is no momentum to drop."""
        return state

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Vector, AutoState, Info]:
        """One Jacobian, one factorisation; where speeds are due, a JVP of the rows. Dampings are tried in turn."""
        rounding = jnp.finfo(theta.dtype)
        here, speed, measured, covector = self._frame(loss, D, theta, state, sample)
        floor = here.W.factorised.noise + rounding.tiny
        # What a full Gauss-Newton step is predicted to gain.
        gain = here.replace(Shift(floor)).gradient_norm ** 2 / 2
        noise = 4 * rounding.eps * _magnitude(here)
        stationary = gain <= rounding.eps**0.75 * noise
        stranded = stationary & (state.memory.lowest < -noise)
        retreat = state.memory.exhausted | stranded
        highest = here.value + state.memory.allowance + noise
        trust = state.trust.tested(here.value) if loss.drawn else state.trust

        def attempt(shift: jax.Array) -> Trial:
            damped = here.replace(Shift(shift))
            landing = self.retraction(damped, -damped.gradient)
            predicted = -(covector @ landing.delta) - here.W.norm(landing.delta) ** 2 / 2
            return Trial(landing, loss.value(D(landing.theta), sample.terms), predicted)

        def good(trial: Trial) -> jax.Array:
            finite = jnp.all(jnp.isfinite(trial.landing.theta)) & jnp.isfinite(trial.loss)
            return finite & (trial.loss <= highest - DECREASE * trial.predicted)

        def unfinished(carry: Any) -> jax.Array:
            tries, trial = carry
            return ~retreat & ((tries == 0) | (~good(trial) & (tries < TRIES)))

        # Straight paths do not ease the damping of a step that fits its own points only.
        factor = jnp.where(trust.caution > 1, trust.caution * jnp.maximum(state.damping, 1), state.damping)
        shift = factor * gain / (2 * theta.size * self.radius**2)
        first = jnp.maximum(shift, floor).astype(theta.dtype)
        untried = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(attempt, first))
        harder = lambda carry: (carry[0] + 1, attempt(first * _tenfold(carry[0], theta.dtype)))
        tries, trial = jax.lax.while_loop(unfinished, harder, (jnp.zeros((), int), untried))

        accepted = ~retreat & good(trial)
        # Not finite however damped: derivatives here are not. The safeguard sees such a trial, and counts it.
        lost = ~retreat & ~jnp.all(jnp.isfinite(trial.landing.theta))
        memory = _choose(
            (accepted, state.memory.moved(trial.landing.theta, trial.loss - here.value, noise)),
            (retreat, state.memory.retreated()),
            (lost, state.memory),
            (True, state.memory.stayed()),
        ).settling(stationary & ~stranded)
        back, still = (Straight()(here, delta) for delta in (state.memory.best - theta, jnp.zeros_like(theta)))
        landing = _choose((accepted | lost, trial.landing), (retreat, back), (True, still))
        damping = _choose(
            (retreat, 10 * jnp.maximum(state.damping, 1)),
            (True, _controlled(state.damping, tries, accepted, trial.landing.bending)),
        )
        info = narrate(here, here.W, covector, landing, jnp.ones((), theta.dtype))
        meaningless = gain <= noise + rounding.eps * memory.fall
        ends = [
            # Without a tangent space there is nothing to gain either, but that is not convergence.
            (info.rank == 0, Result.RUNNING),
            (memory.at_rest, Result.CONVERGED_GRADIENT),
            (memory.stuck & meaningless, Result.CONVERGED_LOSS),
            (memory.stuck, Result.STAGNATED),
        ]
        info = eqx.tree_at(lambda info: (info.accepted, info.end), info, (accepted | retreat, first_code(ends)))
        turned = state.turned + landing.scale * landing.bending
        trust = trust.promising(jnp.where(accepted, here.value - trial.loss, 0))
        return landing.theta, AutoState(speed, turned, measured, damping, memory, trust, state.k + 1), info

    def _frame(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Frame, jax.Array, jax.Array, Vector]:
        """The frame in scaled coordinates, the speeds that scale it, when they were measured, and grad L(theta).

        Speeds are measured at the start and each time that paths have bent four times as much as at the last
        measurement: they matter most while the tangent space is new, and measuring costs more than the Jacobian.
        """
        least = Shift(jnp.finfo(theta.dtype).tiny)
        plain = Frame(loss, D, theta, sample, W=GaussNewton(), filter=least, factorisation=self.factorisation)
        blocks = GaussNewton().blocks(plain, None)
        covector = plain.covector(plain.differential)

        def measure() -> jax.Array:
            now = turning(plain, blocks, jnp.sign(covector))
            return jnp.where(state.k == 1, now, jnp.sqrt((state.speed**2 + now**2) / 2))

        due = (state.k == 1) | (state.turned > SELDOM * state.measured)
        speed = jax.lax.cond(due, measure, lambda: state.speed)
        measured = jnp.where(due, state.turned, state.measured)
        scaled = Scaled(scale(plain, blocks, speed), self.factorisation)
        return plain.replace(least, scaled), speed, measured, covector


def _tenfold(times: jax.Array, dtype: Any) -> jax.Array:
    return jnp.asarray(10.0, dtype) ** times.astype(dtype)


def _choose(*cases: tuple[Any, Any]) -> Any:
    """The first value whose condition holds."""
    (condition, value), *rest = cases
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), value, _choose(*rest)) if rest else value


def _magnitude(frame: Frame) -> jax.Array:
    """sum_j w_j |l(z_j)|: what the rounding of the loss is measured by."""
    parts = zip(frame.loss.terms, frame.values, frame.sample.terms, strict=True)
    return jnp.sum(jnp.stack([term.magnitude(z, over) for term, z, over in parts]))


def _controlled(damping: jax.Array, tries: jax.Array, accepted: jax.Array, bending: jax.Array) -> jax.Array:
    """The factor on lambda after a step: what rejections raised is kept, then eased towards 1, or less if straight."""
    rounding = jnp.finfo(damping.dtype)
    raised = damping * _tenfold(jnp.maximum(tries - 1, 0), damping.dtype)
    eased = jnp.where(tries > 1, raised, jnp.maximum(damping / 3, 1))
    straight = raised * jnp.clip(bending / STRAIGHT, 1 / 3, 3)
    return jnp.clip(
        jnp.where(accepted, jnp.minimum(eased, straight), 10 * raised), rounding.tiny**0.5, rounding.eps**-2
    )
