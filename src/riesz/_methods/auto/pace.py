"""Pace: whether a run still gets somewhere, or only creeps along a valley that leads to infinity."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._types import Vector

SHORT, LONG = 20, 100
"""The run is looked at every so many steps, and over a longer stretch every so many."""
QUICKLY = 100.0
"""A loss that can vanish should fall by this factor over a short stretch."""
HARDLY = 0.1
"""A loss that falls by less than this share of what the model promises hardly falls ..."""
NOTHING = 0.01
"""... and so does one that falls by less than this share of itself while its parameters run away ..."""
HALF = 0.5
"""... or, after long steps in vain, one of which more than this share is left over a long stretch ..."""
MUCH, SOME = 0.5, 0.1
"""... where its parameters have moved by at least this multiple of their size, over a short stretch or a long one."""
WORTH = 0.15
"""Of parameters that run to infinity those are returned at which the loss times this power of their size is least."""


class Milestone(eqx.Module):
    """The lowest loss at some step, and its parameters."""

    loss: jax.Array
    theta: jax.Array

    def moved(self, theta: Vector, share: float) -> jax.Array:
        """Whether the parameters have moved since by a share of their size."""
        return jnp.linalg.norm(theta - self.theta) > share * jnp.linalg.norm(self.theta)


class Pace(eqx.Module):
    r"""Where the run stood at the beginning of the short and of the long stretch, and where its parameters were modest.

    Modest parameters are those with the least $L(\theta)\, (1 + |\theta_0| + |\theta|)^{0.15}$: to be ten times as
    large they must lower the loss by 30 %. A loss that cannot be negative falls to a level while they run to infinity;
    that product does not, and is least near where they begin to run. It is Reginska's choice among the regularised
    solutions of an ill-posed problem (SIAM J. Sci. Comput. 17, 1996).
    """

    lately: Milestone
    before: Milestone
    modest: Milestone
    began: jax.Array
    """After how many steps the first stretch began."""

    @classmethod
    def start(cls, theta: Vector, began: jax.Array | int = 0) -> "Pace":
        """Before the first stretch."""
        milestone = Milestone(jnp.full((), jnp.inf, theta.dtype), theta)
        return cls(milestone, milestone, milestone, jnp.zeros((), int) + began)

    def after(self, k: jax.Array, lowest: jax.Array, best: Vector, first: Vector) -> "Pace":
        """After step k, with the lowest loss so far and its parameters, and with those of the start."""
        norm = jnp.linalg.norm
        product = lambda loss, theta: loss * (1 + norm(first) + norm(theta)) ** WORTH
        lower = product(lowest, best) < product(self.modest.loss, self.modest.theta)
        now = lambda due, old: Milestone(jnp.where(due, lowest, old.loss), jnp.where(due, best, old.theta))
        k = k - self.began
        lately, before = now(k % SHORT == 0, self.lately), now(k % LONG == 0, self.before)
        return Pace(lately, before, now(lower, self.modest), self.began)

    def _after_two(self, k: jax.Array) -> jax.Array:
        """Whether a short stretch ends that is not the first."""
        k = k - self.began
        return (k % SHORT == 0) & (k >= 2 * SHORT)

    def slow(self, k: jax.Array, lowest: jax.Array) -> jax.Array:
        """Whether a loss that can vanish has not fallen quickly."""
        return self._after_two(k) & (lowest > self.lately.loss / QUICKLY)

    def runs_away(
        self, k: jax.Array, lowest: jax.Array, best: Vector, promise: jax.Array, size: jax.Array
    ) -> jax.Array:
        """Whether the parameters have moved far, over a short stretch, for hardly any of what the model promises.

        Or for hardly any of the loss, which has a `size` where it cannot be negative.
        """
        hardly = lowest > self.lately.loss - jnp.maximum(HARDLY * promise, NOTHING * size)
        return self._after_two(k) & hardly & self.lately.moved(best, MUCH)

    def creeps(self, k: jax.Array, lowest: jax.Array, best: Vector, promise: jax.Array, vain: jax.Array) -> jax.Array:
        """Whether the parameters still move over a long stretch, for hardly any of what the model promises.

        Where long steps were in `vain`, for less than half of the loss.
        """
        hardly = (lowest > self.before.loss - HARDLY * promise) | (vain & (lowest > HALF * self.before.loss))
        return ((k - self.began) % LONG == 0) & hardly & self.before.moved(best, SOME)
