"""The last losses of a method that may climb: what it allows, where it was best, when it should go back or stop."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._types import Vector

LENGTH = 20
"""A step may end as high as the highest of so many losses; after as many steps without progress it goes back."""

RETREATS = 3
"""After going back this many times without finding a lower loss, a run is stuck."""


class LossWindow(eqx.Module):
    """The last losses and the best parameters.

    Losses are kept relative to the current one, and their changes are measured on the points of their own step, so that
    adding a constant to the loss, or drawing new points, changes nothing.
    """

    first: jax.Array
    """The parameters at the start."""
    best: jax.Array
    """The parameters with the lowest loss."""
    lowest: jax.Array
    """The lowest loss less the current one."""
    excess: jax.Array
    """The last losses less the current one, the newest first."""
    idle: jax.Array
    """How many steps in a row have not lowered the lowest loss."""
    settled: jax.Array
    """How many steps in a row there was nothing to gain at the lowest loss."""
    retreats: jax.Array
    """How often in a row it went back without finding a lower loss."""

    @classmethod
    def start(cls, theta: Vector) -> "LossWindow":
        """Only the start is known."""
        none = jnp.zeros((), int)
        excess = jnp.where(jnp.arange(LENGTH) == 0, 0, jnp.full(LENGTH, -jnp.inf, theta.dtype))
        zero = jnp.zeros((), theta.dtype)
        return cls(theta, theta, zero, excess, none, none, none)

    @property
    def allowance(self) -> jax.Array:
        """How far above the current loss a step may end."""
        return jnp.max(self.excess)

    @property
    def exhausted(self) -> jax.Array:
        """Whether so many steps went by without progress that it should go back."""
        return self.idle >= LENGTH

    def moved(self, theta: Vector, change: jax.Array, noise: jax.Array) -> "LossWindow":
        """After a step to theta that changed the loss; changes below the noise are none."""
        lower = change < self.lowest - noise
        # Losses that are equal up to rounding: the later parameters are the better ones.
        best = jnp.where(change <= self.lowest + noise, theta, self.best)
        return LossWindow(
            self.first,
            best,
            jnp.minimum(self.lowest, change) - change,
            jnp.append(jnp.zeros_like(change), (self.excess - change)[:-1]),
            jnp.where(lower, 0, self.idle + 1),
            self.settled,
            jnp.where(lower, 0, self.retreats),
        )

    def stayed(self) -> "LossWindow":
        """After a step that was rejected."""
        return eqx.tree_at(lambda window: window.idle, self, self.idle + 1)

    def retreated(self) -> "LossWindow":
        """Back at the best parameters, with everything after them forgotten."""
        fresh = LossWindow.start(self.best)
        return eqx.tree_at(lambda window: (window.retreats, window.first), fresh, (self.retreats + 1, self.first))

    def settling(self, nothing: jax.Array) -> "LossWindow":
        """With one more step, or none, at which nothing was left to gain."""
        return eqx.tree_at(lambda window: window.settled, self, jnp.where(nothing, self.settled + 1, 0))

    @property
    def stuck(self) -> jax.Array:
        """Whether no lower loss was found, even after going back to the best one."""
        return self.exhausted & (self.retreats > 0) | (self.retreats >= RETREATS)
