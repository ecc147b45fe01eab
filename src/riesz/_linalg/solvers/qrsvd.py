"""QR of the rows without ever forming Q, then the SVD of R."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import householder_product, ormqr
from jax.sharding import Mesh, PartitionSpec

from ..._types import Rows, Vector
from ..devices import placed
from ..filters import AbstractFilter
from ..rows import AbstractRows
from .base import AbstractFactors, AbstractInverse, ChunkedSolver


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


class SpreadReflectors(eqx.Module):
    r"""The matrix Q of a tall matrix whose rows are spread over devices, by two stages (TSQR).

    Every device factorises its own rows, $\Psi_i = Q_i R_i$; the small $R_i$ are gathered, n min(N/n, d) rows of d, and
    factorised once more, $[R_i] = Q' R$. So $Q = \mathrm{diag}(Q_i)\, Q'$, and no row leaves its device.
    """

    own: Reflectors
    """Of every device, side by side along a first axis."""
    top: Reflectors
    mesh: Mesh = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    """The rows of the matrix, which were filled up with zeros to equal parts."""

    @classmethod
    def of(cls, matrix: jax.Array, mesh: Mesh) -> tuple["SpreadReflectors", jax.Array]:
        """Q and R of a matrix with at least as many rows as columns."""
        parts = cls._parts(matrix, mesh)
        own, R = _each(mesh, Reflectors.of, parts)
        top, R = Reflectors.of(placed(R.reshape(-1, matrix.shape[1]), mesh, None))
        return cls(own, top, mesh, matrix.shape[0]), R

    @staticmethod
    def _parts(x: jax.Array, mesh: Mesh) -> jax.Array:
        """The rows of every device along a first axis."""
        whole = jnp.pad(x, ((0, -x.shape[0] % mesh.size), (0, 0)))
        return placed(whole, mesh, 0).reshape(mesh.size, -1, x.shape[1])

    def transposed(self, x: jax.Array) -> jax.Array:
        """The product Q^T x."""
        columns = x.reshape(x.shape[0], -1)
        inside = _each(self.mesh, lambda Q, x: Q.transposed(x), self.own, self._parts(columns, self.mesh))
        found = self.top.transposed(placed(inside.reshape(-1, columns.shape[1]), self.mesh, None))
        return found.reshape(-1, *x.shape[1:])

    def __matmul__(self, y: jax.Array) -> jax.Array:
        """The product Q y."""
        inside = self.top @ y.reshape(y.shape[0], -1)
        each = _each(self.mesh, lambda Q, y: Q @ y, self.own, self._parts(inside, self.mesh))
        return each.reshape(-1, *y.shape[1:])[: self.rows]

    def array(self) -> jax.Array:
        """Q itself."""
        return self @ jnp.eye(self.top.factors.shape[0], dtype=self.top.packed.dtype)


def _each(mesh: Mesh, f: Any, *parts: Any) -> Any:
    """What a function gives on every device for its own part, the only one along the first axis."""
    own = lambda tree: jax.tree.map(lambda array: array[0], tree)
    one = lambda *trees: jax.tree.map(lambda array: array[None], f(*map(own, trees)))
    spread = PartitionSpec(mesh.axis_names)
    return jax.shard_map(one, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)(*parts)


def reflectors(matrix: jax.Array, mesh: Mesh | None) -> tuple[Any, jax.Array]:
    """Q and R of a matrix with at least as many rows as columns, whose rows are spread over a mesh, if any."""
    return Reflectors.of(matrix) if mesh is None else SpreadReflectors.of(matrix, mesh)


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


class QRSVD(ChunkedSolver):
    """QR of the rows (of their transpose where rows are fewer than parameters), then the SVD of R.

    The default: it keeps the small singular values, on which the last digits of a solution depend.

    **Arguments:**

    - `chunk`: assemble the rows for `chunk` points at a time, which takes less memory and more time: the weighted rows
      are stored while they are factorised, but not the rows before weighting, nor what assembling them needs.

    ```python
    riesz.nhb(factorisation=riesz.QRSVD(chunk=1024))
    ```
    """

    has_spectrum = True
    chunk: int | None = eqx.field(static=True, default=None)

    def __call__(self, psi: AbstractRows) -> SingularValues:
        rows, d = psi.shape
        if rows >= d:
            Q, R = reflectors(psi.array(), psi.mesh)
            U, s, Vt = jnp.linalg.svd(R)
            return SingularValues(psi, Q, U, s, Vt.T, tall=True)
        Q, R = reflectors(psi.array().T, psi.mesh)
        V, s, Ut = jnp.linalg.svd(R)
        return SingularValues(psi, Q, Ut.T, s, V, tall=False)
