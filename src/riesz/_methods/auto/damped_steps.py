r"""The curve of damped steps $\lambda \mapsto -(G + \lambda S^2)^{-1} c$, known for every damping from one SVD."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._geometry.linearise import Linearisation
from ..._geometry.tangent import TangentSpace
from ..._linalg.solvers.singular_values import SingularValues
from ..._types import Vector

HALVINGS = 60
"""How often an interval of log lambda is halved: to far below rounding, from everything that a number can be."""


class DampedSteps(eqx.Module):
    r"""$\delta(\lambda) = -V\, b/(s^2 + \lambda) - c_0/\lambda$, in the coordinates in which the rows were factorised.

    $b = V^T c$ are the coefficients of the covector, taken through the left singular vectors as far as L' has rows, and
    $c_0$ is its part in the null space, which counts as one more coefficient, of singular value zero.
    """

    factors: SingularValues
    s: jax.Array
    b: jax.Array
    null: Vector | None
    """The part c_0; None where there are at least as many rows as parameters, and no null space by shape."""
    scale: jax.Array | None

    @classmethod
    def of(cls, at: Linearisation, space: TangentSpace) -> "DampedSteps":
        """The steps that minimise the damped model of the loss at a linearisation."""
        factors = space.factors
        assert isinstance(factors, SingularValues)
        r, c = space.split(at, at.slopes)
        b = jnp.zeros_like(factors.s)
        if r is not None:
            b = b + factors.s * factors.left(r)
        if c is None:
            return cls(factors, factors.s, b, None, space.scale)
        c = c if space.scale is None else c / space.scale
        inside = factors.right(c)
        b = b + inside
        if factors.tall:
            return cls(factors, factors.s, b, None, space.scale)
        null = c - factors.combine(inside)
        s, b = jnp.append(factors.s, 0), jnp.append(b, jnp.linalg.norm(null))
        return cls(factors, s, b, null, space.scale)

    def __call__(self, damping: jax.Array) -> Vector:
        """The step of one damping, in the parameters' own units."""
        size = self.factors.s.size
        delta = -self.factors.combine(self.b[:size] / (self.s[:size] ** 2 + damping))
        if self.null is not None:
            delta = delta - self.null / damping
        return delta if self.scale is None else delta / self.scale

    def length(self, damping: jax.Array) -> jax.Array:
        """The length |delta| in the coordinates in which the rows were factorised."""
        return jnp.linalg.norm(self.b / (self.s**2 + damping))

    def promised(self, damping: jax.Array) -> jax.Array:
        r"""The decrease that the model promises, $\frac12 \sum b^2 (s^2 + 2\lambda)/(s^2 + \lambda)^2$."""
        shifted = self.s**2 + damping
        return jnp.sum((self.b / shifted) ** 2 * (shifted + damping)) / 2

    def damping(self, length: jax.Array) -> jax.Array:
        """The damping at which the step has a given length, by bisection; the least number where none is so long."""
        number = jnp.finfo(length.dtype)

        def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = ends
            middle = (low + high) / 2
            longer = self.length(jnp.exp(middle)) > length
            return jnp.where(longer, middle, low), jnp.where(longer, high, middle)

        ends = jnp.log(number.tiny) + 0 * length, jnp.log(number.max) / 2 + 0 * length
        return jnp.exp(jax.lax.fori_loop(0, HALVINGS, halve, ends)[1])
