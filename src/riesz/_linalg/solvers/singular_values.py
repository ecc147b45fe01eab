r"""Singular values: the rows as $U\, \mathrm{diag}(s)\, V^T$, and the regularised inverse of G that they give."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._types import Vector
from ..filters import AbstractFilter
from ..rows import AbstractRows
from .base import AbstractFactors, AbstractInverse
from .reflectors import Reflectors, SpreadReflectors


class SingularValues(AbstractFactors):
    r"""$\Psi = Q\, U \,\mathrm{diag}(s)\, V^T$, or $\Psi = U \,\mathrm{diag}(s)\, (Q V)^T$ where rows are fewer."""

    psi: AbstractRows
    Q: Reflectors | SpreadReflectors
    U: jax.Array
    s: jax.Array
    V: jax.Array
    tall: bool = eqx.field(static=True)
    """Whether there are at least as many rows as parameters, so that Q is on the left."""
    null: jax.Array | float = 1.0
    """The share of a covector's part in the null space that is represented: all of it, or none."""

    @property
    def eigenvalues(self) -> jax.Array:
        return self.s**2

    @property
    def noise(self) -> jax.Array:
        """Singular values are resolved to rounding, so their squares are resolved twice as deep."""
        return jnp.finfo(self.s.dtype).eps ** 2 * jnp.max(self.eigenvalues)

    def resolved(self, rounding: float) -> "SingularValues":
        r"""The same with singular values that are only rounding set to zero, and nothing represented along them.

        Rounding of column j is the given share of its norm $n_j$, so the length $s_i = |\Psi v_i|$ means something
        where it is above that of $\sum_j |v_{ji}|\, n_j$: where columns differ in size by many orders, small singular
        values are as good as large ones. On the side of the rows, that of the largest one is the measure.
        """
        size = jnp.abs(self.V).T @ self.psi.norms() if self.tall else self.s[0]
        s = jnp.where(self.s > 10 * rounding * size, self.s, 0)
        return dataclasses.replace(self, s=s, null=jnp.zeros((), s.dtype))

    def inverse(self, filter: AbstractFilter) -> "FilteredSingularValues":
        eigenvalues = self.eigenvalues
        null = self.null * filter(jnp.zeros_like(self.s[0]))
        return FilteredSingularValues(self.psi, self, jnp.where(self.s > 0, filter(eigenvalues), null), null)

    def left(self, r: jax.Array) -> jax.Array:
        """The coefficients of a function in the left singular vectors: U^T Q^T r."""
        return (self.Q.transposed(r) if self.tall else r) @ self.U

    def right(self, c: Vector) -> jax.Array:
        """The coefficients of a covector in the right singular vectors: V^T c."""
        return (c if self.tall else self.Q.transposed(c)) @ self.V

    def combine(self, coefficients: jax.Array) -> Vector:
        """The combination V y of the right singular vectors."""
        return self.V @ coefficients if self.tall else self.Q @ (self.V @ coefficients)

    def leverage(self, cutoff: jax.Array) -> jax.Array:
        """How much each row matters: its squared length in the left singular vectors.

        Those count whose singular values are above the given share of the largest. Below the rounding of the largest
        there is only noise, whatever the share. This is the one place that forms Q.
        """
        U = self.Q.array() @ self.U if self.tall else self.U
        rounding = max(self.psi.shape) * jnp.finfo(U.dtype).eps
        kept = self.s > jnp.maximum(cutoff, rounding) * jnp.max(self.s, initial=0.0)
        return jnp.sum(jnp.where(kept[None, :], U, 0) ** 2, axis=1)


class FilteredSingularValues(AbstractInverse):
    """f(G) from the singular values: no function goes through R^T, which would square the condition number."""

    psi: AbstractRows
    factors: SingularValues
    gains: jax.Array
    """f(s^2)."""
    null: jax.Array
    """f(0), which acts on the null space."""

    def project(self, r: jax.Array) -> Vector:
        """The coefficients V s f(s^2) U^T r."""
        return self.factors.combine(self.factors.s * self.gains * self.factors.left(r))

    def riesz(self, c: Vector) -> Vector:
        """The coefficients V f(s^2) V^T c + f(0) (I - V V^T) c."""
        inside = self.factors.right(c)
        if self.factors.tall:
            return self.factors.combine(self.gains * inside)
        return self.factors.combine((self.gains - self.null) * inside) + self.null * c

    def norm(self, r: jax.Array, c: Vector) -> jax.Array:
        """The norm |s f(s^2) (s U^T r + V^T c)|, without forming coefficients that would cancel."""
        s = self.factors.s
        return jnp.linalg.norm(s * self.gains * (s * self.factors.left(r) + self.factors.right(c)))
