"""Auto: quick steps, then long ones, with nothing to tune."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._geometry.inner_products import AbstractMetric, BoundedGaussNewton, GaussNewton, draw_sample
from ..._geometry.linearise import Linearisation, Sample, linearise
from ..._geometry.rows import rows_of
from ..._geometry.tangent import Representer, TangentSpace
from ..._linalg.filters import Shift
from ..._linalg.solvers import QRSVD, AbstractSolver, as_solver
from ..._linalg.solvers.qrsvd import SingularValues
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..choose import choose
from ..result import Result, first_code
from ..retractions import Retracted, Straight
from ..schemes.base import AbstractMethod
from ..state import Info
from .long_steps import QUICK, WALK, LongSteps, Walk
from .quick_steps import QuickState, QuickSteps

VANISHED = 1e3
"""A loss of at most this multiple of what rounding of the parameters makes of it has vanished."""

HOPELESS = 5
"""Where the tangent space is empty for the first so many steps, the problem has none."""
DEEPER = 1e-6
"""A dive to less than this share of what the quick rule had found is the last word."""


class AutoState(eqx.Module):
    """What auto carries from step to step."""

    quick: QuickState
    walk: Walk
    phase: jax.Array
    """Which rule makes the steps: the quick one, or the walk or the dive of the long ones."""
    leaving: jax.Array
    """Whether the next step goes to where the walk stands, or back to the quick rule."""
    left: jax.Array
    """The lowest loss of the quick rule when the long steps began; infinite before."""
    k: jax.Array


class Move(eqx.Module):
    """What one of the rules has decided."""

    moved: Retracted
    state: AutoState
    accepted: jax.Array
    end: jax.Array
    """The code of the result with which the run ends here."""
    shortened: jax.Array
    """Whether the step was held back by more than what is left to gain."""
    residual: jax.Array
    """The relative residual of the linear system, where the solver has no spectrum."""


class Auto(AbstractMethod):
    r"""$v_{k+1} = R[v_k + \psi^T \delta_k]$ with $(G + \lambda_k S^2)\, \delta_k = -\nabla L(\theta_k)$.

    G is the Gram matrix of the loss's own metric: Gauss-Newton, raised where a point would promise more than its loss.
    Quick steps solve most problems in tens of steps. Where the loss could vanish, but they make slow progress, the run
    begins again at its start with long steps, which take longer and reach every digit. What is returned is the best of
    both.
    """

    quick: QuickSteps = eqx.field(default_factory=QuickSteps)
    long: LongSteps = eqx.field(default_factory=LongSteps)
    factorisation: AbstractSolver = eqx.field(converter=as_solver, default=None)

    def init(self, theta: Vector) -> AutoState:
        """Nothing is known yet."""
        none = jnp.zeros((), int)
        walk = Walk.start(theta, self.long.stretch)
        inf = jnp.full((), jnp.inf, theta.dtype)
        return AutoState(QuickState.start(theta), walk, none + QUICK, jnp.asarray(False), inf, none + 1)

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

    def goes_on(self, loss: AbstractLoss) -> bool:
        """Whether long steps may follow: on fixed points, with singular values down to rounding."""
        return isinstance(self.solver, QRSVD) and not loss.drawn

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Vector, AutoState, Info]:
        """One Jacobian, one factorisation; where speeds are due, a JVP of the rows."""
        at = linearise(loss, D, theta, sample, chunk=self.solver.points_at_once)
        covector = at.covector(at.slopes)
        space, state = self._space(loss, at, covector, state)
        # What rounding of the parameters alone makes of the loss: below it there is nothing to gain.
        rounding = jnp.finfo(theta.dtype).eps * theta * space.psi.norms()
        vanished = (at.magnitude <= VANISHED * jnp.sum(rounding**2)) & (not loss.drawn)
        quick = lambda: self._quick(loss, at, covector, space, state, sample, vanished)
        if self.goes_on(loss):
            long = lambda: self._long(loss, at, space, state, sample, vanished)
            back = lambda: _back(at, state)
            rule = jnp.where(state.leaving, 2, jnp.where(state.phase == QUICK, 0, 1))
            move = jax.lax.switch(rule, (quick, long, back))
        else:
            move = quick()
        gradient = Representer(jnp.zeros_like(theta), space.rank, move.residual)
        info = Info.of(at, covector, gradient, move.moved, jnp.ones((), theta.dtype))
        # With no tangent space from the start there is nothing to gain either, but that is not convergence.
        end = jnp.where((info.rank == 0) & (state.k <= HOPELESS), 0, move.end)
        told = lambda info: (info.accepted, info.end, info.phase, info.shortened)
        info = eqx.tree_at(told, info, (move.accepted, end, state.phase, move.shortened))
        return move.moved.theta, dataclasses.replace(move.state, k=state.k + 1), info

    def _space(
        self, loss: AbstractLoss, at: Linearisation, covector: Vector, state: AutoState
    ) -> tuple[TangentSpace, AutoState]:
        """The tangent space, in scaled coordinates for the quick rule and in those of the parameters for long steps."""
        blocks = BoundedGaussNewton(state.quick.share).blocks(at, None)
        psi = rows_of(at.D, at.theta, blocks, at.chunk)
        is_quick = state.phase == QUICK
        S, quick = self.quick.scaled(at, blocks, psi, covector, state.quick, state.k == 1, loss.drawn)
        S = jnp.where(is_quick, S, 1)
        space = TangentSpace.of(blocks, psi, self.solver, Shift(jnp.finfo(at.theta.dtype).tiny), S)
        factors = space.factors
        if isinstance(factors, SingularValues):
            # A long step is held back by its length, a quick one by what can be gained, which noise must not add to.
            s = jnp.where(is_quick, factors.resolved().s, factors.s)
            space = dataclasses.replace(space, factors=dataclasses.replace(factors, s=s))
        return space, dataclasses.replace(state, quick=quick)

    def _quick(
        self, loss: AbstractLoss, at: Linearisation, covector: Vector, space: TangentSpace, state: AutoState,
        sample: Sample, vanished: jax.Array,
    ) -> Move:  # fmt: skip
        """A quick step; where these are slow though the loss could vanish, the next step leaves for the walk."""
        moved, quick, accepted, end, slow, shortened, residual = self.quick.move(
            loss, at, covector, space, sample.terms, state.quick, state.k, vanished
        )
        leaving = slow & ~vanished & ~jnp.isfinite(state.left) & self.goes_on(loss)
        end = jnp.where(leaving, 0, end)
        left = jnp.where(leaving, at.loss + state.quick.window.lowest, state.left)
        state = dataclasses.replace(state, quick=quick, leaving=leaving, left=left)
        return Move(moved, state, accepted, end, shortened, residual)

    def _long(
        self, loss: AbstractLoss, at: Linearisation, space: TangentSpace, state: AutoState, sample: Sample,
        vanished: jax.Array,
    ) -> Move:  # fmt: skip
        """A step of the walk or of a dive."""
        moved, value, lower, walk = self.long.move(loss, at, space, sample.terms, state.phase, state.walk)
        phase, walk, leaving, over = self.long.after(moved.theta, value, state.phase, walk, vanished)
        # Unless the dives were deeper by far, the quick rule goes on from where it was best.
        returns = over & ~vanished & (jnp.minimum(walk.lowest, value) > DEEPER * state.left)
        end = first_code(
            [(returns, Result.RUNNING), (over & vanished, Result.CONVERGED_LOSS), (over, Result.STAGNATED)]
        )
        phase = jnp.where(returns, QUICK, phase)
        state = dataclasses.replace(state, phase=phase, walk=walk, leaving=leaving | returns)
        return Move(moved, state, lower, end, jnp.asarray(True), jnp.full((), jnp.nan, at.theta.dtype))


def _back(at: Linearisation, state: AutoState) -> Move:
    """The step to where the walk stands; where the walk is over, to where the quick rule was best."""
    over = (state.phase == QUICK) & jnp.isfinite(state.walk.lowest)
    there = jnp.where(over, state.quick.window.best, state.walk.theta)
    moved = Straight()(at, None, there - at.theta)
    phase = jnp.where(over, QUICK, WALK).astype(state.phase.dtype)
    window = state.quick.window
    quick = dataclasses.replace(state.quick, window=choose((over, window.retreated()), (True, window)))
    state = dataclasses.replace(state, phase=phase, quick=quick, leaving=jnp.asarray(False))
    yes = jnp.asarray(True)
    return Move(moved, state, yes, jnp.zeros((), int), yes, jnp.full((), jnp.nan, at.theta.dtype))
