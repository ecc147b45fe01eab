"""What the two PDE problems of section 5.4 share: residual loss, errors against the exact solution."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.integral import AbstractLoss
from .._problem.losses import residual
from .._problem.measures import grid
from .._types import Function, Operator, Parametrisation, Vector
from ._experiment import Experiment, MeanSquaredError


class Residual(eqx.Module):
    """theta -> the square root of the mean of (A D(theta) - f)^2 over points x with sources f."""

    D: Parametrisation
    operator: Operator
    x: jax.Array
    f: jax.Array

    def __call__(self, theta: Vector) -> jax.Array:
        """The norm at theta."""
        return jnp.sqrt(jnp.mean((jax.vmap(self.operator(self.D(theta)))(self.x) - self.f) ** 2))


class TwiceTheLoss(eqx.Module):
    """theta -> the mean squared residual at the training points."""

    D: Parametrisation
    loss: AbstractLoss

    def __call__(self, theta: Vector) -> jax.Array:
        """2 L(theta)."""
        return 2 * self.loss(self.D(theta))


def pde_experiment(
    name: str,
    title: str,
    D: Parametrisation,
    size: int,
    operator: Operator,
    source: Function,
    exact: Function,
    domain: tuple[float, float],
    threshold: float,
    max_steps: int,
) -> Experiment:
    """Minimise the mean squared residual on 1000 equispaced points; measure errors on 10000.

    Weights are 1/m, so that the loss is half the *mean* squared residual whatever the length of the domain.
    """
    low, high = domain
    training = 1 / (high - low) * grid(low, high, 1000)
    x = jnp.linspace(low, high, 10000)
    solution, f = jax.vmap(exact)(x), jax.vmap(source)(x)
    loss = residual(operator, source, training)
    return Experiment(
        name=name,
        title=title,
        loss=loss,
        D=D,
        size=size,
        metrics={
            "solution_mse": MeanSquaredError(D, x, solution),
            "residual_norm": Residual(D, operator, x, f),
            "train_residual": TwiceTheLoss(D, loss),
        },
        error="solution_mse",
        error_against_time="residual_norm",
        labels={"solution_mse": "MSE of the solution", "residual_norm": "L2 norm of the residual"},
        target={"train_residual": threshold},
        max_steps=max_steps,
        settings={"threshold": threshold},
    )
