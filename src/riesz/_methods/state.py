"""What a method carries from one step to the next, and what a step tells about itself."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Vector


class State(eqx.Module):
    """Only what the next step needs."""

    theta: jax.Array
    """theta_{k-1}."""
    delta: jax.Array
    """The tangent coefficients at theta_{k-1} that were actually taken."""
    alpha: jax.Array
    """alpha_{k-1} = h_{k-1}^2."""
    k: jax.Array
    """The number of the coming step, counted from 1."""

    @classmethod
    def start(cls, theta: Vector) -> "State":
        """Before the first step: no momentum."""
        return cls(theta, jnp.zeros_like(theta), jnp.ones((), theta.dtype), jnp.ones((), int))

    def at_rest(self, theta: Vector) -> "State":
        """The same state at theta with its momentum dropped."""
        return State(theta, jnp.zeros_like(self.delta), self.alpha, self.k)


class Info(eqx.Module):
    """Only what a plot needs."""

    loss: jax.Array
    """L(theta_k), before the step."""
    gradient_norm: jax.Array
    """The Euclidean norm of the covector that was represented."""
    step_norm: jax.Array
    """|theta_{k+1} - theta_k|."""
    alpha: jax.Array
    scale: jax.Array
    """The factor by which the retraction shortened the displacement."""
    rank: jax.Array
    """Eigenvalues of G_W above eps; d for the classical methods."""
    accepted: jax.Array
    """False where the step was undone."""
    end: jax.Array
    """The code of the `Result` with which the method itself wants to end the run; 0, RUNNING, to go on."""
