"""What an experiment of the paper is: a loss, a model class, random starts, the error it reports and when it stops.

Models and metrics are equinox modules, or functions of a module: two experiments of one problem then share the programs
that JAX has compiled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector


class MeanSquaredError(eqx.Module):
    """theta -> the mean of (D(theta)(x) - y)^2 over points x and values y."""

    D: Parametrisation
    x: jax.Array
    y: jax.Array

    def __call__(self, theta: Vector) -> jax.Array:
        """The error at theta."""
        return jnp.mean((jax.vmap(self.D(theta))(self.x) - self.y) ** 2)


@dataclass(frozen=True)
class Experiment:
    """One problem of section 5."""

    name: str
    title: str
    loss: AbstractLoss
    D: Callable[[Any], Any]
    size: int
    """The number d of parameters."""
    metrics: dict[str, Callable[[Any], Any]]
    """Functions of theta recorded at every iterate."""
    error: str
    """The metric that the paper's figure shows against iterations."""
    error_against_time: str
    """The metric that it shows against seconds."""
    labels: dict[str, str]
    """These two metrics in words, for an axis."""
    target: dict[str, float]
    """Stop when this metric is at most this; empty to make all steps."""
    max_steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    """What the paper leaves open, as it was chosen here."""

    def start(self, seed: int) -> jax.Array:
        """Standard normal parameters, as in the paper; the same for a seed whatever else is run."""
        return jax.random.normal(jax.random.key(seed), (self.size,))
