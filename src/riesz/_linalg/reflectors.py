"""The matrix Q of a QR factorisation, never formed."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import householder_product, ormqr

from .._types import Rows


class Reflectors(eqx.Module):
    """The matrix Q of a QR factorisation, N x k with orthonormal columns, as the Householder reflectors of LAPACK."""

    packed: jax.Array
    """The reflectors below the diagonal, R above it."""
    factors: jax.Array

    @classmethod
    def of(cls, matrix: Rows) -> tuple["Reflectors", jax.Array]:
        """Q and R of a matrix: N x k and k x d, with k the smaller of N and d."""
        packed, factors = jnp.linalg.qr(matrix, mode="raw")
        k = factors.shape[0]
        return cls(packed.T[:, :k], factors), jnp.triu(packed.T[:k])

    def transposed(self, x: jax.Array) -> jax.Array:
        """The product Q^T x."""
        whole = ormqr(self.packed, self.factors, x.reshape(x.shape[0], -1), left=True, transpose=True)
        return whole[: self.factors.shape[0]].reshape(-1, *x.shape[1:])

    def __matmul__(self, y: jax.Array) -> jax.Array:
        """The product Q y."""
        columns = y.reshape(y.shape[0], -1)
        padded = jnp.pad(columns, ((0, self.packed.shape[0] - y.shape[0]), (0, 0)))
        return ormqr(self.packed, self.factors, padded, left=True, transpose=False).reshape(-1, *y.shape[1:])

    def array(self) -> jax.Array:
        """Q itself."""
        return householder_product(self.packed, self.factors)
