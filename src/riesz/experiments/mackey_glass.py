"""Mackey-Glass: predict a chaotic series six steps ahead from four of its past values (section 5.2).

z(t+1) = (1 - b) z(t) + a z(t - tau) / (1 + z(t - tau)^10), with a = 0.2, b = 0.1, tau = 17. The network has layers
4-10-1 with sigmoid activation; 500 pairs from t in [200, 700) train, 500 from [5000, 5500) test.

The paper does not state the history z(t) for t <= 0: we take the constant 1.2.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .._problem.losses import least_squares
from .._problem.measures import points
from .._problem.models import mlp
from ._experiment import Experiment, MeanSquaredError

DELAYS = (0, 6, 12, 18)
AHEAD = 6


def series(length: int, a: float = 0.2, b: float = 0.1, tau: int = 17, history: float = 1.2) -> np.ndarray:
    """z(0), ..., z(length - 1), with z(t) = history for t <= 0."""
    z = np.full(length + tau, history)  # z[tau + t] is z(t)
    for t in range(length - 1):
        delayed = z[t]
        z[tau + t + 1] = (1 - b) * z[tau + t] + a * delayed / (1 + delayed**10)
    return z[tau:]


def pairs(z: np.ndarray, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (z(t), z(t-6), z(t-12), z(t-18)) and outputs z(t+6) for `count` times from `first` on."""
    t = np.arange(first, first + count)
    return np.stack([z[t - delay] for delay in DELAYS], axis=1), z[t + AHEAD]


def experiment(history: float = 1.2, threshold: float = 2e-5, max_steps: int = 500) -> Experiment:
    """The problem; `threshold` is on the training mean squared error, which is twice the loss."""
    z = series(5600, history=history)
    D, theta = mlp(jax.random.key(0), (4, 10, 1), activation="sigmoid")
    train, test = (MeanSquaredError(D, *(jnp.asarray(part) for part in pairs(z, first, 500))) for first in (200, 5000))
    return Experiment(
        name="mackey-glass",
        title="Mackey-Glass",
        loss=least_squares(points(train.x, data=train.y)),
        D=D,
        size=theta.size,
        metrics={"train_mse": train, "test_mse": test},
        error="train_mse",
        error_against_time="train_mse",
        labels={"train_mse": "training MSE"},
        target={"train_mse": threshold},
        max_steps=max_steps,
        settings={"history": history, "threshold": threshold},
    )
