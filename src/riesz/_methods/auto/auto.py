"""Auto: quick steps, then long ones, with nothing to tune."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._geometry.assembly import rows_of
from ..._geometry.inner_products import AbstractMetric, BoundedGaussNewton, GaussNewton, draw_sample
from ..._geometry.linearise import Sample, linearise
from ..._geometry.rows import Block
from ..._geometry.tangent import Representer, TangentSpace, covector_of
from ..._linalg.filters import Shift
from ..._linalg.rows import AbstractRows
from ..._linalg.solvers import QRSVD, AbstractSolver, ConjugateGradients, as_solver
from ..._linalg.solvers.singular_values import SingularValues
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..choose import choose
from ..result import Result, code, first_code
from ..retractions import Straight
from ..schemes.base import AbstractMethod
from ..state import Info
from .box import Box
from .long_steps import QUICK, WALK, LongSteps, Walk
from .losses import LossWindow
from .pace import Pace
from .quick_steps import QuickState, QuickSteps
from .view import Outcome, View, rounding_of

VANISHED = 1e3
"""A loss of at most this multiple of what rounding of parameters and values makes of it has vanished, if it has fallen.

Where parameters have run so far that rounding moves the values by more than the density can tell, the loss is small
beside rounding, but has not fallen to it.
"""
HOPELESS = 5
"""Where the tangent space is empty for the first so many steps, the problem has none."""
DEEPER = 1e-6
"""A dive to less than this share of what the quick steps had found is the last word."""


class AutoState(eqx.Module):
    """What auto carries from step to step."""

    quick: QuickState
    walk: Walk
    phase: jax.Array
    """Which steps are made: the quick ones, or the walk or the dive of the long ones."""
    leaving: jax.Array
    """Whether the next step goes to where the walk stands, or back to where the quick steps were best."""
    left: jax.Array
    """The lowest loss of the quick steps when the long ones began; infinite before."""
    ceiling: jax.Array
    """What a loss that vanishes has fallen below: a small share of its first value, unless that had vanished too."""
    k: jax.Array


class Auto(AbstractMethod):
    r"""$v_{k+1} = R[v_k + \psi^T \delta_k]$ with $(G + \lambda_k S^2)\, \delta_k = -\nabla L(\theta_k)$.

    G is the Gram matrix of the loss's own metric: Gauss-Newton, raised where a point would promise more than its loss.
    Quick steps solve most problems in tens of steps. Where the loss could vanish, but they make slow progress, the run
    begins again at its start with long steps, which take longer and reach every digit. What is returned is the best of
    both.
    """

    quick: QuickSteps = eqx.field(default_factory=QuickSteps)
    long: LongSteps | None = eqx.field(default_factory=LongSteps)
    """None for quick steps alone."""
    factorisation: AbstractSolver = eqx.field(converter=as_solver, default=None)
    box: Box | None = None
    """Bounds on the parameters, within which there are quick steps alone."""

    def __check_init__(self):
        if isinstance(self.factorisation, ConjugateGradients):
            raise ValueError(
                "factorisation must not be ConjugateGradients() for auto, whose damping falls to rounding, where "
                "they do not converge: take riesz.Cholesky(chunk=1024), or riesz.spring(filter=riesz.Shift(1e-3))."
            )

    def init(self, theta: Vector) -> AutoState:
        """Nothing is known yet."""
        none, inf = jnp.zeros((), int), jnp.full((), jnp.inf, theta.dtype)
        long = LongSteps() if self.long is None else self.long
        walk = Walk.start(theta, jnp.asarray(long.edge), long.stretch)
        return AutoState(QuickState.start(theta), walk, none + QUICK, jnp.asarray(False), inf, inf, none + 1)

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
        """The same state with its momentum dropped."""
        return eqx.tree_at(lambda state: state.quick.last, state, jnp.zeros_like(theta))

    def elsewhere(self, theta: Vector, state: AutoState) -> AutoState:
        """The same state where somebody else has moved theta, or changed the loss: losses on the way are forgotten.

        Quick steps are tried once more, because new points may have set them free.
        """
        rests, fresh = self.at_rest(theta, state), self.init(state.walk.first)
        window = eqx.tree_at(lambda window: window.first, LossWindow.start(theta), state.quick.window.first)
        quick = dataclasses.replace(rests.quick, window=window, pace=Pace.start(theta, state.k - 1))
        return dataclasses.replace(fresh, quick=quick, ceiling=state.ceiling, k=state.k)

    def goes_on(self, loss: AbstractLoss) -> bool:
        """Whether long steps may follow: on fixed points, without bounds, with singular values down to rounding."""
        return self.long is not None and self.box is None and isinstance(self.solver, QRSVD) and not loss.drawn

    def notes(self, loss: AbstractLoss, result: Result, history: dict[str, np.ndarray]) -> tuple[str, ...]:
        """How far the loss had fallen where a run stagnates; where long steps began, or why there were none."""
        notes, losses, stagnated = (), history["loss"], result is Result.STAGNATED
        lowest, first = float(losses.min()), float(losses[0])
        if stagnated and not loss.drawn and first > 0 and 0 <= lowest <= np.finfo(losses.dtype).eps * first:
            notes += (
                f"The loss fell to {lowest / first:.0e} of its first value, which may be all that rounding leaves.",
            )
        if self.long is None:
            return notes
        if not self.goes_on(loss):
            needed = ((loss.drawn, "fixed points"), (self.box is not None, "parameters without bounds"))
            why = next((what for lacks, what in needed if lacks), "factorisation=riesz.QRSVD()")
            return notes + ((f"Long steps, which may find more digits, need {why}.",) if stagnated else ())
        began = np.flatnonzero(history["phase"] == WALK)
        if not began.size:
            return notes
        best = int(np.argmin(losses))
        found = "quick" if best == 0 or history["phase"][min(best, history["phase"].size) - 1] == QUICK else "long"
        told = f"Quick steps were slow, so long steps began at step {began[0]}; the best was found by {found} ones."
        return (*notes, told)

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Vector, AutoState, Info]:
        """One Jacobian, one factorisation; where speeds are due, a JVP of the rows."""
        view, state = self._look(loss, D, theta, state, sample)
        if self.goes_on(loss):
            rules = (lambda: self._quick(view, state), lambda: self._long(view, state), lambda: _back(view, state))
            number = jnp.where(state.leaving, 2, jnp.where(state.phase == QUICK, 0, 1))
            outcome, after = jax.lax.switch(number, rules)
        else:
            outcome, after = self._quick(view, state)
        gradient = Representer(jnp.zeros_like(theta), view.covector, view.space.rank, outcome.residual)
        info = Info.of(view.at, gradient, outcome.moved, jnp.ones((), theta.dtype))
        # With no tangent space from the start there is nothing to gain either, but that is not convergence; where a
        # step has climbed to such a place, the next one goes back.
        here = (state.phase == QUICK) & (state.quick.window.lowest >= 0) & (not loss.drawn)
        here = here if view.free is None else here & jnp.any(view.free)
        vain = first_code([
            (state.k <= HOPELESS, Result.RUNNING),
            (info.gradient_norm**2 == 0, Result.CONVERGED_GRADIENT),
            (state.k > HOPELESS, Result.STAGNATED),
        ])  # fmt: skip
        there = outcome.moved.theta
        info = dataclasses.replace(
            info,
            accepted=outcome.accepted,
            end=jnp.where((info.rank == 0) & here, vain, outcome.end),
            phase=state.phase,
            shortened=outcome.shortened,
            trial_loss=jax.lax.cond(jnp.isnan(outcome.loss), lambda: view.value(there), lambda: outcome.loss),
        )
        return there, dataclasses.replace(after, k=state.k + 1), info

    def _look(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[View, AutoState]:
        """What is known at theta; rows are in scaled coordinates for quick steps, and as they are for long ones."""
        at = linearise(loss, D, theta, sample, chunk=self.solver.points_at_once)
        blocks = BoundedGaussNewton(state.quick.share).blocks(at, None)
        psi = rows_of(D, theta, blocks, at.chunk)
        covector = covector_of(at, blocks, psi, at.slopes)
        is_quick = state.phase == QUICK
        S, quick = self.quick.scaled(at, blocks, psi, covector, state.quick, state.k == 1, loss.drawn)
        psi, S = psi.in_coordinates(S)
        free, movable = None if self.box is None else self.box.free(theta, covector), psi
        if free is not None:
            # Held parameters have no tangent function: their rows vanish.
            covector, movable = jnp.where(free, covector, 0), psi.scaled(jnp.where(free, 1, jnp.inf))
        space = self._factorised(blocks, movable, jnp.where(is_quick, S, 1), is_quick, free, sample.key)
        rounding = rounding_of(at, space, psi)
        tiny = at.positive & (at.magnitude <= VANISHED * rounding)
        first = jnp.where(tiny, jnp.inf, jnp.finfo(theta.dtype).eps ** 0.5 * at.magnitude)
        ceiling = jnp.where(state.k == 1, first, state.ceiling)
        fallen = at.magnitude <= ceiling
        vanished = tiny & fallen & (not loss.drawn)
        view = View(loss, sample.terms, at, covector, space, rounding, vanished, fallen, self.box, free)
        return view, dataclasses.replace(state, quick=quick, ceiling=ceiling)

    def _factorised(
        self,
        blocks: tuple[Block, ...],
        psi: AbstractRows,
        scale: jax.Array,
        is_quick: jax.Array,
        free: jax.Array | None,
        key: Any,
    ) -> TangentSpace:
        """The tangent space, of which quick steps see what is resolved: noise must not add to what can be gained.

        A long step is held back by its length.
        """
        least = Shift(jnp.finfo(psi.dtype).tiny)
        space = TangentSpace.of(blocks, psi, self.solver.fresh(key), least, scale)
        factors = space.factors
        if not isinstance(factors, SingularValues):
            return space
        eps, squared = float(jnp.finfo(psi.dtype).eps), any(block.form.squared for block in blocks)
        resolved = factors.resolved(eps**0.5 if squared else eps)
        s, null = jnp.where(is_quick, resolved.s, factors.s), jnp.where(is_quick, resolved.null, factors.null)
        if free is not None and factors.tall:
            # Singular vectors of held parameters have lengths that are all rounding, beside columns that are zero.
            s = jnp.where(jnp.sum(jnp.where(free[:, None], 0, factors.V) ** 2, axis=0) > 0.5, 0, s)
        return dataclasses.replace(space, factors=dataclasses.replace(factors, s=s, null=null))

    def _quick(self, view: View, state: AutoState) -> tuple[Outcome, AutoState]:
        """A quick step; where these are slow though the loss could vanish, the next step leaves for the walk.

        So it does where a quadratic loss has fallen as deep as one that vanishes, and the run would end unconverged.
        """
        outcome, quick, slow = self.quick.move(view, state.quick, state.k, jnp.isfinite(state.left))
        lowest = view.at.loss + state.quick.window.lowest
        gives_up = (outcome.end == code(Result.STAGNATED)) | (outcome.end == code(Result.UNBOUNDED))
        if view.at.quadratic:  # others may vanish at infinity alone, as those of classes that can be separated do
            slow |= gives_up & view.at.positive & (lowest <= state.ceiling)
        leaving = slow & ~view.vanished & ~jnp.isfinite(state.left) & self.goes_on(view.loss)
        outcome = eqx.tree_at(lambda outcome: outcome.end, outcome, jnp.where(leaving, 0, outcome.end))
        left = jnp.where(leaving, lowest, state.left)
        return outcome, dataclasses.replace(state, quick=quick, leaving=leaving, left=left)

    def _long(self, view: View, state: AutoState) -> tuple[Outcome, AutoState]:
        """A step of the walk or of a dive; unless the dives were deeper by far, quick steps have the last word."""
        assert self.long is not None
        outcome, phase, walk, back = self.long.move(view, state.phase, state.walk)
        returns = (outcome.end != 0) & ~view.vanished & (view.at.loss > DEEPER * state.left)
        outcome = eqx.tree_at(lambda outcome: outcome.end, outcome, jnp.where(returns, 0, outcome.end))
        phase = jnp.where(returns, QUICK, phase)
        return outcome, dataclasses.replace(state, phase=phase, walk=walk, leaving=back | returns)


def _back(view: View, state: AutoState) -> tuple[Outcome, AutoState]:
    """The step to where the walk stands; where the walks are over, to where the quick steps were best."""
    window, theta = state.quick.window, view.at.theta
    over = (state.phase == QUICK) & state.walk.again
    there = jnp.where(over, window.best, state.walk.theta)
    quick = dataclasses.replace(state.quick, window=choose((over, window.retreated()), (True, window)))
    phase = jnp.where(over, QUICK, WALK).astype(state.phase.dtype)
    yes, nan = jnp.asarray(True), jnp.full((), jnp.nan, theta.dtype)
    outcome = Outcome(Straight()(view.at, None, there - theta), nan, yes, jnp.zeros((), int), yes, nan)
    return outcome, dataclasses.replace(state, phase=phase, quick=quick, leaving=jnp.asarray(False))
