"""Optimisers of optax as methods, for context: Adam and L-BFGS see the same loss, starts, clock and stopping tests."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from .._geometry.linearise import Sample
from .._methods.schemes import AbstractMethod
from .._methods.state import Info
from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector


class Optax(AbstractMethod):
    """A gradient transformation of optax: theta + update(grad L)."""

    transformation: optax.GradientTransformationExtraArgs = eqx.field(
        static=True, converter=optax.with_extra_args_support
    )
    factor: Any = 1.0

    def init(self, theta: Vector) -> Any:
        """The transformation's own."""
        return self.transformation.init(theta)

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points of the loss."""
        return Sample(loss.draw(key, D, theta))

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: Any, sample: Sample
    ) -> tuple[Vector, Any, Info]:
        """One gradient, and for L-BFGS the evaluations of its line search."""
        L = lambda theta: loss.value(D(theta), sample.terms)
        value, gradient = jax.value_and_grad(L)(theta)
        update, state = self.transformation.update(gradient, state, theta, value=value, grad=gradient, value_fn=L)
        step = jnp.asarray(self.factor, theta.dtype) * jnp.asarray(update)
        info = Info(
            loss=value,
            gradient_norm=jnp.linalg.norm(gradient),
            step_norm=jnp.linalg.norm(step),
            alpha=jnp.asarray(self.factor, theta.dtype),
            scale=jnp.ones((), theta.dtype),
            rank=jnp.asarray(theta.size),
            solver_residual=jnp.full((), jnp.nan, theta.dtype),
            accepted=jnp.asarray(True),
            phase=jnp.zeros((), int),
            end=jnp.zeros((), int),
            shortened=jnp.asarray(False),
        )
        return theta + step, state, info

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        """The same transformation with shorter updates."""
        return eqx.tree_at(lambda method: method.factor, self, self.factor * factor)

    def at_rest(self, theta: Vector, state: Any) -> Any:
        """A new beginning."""
        return self.init(theta)
