"""Trust in batches: how much of what a step promises on its own points is kept on the next ones."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

FADING = 0.9
"""The share of the sums that is left after a step."""
LITTLE, MUCH = 0.25, 0.75
"""Where less than this is kept, caution grows; where more than this, it shrinks ..."""
RATE = 1.2
"""... by this factor a step."""
MOST = 1e12
"""The most caution there is."""


class Trust(eqx.Module):
    r"""The caution c by which damping is multiplied where points are drawn anew.

    A step lowers the loss on its own points by $p_k = L_k(\theta_k) - L_k(\theta_{k+1})$, which also fits what is
    particular to them. The next points, which the step has not seen, say what was gained:
    $L_k(\theta_k) - L_{k+1}(\theta_{k+1})$. Both are summed with fading, so that the noise of single batches cancels.
    On fixed points the two agree, and there is nothing to be cautious about.
    """

    loss: jax.Array
    """L_k(theta_k)."""
    promise: jax.Array
    """p_k; zero where no step was taken."""
    promised: jax.Array
    """The fading sum of promises."""
    kept: jax.Array
    """The fading sum of what the next points showed."""
    caution: jax.Array

    @classmethod
    def start(cls, dtype: Any) -> "Trust":
        """Nothing was promised yet."""
        zero = jnp.zeros((), dtype)
        return cls(zero, zero, zero, zero, jnp.ones((), dtype))

    def after_new_points(self, loss: jax.Array) -> "Trust":
        """After the loss at the same parameters on new points."""
        moved = self.promise != 0
        promised = FADING * self.promised + self.promise
        kept = FADING * self.kept + jnp.where(moved, self.loss - loss, 0)
        share = kept / jnp.where(promised > 0, promised, jnp.inf)
        factor = jnp.where(share < LITTLE, RATE, jnp.where(share > MUCH, 1 / RATE, 1.0))
        caution = jnp.clip(jnp.where(moved, factor, 1.0) * self.caution, 1.0, MOST)
        return Trust(loss, jnp.zeros_like(promised), promised, kept, caution.astype(promised.dtype))

    def after_step(self, decrease: jax.Array) -> "Trust":
        """After a step that lowered the loss on its own points; zero where it was not taken."""
        return eqx.tree_at(lambda trust: trust.promise, self, decrease)
