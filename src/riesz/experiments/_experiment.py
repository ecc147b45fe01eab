"""What an experiment of the paper is: a loss, a model class, random starts, the error it reports and when it stops."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from .._problem.integral import AbstractLoss


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
