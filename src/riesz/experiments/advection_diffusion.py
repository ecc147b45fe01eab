"""A linear advection-diffusion equation, -mu u'' + u' = 1 on [0, 1] with u(0) = u(1) = 0, mu = 0.2 (section 5.4.1).

The network has layers 1-5-5-1 with tanh activation and is multiplied by x (1 - x).

The exact solution is u(x) = x - (e^(x/mu) - 1) / (e^(1/mu) - 1); the formula printed in the paper does not solve the
equation. The threshold at which the paper stops is not stated: we take a mean squared residual of 1e-10.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.models import mlp
from .._problem.operators import derivative
from .._types import Function, Parametrisation, Vector
from ._experiment import Experiment
from ._pde import pde_experiment


def exact(x: Any, mu: float = 0.2) -> Any:
    """u(x)."""
    return x - jnp.expm1(x / mu) / jnp.expm1(1 / mu)


def operator(v: Function, mu: float = 0.2) -> Function:
    """A v = -mu v'' + v'."""
    slope = derivative(v)
    return lambda x: -mu * derivative(slope)(x) + slope(x)


def source(x: Any) -> Any:
    """The source f = 1."""
    return jnp.ones_like(x)


class Model(eqx.Module):
    """D(theta)(x) = x (1 - x) NN(x), which vanishes at both ends."""

    network: Parametrisation

    def __call__(self, theta: Vector) -> Function:
        """The function with these parameters."""
        v = self.network(theta)
        return lambda x: x * (1 - x) * v(x)


def experiment(threshold: float = 1e-10, max_steps: int = 400) -> Experiment:
    """The problem; `threshold` is on the mean squared residual, which is twice the loss."""
    network, theta = mlp(jax.random.key(0), (1, 5, 5, 1), activation="tanh")
    return pde_experiment(
        "advection-diffusion",
        "Advection-diffusion",
        Model(network),
        theta.size,
        operator,
        source,
        exact,
        (0.0, 1.0),
        threshold,
        max_steps,
    )
