"""What a method carries from one step to the next, and what a step tells about itself."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._geometry.linearise import Linearisation
from .._geometry.tangent import Representer
from .._types import Vector
from .retractions import Retracted


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


def _column(kind: type) -> Any:
    """A field of a step's info that is a column of the history, with the type of its entries."""
    return dataclasses.field(metadata={"column": kind})


class Info(eqx.Module):
    """Only what a plot needs."""

    loss: jax.Array
    """L(theta_k), before the step."""
    end: jax.Array
    """The code of the `Result` with which the method itself wants to end the run; 0, RUNNING, to go on."""
    shortened: jax.Array
    """Whether the step is shorter than the method would have it, so that its length says nothing of convergence."""
    gradient_norm: jax.Array = _column(float)
    """The Euclidean norm of the covector that was represented."""
    step_norm: jax.Array = _column(float)
    """|theta_{k+1} - theta_k|."""
    alpha: jax.Array = _column(float)
    scale: jax.Array = _column(float)
    """The factor by which the retraction shortened the displacement."""
    rank: jax.Array = _column(int)
    """Eigenvalues of G_W above eps; d for the classical methods; -1 where the solver has no spectrum."""
    solver_residual: jax.Array = _column(float)
    """The relative residual that a solver without a spectrum has reached; else NaN, and no column of the history."""
    accepted: jax.Array = _column(bool)
    """False where the step was undone."""
    phase: jax.Array = _column(int)
    """Which of its rules made the step, where a method has several: of auto 0 quick, 1 walk, 2 dive."""
    trial_loss: jax.Array | None = None
    """The loss where the step leads, on its own points; None where the method has not evaluated it."""

    @classmethod
    def of(cls, at: Linearisation, gradient: Representer, moved: Retracted, alpha: jax.Array) -> "Info":
        """What a step tells: where it moved from `at`, and how its covector was represented."""
        return cls(
            loss=at.loss,
            end=jnp.zeros((), int),
            shortened=jnp.asarray(False),
            gradient_norm=jnp.linalg.norm(gradient.covector),
            step_norm=jnp.linalg.norm(moved.theta - at.theta),
            alpha=alpha,
            scale=moved.scale,
            rank=gradient.rank,
            solver_residual=gradient.residual,
            accepted=jnp.asarray(True),
            phase=jnp.zeros((), int),
        )


STEP_COLUMNS: dict[str, type] = {
    field.name: field.metadata["column"] for field in dataclasses.fields(Info) if "column" in field.metadata
}
"""The columns of the history that have an entry for every step, with the types of their entries."""
