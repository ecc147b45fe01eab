"""Step sizes alpha_k > 0: fixed, clipped, or found by evaluating the loss at the whole trial point."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Vector


class Search(eqx.Module):
    """What a step size may look at."""

    direction: jax.Array
    """The coefficients g_k of the gradient term."""
    trial: Callable[[Any], jax.Array]
    """alpha -> the loss at the whole trial point, momentum and the ratio h_k/h_{k-1} included."""
    value: jax.Array
    """The loss where the gradient was taken."""
    slope: jax.Array
    """L'(psi^T g_k): the rate at which the gradient term alone lowers the loss."""


class AbstractStepSize(eqx.Module):
    """A rule for alpha_k."""

    @abc.abstractmethod
    def __call__(self, search: Search) -> jax.Array:
        """alpha_k."""


def _as(direction: Vector, alpha: jax.Array) -> jax.Array:
    return jnp.asarray(alpha, direction.dtype)


class Constant(AbstractStepSize):
    """alpha_k = alpha."""

    alpha: jax.Array = eqx.field(converter=_check.parameter("alpha", above=0.0))

    def __call__(self, search: Search) -> jax.Array:
        return _as(search.direction, self.alpha)


class Clipped(AbstractStepSize):
    r"""$\alpha_k = \min(1/|g_k|, \alpha)$, the paper's choice with $\alpha = 0.1$.

    No step of the gradient term is longer than 1 in parameters.
    """

    alpha: jax.Array = eqx.field(converter=_check.parameter("alpha", above=0.0), default=0.1)

    def __call__(self, search: Search) -> jax.Array:
        norm = jnp.linalg.norm(search.direction)
        return _as(search.direction, jnp.where(self.alpha * norm > 1, 1 / norm, self.alpha))


def _finite(loss: jax.Array) -> jax.Array:
    """A loss that is not a number is worse than any that is."""
    return jnp.where(jnp.isnan(loss), jnp.inf, loss)


class GridSearch(AbstractStepSize):
    """The step size on a grid with the lowest loss at the trial point; 2^0, ..., 2^-30 by default."""

    grid: jax.Array = eqx.field(converter=_check.leaf, default_factory=lambda: 2.0 ** -jnp.arange(31.0))

    def __check_init__(self):
        _check.number("grid", self.grid, above=0.0)
        if self.grid.ndim != 1 or self.grid.size == 0:
            raise ValueError(f"grid must be a list of at least one step size, but its shape is {self.grid.shape}.")

    def __call__(self, search: Search) -> jax.Array:
        """One batch of forward passes."""
        grid = _as(search.direction, self.grid)
        return grid[jnp.argmin(_finite(jax.vmap(search.trial)(grid)))]


class Armijo(AbstractStepSize):
    r"""Backtracking: the first $\alpha = \alpha_0 \rho^i$ with $L(\text{trial}) \le L - c\,\alpha\, L'(\psi^T g)$.

    Momentum need not be a descent direction, so the rule may hold nowhere; after `halvings` tries the step
    size with the lowest loss of those tried is taken.

    **Arguments:**

    - `initial`: the first step size tried.
    - `shrink`: the factor between tries, below 1.
    - `decrease`: c, the fraction of the predicted decrease that is asked for.
    - `halvings`: how often to shrink at most.
    """

    initial: jax.Array = eqx.field(converter=_check.parameter("initial", above=0.0), default=1.0)
    shrink: jax.Array = eqx.field(converter=_check.parameter("shrink", above=0.0, below=1.0), default=0.5)
    decrease: jax.Array = eqx.field(converter=_check.parameter("decrease", least=0.0), default=1e-4)
    halvings: int = eqx.field(static=True, default=30)

    def __check_init__(self):
        _check.count("halvings", self.halvings)

    def __call__(self, search: Search) -> jax.Array:
        """One forward pass a try."""
        initial, shrink = _as(search.direction, self.initial), _as(search.direction, self.shrink)

        def evaluate(alpha: jax.Array) -> jax.Array:
            return jnp.asarray(_finite(search.trial(alpha)), search.value.dtype)

        def unsatisfied(carry: Any) -> jax.Array:
            tries, alpha, loss, _, _ = carry
            return (loss > search.value - self.decrease * alpha * search.slope) & (tries < self.halvings)

        def backtrack(carry: Any) -> Any:
            tries, alpha, _, best, lowest = carry
            alpha = alpha * shrink
            loss = evaluate(alpha)
            return tries + 1, alpha, loss, jnp.where(loss < lowest, alpha, best), jnp.minimum(loss, lowest)

        first = evaluate(initial)
        tries, alpha, _, best, _ = jax.lax.while_loop(unsatisfied, backtrack, (0, initial, first, initial, first))
        return jnp.where(tries < self.halvings, alpha, best)


class Shortened(AbstractStepSize):
    """Another rule's step size times a factor: how a safeguard shortens any method."""

    rule: AbstractStepSize
    factor: jax.Array

    def __call__(self, search: Search) -> jax.Array:
        alpha = self.rule(search)
        return alpha * self.factor.astype(alpha.dtype)
