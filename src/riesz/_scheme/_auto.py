"""Auto: curvature-limited Gauss-Newton steps with nothing to tune."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._factorise import Scaled
from .._features import features
from .._filters import Shift
from .._frame import Frame, Sample, draw_sample
from .._inner_product import GaussNewton
from .._integral import AbstractLoss
from .._retraction import Landing, SecondOrder, Straight
from .._state import Info
from .._tangent import Block, lift
from .._types import Parametrisation, Vector
from ._base import AbstractMethod, narrate
from ._memory import Memory

TRIES = 8
"""So many dampings are tried with one factorisation, each ten times the last."""
DECREASE = 1e-4
"""The share of the predicted decrease that a step must bring."""
STRAIGHT = 0.1
"""Below this ratio |a|/|delta| the path is so straight that the damping may shrink."""


class AutoState(eqx.Module):
    """What auto carries from step to step."""

    bends: jax.Array
    """For every parameter, how fast its tangent function turns: an average of squares."""
    damping: jax.Array
    """The factor on lambda that acceptance and curvature control."""
    memory: Memory
    k: jax.Array


class Trial(eqx.Module):
    """A step that was tried."""

    landing: Landing
    loss: jax.Array
    predicted: jax.Array


class Auto(AbstractMethod):
    """The method of `riesz.auto`."""

    radius: jax.Array = eqx.field(converter=_check.leaf, default=1.0)
    retraction: SecondOrder = eqx.field(default_factory=lambda: SecondOrder(0.75, 2))

    def init(self, theta: Vector) -> AutoState:
        """Nothing is known yet."""
        return AutoState(jnp.zeros_like(theta), jnp.ones((), theta.dtype), Memory.start(theta), jnp.ones((), int))

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points of the loss."""
        return draw_sample(loss, D, theta, key, GaussNewton())

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        """Auto shortens its own steps."""
        return self

    def at_rest(self, theta: Vector, state: AutoState) -> AutoState:
        """There is no momentum to drop."""
        return state

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: AutoState, sample: Sample
    ) -> tuple[Vector, AutoState, Info]:
        """One Jacobian and one factorisation; dampings are tried until a step is accepted."""
        epsilon, tiny = jnp.finfo(theta.dtype).eps, jnp.finfo(theta.dtype).tiny
        plain = Frame(loss, D, theta, sample, W=GaussNewton(), filter=Shift(tiny))
        blocks = GaussNewton().blocks(plain, None)
        norms = _norms([block.weigh(block.features.rows) for block in blocks])
        covector = plain.covector(plain.differential)
        direction = jnp.sign(covector) / jnp.where(norms > 0, norms, jnp.inf)
        bends = _averaged(state.bends, _bends(plain, blocks, direction), state.k == 1)
        here = plain.replace(Shift(tiny), Scaled(_scale(bends, norms, lift(blocks, plain.differential)[0])))
        largest = jnp.max(here.W.factorised.eigenvalues)
        floor = epsilon**2 * largest + tiny
        # Half the squared norm of grad L: what a full Gauss-Newton step is predicted to gain.
        gain = here.W.norm(here.replace(Shift(floor)).gradient) ** 2 / 2
        noise = 4 * epsilon * _magnitude(here)
        allowed = here.value + state.memory.allowance + noise
        nothing_to_gain, above_the_best = gain <= epsilon**0.75 * noise, state.memory.lowest < -noise
        retreat = state.memory.exhausted | (nothing_to_gain & above_the_best)

        def attempt(shift: jax.Array) -> Trial:
            damped = here.replace(Shift(shift))
            delta = -damped.gradient
            landing = self.retraction(damped, delta)
            predicted = -(covector @ landing.delta + here.W.norm(landing.delta) ** 2 / 2)
            return Trial(landing, loss.value(D(landing.theta), sample.terms), predicted)

        def good(trial: Trial) -> jax.Array:
            finite = jnp.all(jnp.isfinite(trial.landing.theta))
            return finite & (trial.loss <= allowed - DECREASE * trial.predicted)

        def unfinished(carry: Any) -> jax.Array:
            tries, trial = carry
            return ~retreat & ((tries == 0) | (~good(trial) & (tries < TRIES)))

        # |S delta|^2 <= gain / (2 lambda): with this lambda its root mean square is at most the radius.
        first = jnp.maximum(state.damping * gain / (2 * self.radius**2 * theta.size), floor)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(attempt, first))
        tries, trial = jax.lax.while_loop(
            unfinished, lambda carry: (carry[0] + 1, attempt(first * 10.0 ** carry[0])), (0, nothing)
        )
        accepted = ~retreat & good(trial)
        memory = _choose(
            (accepted, state.memory.moved(trial.landing.theta, trial.loss - here.value, noise)),
            (retreat, state.memory.retreated()),
            (True, state.memory.stayed()),
        ).settling(nothing_to_gain & ~above_the_best)
        still = Straight()(here, jnp.zeros_like(theta))
        back = Straight()(here, state.memory.best - theta)
        landing = _choose((accepted, trial.landing), (retreat, back), (True, still))
        damping = jnp.where(
            retreat,
            10.0 * jnp.maximum(state.damping, 1),
            _controlled(state.damping, tries, accepted, trial.landing.bending),
        )
        info = narrate(here, here.W, covector, landing, jnp.ones((), theta.dtype))
        info = eqx.tree_at(lambda info: (info.accepted, info.converged), info, (accepted | retreat, memory.ended))
        return landing.theta, AutoState(bends, damping, memory, state.k + 1), info


