"""The safeguard: a wrapper round any method that undoes steps to where the loss is not a number."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._geometry.linearise import Sample
from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector
from .choose import choose
from .schemes import AbstractMethod
from .state import Info

SHORTEN = 0.1
"""A rejected step is tried again with a tenth of its step size ..."""
RECOVER = 2.0
"""... which doubles with every accepted one, until it is the method's own again."""


class GuardedState(eqx.Module):
    """The method's state, how far its steps are shortened, and how many in a row were rejected."""

    inner: Any
    factor: jax.Array
    failures: jax.Array


class GuardedInfo(eqx.Module):
    """The step's info, and the loss at the trial on the step's own points."""

    info: Info
    trial_loss: jax.Array


class Safeguard(eqx.Module):
    """Reject non-finite trials: stay, drop the momentum, shorten the step.

    Growth of the loss is never undone: it belongs to the method.
    """

    method: AbstractMethod

    def init(self, theta: Vector) -> GuardedState:
        """The method's own start, at full length."""
        return GuardedState(self.method.init(theta), jnp.ones((), theta.dtype), jnp.zeros((), int))

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The method's own draw."""
        return self.method.draw(loss, D, theta, key)

    def elsewhere(self, theta: Vector, state: GuardedState) -> GuardedState:
        """The state where the loss is no longer what it was, or theta was moved: at full length."""
        inner = self.method.elsewhere(theta, state.inner)
        return GuardedState(inner, jnp.ones_like(state.factor), jnp.zeros_like(state.failures))

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: GuardedState, sample: Sample
    ) -> tuple[Vector, GuardedState, GuardedInfo]:
        """The method's step if the loss is finite where it leads, else no step."""
        trial, inner, info = self.method.shortened(state.factor).step(loss, D, theta, state.inner, sample)
        trial_loss = loss.value(D(trial), sample.terms) if info.trial_loss is None else info.trial_loss
        finite = jnp.isfinite(trial_loss) & jnp.all(jnp.isfinite(trial)) & jnp.isfinite(info.alpha)

        good = GuardedState(inner, jnp.minimum(state.factor * RECOVER, 1.0), jnp.zeros_like(state.failures))
        bad = GuardedState(self.method.at_rest(theta, state.inner), state.factor * SHORTEN, state.failures + 1)
        info = eqx.tree_at(
            lambda info: (info.step_norm, info.accepted, info.shortened),
            info,
            (jnp.where(finite, info.step_norm, 0.0), finite & info.accepted, info.shortened | (state.factor < 1)),
        )
        theta, state = choose((finite, (trial, good)), (True, (theta, bad)))
        return theta, state, GuardedInfo(info, trial_loss)
