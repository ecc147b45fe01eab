"""What the two PDE problems of section 5.4 share: residual loss, errors against the exact solution."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._problem.losses import residual
from .._problem.measures import grid
from .._types import Function, Operator
from ._experiment import Experiment


def pde_experiment(
    name: str,
    title: str,
    D: Callable[[Any], Function],
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

    def mean_squared_error(theta: Any) -> jax.Array:
        return jnp.mean((jax.vmap(D(theta))(x) - solution) ** 2)

    def test_residual(theta: Any) -> jax.Array:
        return jnp.mean((jax.vmap(operator(D(theta)))(x) - f) ** 2)

    def train_residual(theta: Any) -> jax.Array:
        return 2 * loss(D(theta))

    return Experiment(
        name=name,
        title=title,
        loss=loss,
        D=D,
        size=size,
        metrics={
            "solution_mse": mean_squared_error,
            "residual_norm": lambda theta: jnp.sqrt(test_residual(theta)),
            "train_residual": train_residual,
        },
        error="solution_mse",
        error_against_time="residual_norm",
        labels={"solution_mse": "MSE of the solution", "residual_norm": "L2 norm of the residual"},
        target={"train_residual": threshold},
        max_steps=max_steps,
        settings={"threshold": threshold},
    )