def _choose(*cases: tuple[Any, Any]) -> Any:
    """The first value whose condition holds."""
    (condition, value), *rest = cases
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), value, _choose(*rest)) if rest else value


def _norms(rows: list[jax.Array]) -> jax.Array:
    """The norms of the columns."""
    return jnp.sqrt(sum(jnp.sum(part**2, axis=0) for part in rows))


def _bends(frame: Frame, blocks: tuple[Block, ...], direction: Vector) -> jax.Array:
    r"""How fast every tangent function turns, $t_i = |\sum_j \sigma_j\, \partial_j \psi_i / |\psi_j|\,| / \sqrt d$.

    One probe of $t_i^2 = \frac1d \sum_j |\partial_j \psi_i|^2 / |\psi_j|^2$, along a direction that moves the function
    equally by every parameter, with the signs of the gradient. It scales as $1/\theta_i$ does; for a linear model it is 0.
    """

    def turned(block: Block) -> jax.Array:
        rows = lambda theta: features(frame.D, block.operator, theta, block.over.x).rows
        return block.weigh(jax.jvp(rows, (frame.theta,), (direction,))[1])

    bends = _norms([turned(block) for block in blocks]) / frame.theta.size**0.5
    return jnp.where(jnp.isfinite(bends), bends, 0)


def _averaged(past: jax.Array, new: jax.Array, first: jax.Array) -> jax.Array:
    """The root of the mean square with the past, which so fades by half each step."""
    return jnp.where(first, new, jnp.sqrt((past**2 + new**2) / 2))


def _scale(bends: jax.Array, norms: jax.Array, residual: jax.Array) -> jax.Array:
    """S = bends; where the model is linear, so little that damping is below rounding."""
    size = jnp.linalg.norm(residual)
    least = jnp.finfo(norms.dtype).eps ** 0.5 * norms / jnp.where(size > 0, size, 1)
    scale = jnp.hypot(bends, least)
    return jnp.where(scale > 0, scale, 1)


def _magnitude(frame: Frame) -> jax.Array:
    """sum_j w_j |l(z_j)|: what the rounding of the loss is measured by."""
    parts = zip(frame.loss.terms, frame.values, frame.sample.terms, strict=True)
    return jnp.sum(jnp.stack([term.magnitude(z, over) for term, z, over in parts]))


def _controlled(damping: jax.Array, tries: jax.Array, accepted: jax.Array, bending: jax.Array) -> jax.Array:
    """The factor on lambda after a step."""
    epsilon, tiny = jnp.finfo(damping.dtype).eps, jnp.finfo(damping.dtype).tiny
    raised = damping * 10.0 ** (tries - 1)
    eased = jnp.where(tries > 1, raised, jnp.maximum(damping / 3, 1))
    straight = raised * jnp.clip(bending / STRAIGHT, 1 / 3, 3)
    return jnp.clip(jnp.where(accepted, jnp.minimum(eased, straight), 10 * raised), tiny**0.5, epsilon**-2)
