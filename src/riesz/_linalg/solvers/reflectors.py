r"""The matrix Q of a QR factorisation, known by its products: Householder reflectors, never multiplied out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax.linalg import householder_product, ormqr
from jax.scipy.linalg import solve_triangular
from jax.sharding import Mesh, PartitionSpec

from ..._types import Rows
from ..devices import placed

BLOCK = 32
"""The number of reflectors that are applied at a time."""
MOST = 320
"""Up to this many reflectors are applied in blocks that are kept; LAPACK makes its blocks anew for every product.

With more of them, products are a small part of a factorisation, and a program with so many blocks is long to compile.
"""


class Reflectors(eqx.Module):
    r"""The matrix Q, N x k with orthonormal columns, as reflectors $H_i = I - \tau_i v_i v_i^T$, $Q = H_1 \cdots H_k$.

    Those of a block multiply to $I - V^T T V$ with the vectors as the rows of V and T upper triangular,
    $T^{-1} = \mathrm{diag}(1/\tau) + \mathrm{striu}(V V^T)$ (Walker; Joffrain, Low, Quintana-Orti and van de Geijn).
    """

    vectors: jax.Array
    """The vectors v_i as rows, in the order in which LAPACK leaves them: zero before entry i, and one there."""
    factors: jax.Array
    """The factors tau_i."""
    blocks: tuple[jax.Array, ...]
    """T for every block; none where there are many reflectors."""

    @classmethod
    def of(cls, matrix: Rows) -> tuple["Reflectors", jax.Array]:
        """Q and R of a matrix: N x k and k x d, with k the smaller of N and d."""
        packed, factors = jnp.linalg.qr(matrix, mode="raw")
        k = factors.shape[0]
        # A factor of zero stands for the identity: its vector is zero then.
        first = jnp.sign(factors)[:, None] * jnp.eye(k, packed.shape[1], dtype=packed.dtype)
        vectors = jnp.triu(packed[:k], 1) + first
        some = range(0, k, BLOCK) if k <= MOST else ()
        blocks = tuple(_triangle(vectors[i : i + BLOCK, i:], factors[i : i + BLOCK]) for i in some)
        return cls(vectors, factors, blocks), jnp.tril(packed[:, :k]).T

    def transposed(self, x: jax.Array) -> jax.Array:
        """The product Q^T x."""
        k = self.factors.shape[0]
        if not self.blocks:
            whole = ormqr(self.vectors.T, self.factors, x.reshape(x.shape[0], -1), left=True, transpose=True)
            return whole[:k].reshape(-1, *x.shape[1:])
        done = []
        for i, T in enumerate(self.blocks):
            V = self._block(i)
            x = x - V.T @ (T.T @ (V @ x))
            # What lies above the next block is done.
            done, x = [*done, x[: T.shape[0]]], x[T.shape[0] :]
        return jnp.concatenate(done)

    def __matmul__(self, y: jax.Array) -> jax.Array:
        """The product Q y."""
        rows = self.vectors.shape[1] - y.shape[0]
        if not self.blocks:
            padded = jnp.pad(y.reshape(y.shape[0], -1), ((0, rows), (0, 0)))
            return ormqr(self.vectors.T, self.factors, padded, left=True, transpose=False).reshape(-1, *y.shape[1:])
        x = jnp.zeros((rows, *y.shape[1:]), y.dtype)
        for i, T in reversed(list(enumerate(self.blocks))):
            V = self._block(i)
            x = jnp.concatenate([y[i * BLOCK : i * BLOCK + T.shape[0]], x])
            x = x - V.T @ (T @ (V @ x))
        return x

    def _block(self, i: int) -> jax.Array:
        """The vectors of a block, from the first entry that is not zero on."""
        return self.vectors[i * BLOCK : (i + 1) * BLOCK, i * BLOCK :]

    def array(self) -> jax.Array:
        """Q itself."""
        return householder_product(self.vectors.T, self.factors)


def _triangle(V: jax.Array, factors: jax.Array) -> jax.Array:
    """The triangle T of a block of reflectors, from its inverse."""
    identity = jnp.eye(factors.shape[0], dtype=V.dtype)
    diagonal = jnp.diag(1 / jnp.where(factors == 0, 1, factors))
    return solve_triangular(jnp.triu(V @ V.T, 1) + diagonal, identity)


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
        return self @ jnp.eye(self.top.factors.shape[0], dtype=self.top.factors.dtype)


def _each(mesh: Mesh, f: Any, *parts: Any) -> Any:
    """What a function gives on every device for its own part, the only one along the first axis."""
    own = lambda tree: jax.tree.map(lambda array: array[0], tree)
    one = lambda *trees: jax.tree.map(lambda array: array[None], f(*map(own, trees)))
    spread = PartitionSpec(mesh.axis_names)
    return jax.shard_map(one, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)(*parts)


def reflectors(matrix: jax.Array, mesh: Mesh | None) -> tuple[Any, jax.Array]:
    """Q and R of a matrix with at least as many rows as columns, whose rows are spread over a mesh, if any."""
    return Reflectors.of(matrix) if mesh is None else SpreadReflectors.of(matrix, mesh)
