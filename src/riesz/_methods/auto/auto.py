"""Auto: damped Gauss-Newton steps along a path that bends with the manifold, with nothing to tune."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.inner_products import AbstractMetric, GaussNewton, draw_sample
from ..._geometry.linearise import Linearisation, Sample, linearise
from ..._geometry.rows import rows_of, split
from ..._geometry.tangent import Representer, TangentSpace
from ..._linalg.filters import Shift
from ..._linalg.solvers import AbstractSolver, as_solver
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..result import Result, first_code
from ..retractions import Retracted, SecondOrder, Straight
from ..schemes.base import AbstractMethod
from ..state import Info
from .coordinates import scale, turning
from .losses import LossWindow
from .trust import Trust

TRIES = 8
"""The number of dampings that are tried with one factorisation, each ten times the last."""
DECREASE = 1e-4
"""The share of the predicted decrease that a step must bring, below the highest loss in window."""
STRAIGHT = 0.3
"""A path that bends less than this is so straight that the damping may shrink."""

SELDOM = 4.0
"""Speeds are measured again when the total bending exceeds this multiple of its value at the last measurement."""


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
    window: LossWindow
    trust: Trust
    k: jax.Array


class Trial(eqx.Module):
    """A step that was tried."""

    moved: Retracted
    loss: jax.Array
    predicted: jax.Array
    """The decrease that the Gauss-Newton model promises."""
    residual: jax.Array
    """The relative residual of its linear system, where the solver has no spectrum."""

    @classmethod
    def none(cls, theta: Vector) -> "Trial":
        """Before anything was tried."""
        zero = jnp.zeros((), theta.dtype)
        return cls(Retracted(jnp.zeros_like(theta), jnp.zeros_like(theta), zero, zero), zero, zero, zero)


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
    factorisation: AbstractSolver = eqx.field(converter=as_solver, default=None)

    def init(self, theta: Vector) -> AutoState:
        """Nothing is known yet."""
        one = jnp.ones((), theta.dtype)
        window, trust = LossWindow.start(theta), Trust.start(theta.dtype)
        return AutoState(jnp.zeros_like(theta), 0 * one, 0 * one, one, window, trust, jnp.ones((), int))

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points of the loss."""
        return draw_sample(loss, D, theta, key, GaussNewton())

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        """Auto shortens its own steps."""
        return self

    @property
    def solver(self) -> AbstractSolver:
        """The solver of its scaled rows."""
        return self.factorisation

    def solving(self, solver: AbstractSolver) -> AbstractMethod:
        """Auto with another solver of its scaled rows."""
        return dataclasses.replace(self, factorisation=solver)

    @property
    def inner_products(self) -> dict[str, AbstractMetric]:
        """Gauss-Newton."""
        return {"W": GaussNewton()}

    def at_rest(self, theta: Vector, state: AutoState) -> AutoState:
        """There is no momentum to drop."""
        return state

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Vector, AutoState, Info]:
        """One Jacobian, one factorisation; where speeds are due, a JVP of the rows. Dampings are tried in turn."""
        rounding = jnp.finfo(theta.dtype)
        at = linearise(loss, D, theta, sample, chunk=self.solver.points_at_once)
        covector = at.covector(at.slopes)
        space, speed, measured = self._space(at, covector, state)
        parts = space.split(at, at.slopes)
        floor = space.factors.noise + rounding.tiny
        # What a full Gauss-Newton step is predicted to gain.
        gain = space.filtered(Shift(floor)).representer_norm(*parts) ** 2 / 2
        noise = 4 * rounding.eps * at.magnitude
        stationary = gain <= rounding.eps**0.75 * noise
        stranded = stationary & (state.window.lowest < -noise)
        retreat = state.window.exhausted | stranded
        highest = at.loss + state.window.allowance + noise
        trust = state.trust.after_new_points(at.loss) if loss.drawn else state.trust

        def attempt(shift: jax.Array) -> Trial:
            damped = space.filtered(Shift(shift))
            g = damped.solve(*parts)
            moved = self.retraction(at, damped, -g)
            predicted = -(covector @ moved.delta) - space.norm(moved.delta) ** 2 / 2
            has_spectrum = space.factors.eigenvalues is not None
            residual = jnp.full((), jnp.nan, g.dtype) if has_spectrum else damped.residual(g, covector)
            return Trial(moved, loss.value(D(moved.theta), sample.terms), predicted, residual)

        def good(trial: Trial) -> jax.Array:
            finite = jnp.all(jnp.isfinite(trial.moved.theta)) & jnp.isfinite(trial.loss)
            return finite & (trial.loss <= highest - DECREASE * trial.predicted)

        def unfinished(carry: Any) -> jax.Array:
            tries, trial = carry
            return ~retreat & ((tries == 0) | (~good(trial) & (tries < TRIES)))

        # Straight paths do not ease the damping of a step that fits its own points only.
        factor = jnp.where(trust.caution > 1, trust.caution * jnp.maximum(state.damping, 1), state.damping)
        shift = factor * gain / (2 * theta.size * self.radius**2)
        first = jnp.maximum(shift, floor).astype(theta.dtype)
        harder = lambda carry: (carry[0] + 1, attempt(first * _tenfold(carry[0], theta.dtype)))
        tries, trial = jax.lax.while_loop(unfinished, harder, (jnp.zeros((), int), Trial.none(theta)))

        accepted = ~retreat & good(trial)
        # Not finite however damped: derivatives here are not. The safeguard sees such a trial, and counts it.
        lost = ~retreat & ~jnp.all(jnp.isfinite(trial.moved.theta))
        window = _choose(
            (accepted, state.window.moved(trial.moved.theta, trial.loss - at.loss, noise)),
            (retreat, state.window.retreated()),
            (lost, state.window),
            (True, state.window.stayed()),
        ).settling(stationary & ~stranded)
        back, still = (Straight()(at, None, delta) for delta in (state.window.best - theta, jnp.zeros_like(theta)))
        moved = _choose((accepted | lost, trial.moved), (retreat, back), (True, still))
        damping = _choose(
            (retreat, 10 * jnp.maximum(state.damping, 1)),
            (True, _controlled(state.damping, tries, accepted, trial.moved.bending)),
        )
        gradient = Representer(jnp.zeros_like(theta), space.rank, trial.residual)
        info = Info.of(at, covector, gradient, moved, jnp.ones((), theta.dtype))
        meaningless = gain <= noise + rounding.eps * window.fall
        ends = [
            # Without a tangent space there is nothing to gain either, but that is not convergence.
            (info.rank == 0, Result.RUNNING),
            (window.has_settled, Result.CONVERGED_GRADIENT),
            (window.stuck & meaningless, Result.CONVERGED_LOSS),
            (window.stuck, Result.STAGNATED),
        ]
        info = eqx.tree_at(lambda info: (info.accepted, info.end), info, (accepted | retreat, first_code(ends)))
        turned = state.turned + moved.scale * moved.bending
        trust = trust.after_step(jnp.where(accepted, at.loss - trial.loss, 0))
        return moved.theta, AutoState(speed, turned, measured, damping, window, trust, state.k + 1), info

    def _space(self, at: Linearisation, covector: Vector, state: AutoState) -> tuple[TangentSpace, Vector, jax.Array]:
        """The tangent space in scaled coordinates, the speeds that scale it, and when they were measured.

        Speeds are measured at the start and each time that paths have bent four times as much as at the last
        measurement: they matter most while the tangent space is new, and measuring costs more than the Jacobian.
        """
        blocks = GaussNewton().blocks(at, None)
        psi = rows_of(at.D, at.theta, blocks, at.chunk)
        sizes = psi.norms()

        def measure() -> jax.Array:
            now = turning(at, blocks, sizes, jnp.sign(covector))
            return jnp.where(state.k == 1, now, jnp.sqrt((state.speed**2 + now**2) / 2))

        due = (state.k == 1) | (state.turned > SELDOM * state.measured)
        speed = jax.lax.cond(due, measure, lambda: state.speed)
        measured = jnp.where(due, state.turned, state.measured)
        r, _ = split(blocks, at.slopes)
        residual = jnp.zeros((), speed.dtype) if r is None else jnp.linalg.norm(r)
        S = scale(sizes, at.theta, residual, speed)
        least = Shift(jnp.finfo(at.theta.dtype).tiny)
        return TangentSpace.of(blocks, psi, self.solver, least, S), speed, measured


def _tenfold(times: jax.Array, dtype: Any) -> jax.Array:
    return jnp.asarray(10.0, dtype) ** times.astype(dtype)


def _choose(*cases: tuple[Any, Any]) -> Any:
    """The first value whose condition holds."""
    (condition, value), *rest = cases
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), value, _choose(*rest)) if rest else value


def _controlled(damping: jax.Array, tries: jax.Array, accepted: jax.Array, bending: jax.Array) -> jax.Array:
    """The factor on lambda after a step: what rejections raised is kept, then eased towards 1, or less if straight."""
    rounding = jnp.finfo(damping.dtype)
    raised = damping * _tenfold(jnp.maximum(tries - 1, 0), damping.dtype)
    eased = jnp.where(tries > 1, raised, jnp.maximum(damping / 3, 1))
    straight = raised * jnp.clip(bending / STRAIGHT, 1 / 3, 3)
    return jnp.clip(
        jnp.where(accepted, jnp.minimum(eased, straight), 10 * raised), rounding.tiny**0.5, rounding.eps**-2
    )
