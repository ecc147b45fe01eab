r"""Rows: the matrix $\Psi$ of a tangent space, known by its products.

A solver asks for no more than this file says, so that how rows are held is one choice and which solver works on them is
another.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .._types import Rows
from .devices import placed


def evenly(count: int, wanted: int) -> np.ndarray:
    """So many of the numbers 0, 1, ..., count - 1, as far apart as possible; all where there are no more."""
    return np.arange(min(count, wanted)) * count // min(count, wanted)


class AbstractRows(eqx.Module):
    r"""$\Psi \in \mathbb{R}^{N \times d}$, written as an array is: `psi @ delta`, `psi.T @ r`.

    Products are with one vector, or with several as the columns of a matrix.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and parameters."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The precision of the entries."""

    @property
    def mesh(self) -> Mesh | None:
        """The devices over which rows are spread; None where they are not."""
        return None

    @abc.abstractmethod
    def __matmul__(self, delta: jax.Array) -> jax.Array:
        """The product Psi delta: a tangent function at the points, from its coefficients."""

    @abc.abstractmethod
    def pull(self, r: jax.Array) -> jax.Array:
        """The product Psi^T r: a covector, from a function at the points."""

    @abc.abstractmethod
    def gram(self) -> jax.Array:
        """The Gram matrix Psi^T Psi, d x d."""

    @abc.abstractmethod
    def kernel(self) -> jax.Array:
        """The kernel matrix Psi Psi^T, N x N."""

    @abc.abstractmethod
    def norms(self) -> jax.Array:
        """The norms of the columns, which are those of the tangent functions."""

    @abc.abstractmethod
    def array(self) -> Rows:
        """All rows as one array."""

    @abc.abstractmethod
    def scaled(self, scale: jax.Array) -> "AbstractRows":
        """The rows Psi S^-1, column i divided by scale[i]: those of the coordinates S theta."""

    def in_coordinates(self, scale: jax.Array) -> tuple["AbstractRows", jax.Array]:
        """These rows, and the nearest scale in which they can be known as well as without one."""
        return self, scale

    def turned(self, direction: jax.Array) -> jax.Array | None:
        """The squared norms of the columns of dPsi/dtheta along a direction; None where rows are assembled for it."""
        return None

    def some(self, points: int) -> Rows:
        """The rows of so many points, evenly chosen, raised so that their Gram matrix is near that of all."""
        rows = self.shape[0]
        chosen = evenly(rows, points)
        return self.array()[chosen] * (rows / chosen.size) ** 0.5

    @property
    def T(self) -> "Transposed":
        """The transpose Psi^T, for products from the left."""
        return Transposed(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.array(), dtype)


class Transposed(eqx.Module):
    """Psi^T, which multiplies from the left."""

    rows: AbstractRows

    def __matmul__(self, r: jax.Array) -> jax.Array:
        return self.rows.pull(r)


class Stored(AbstractRows):
    """Rows that are held as one array."""

    values: Rows
    mesh: Mesh | None = eqx.field(static=True, default=None)  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, int]:
        rows, d = self.values.shape
        return rows, d

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def __matmul__(self, delta: jax.Array) -> jax.Array:
        return self.values @ delta

    def pull(self, r: jax.Array) -> jax.Array:
        return self.values.T @ r

    def gram(self) -> jax.Array:
        # The barrier has the columns lie one after the other: twice as quick as a product that reads across them.
        columns = jax.lax.optimization_barrier(self.values.T)
        return columns @ columns.T

    def kernel(self) -> jax.Array:
        # Spread by columns, or one of the two factors would have to be on every device as a whole.
        values = self.values if self.mesh is None else placed(self.values, self.mesh, 1)
        return values @ values.T

    def norms(self) -> jax.Array:
        return jnp.linalg.norm(jax.lax.optimization_barrier(self.values.T), axis=1)

    def array(self) -> Rows:
        return self.values

    def scaled(self, scale: jax.Array) -> "Stored":
        return Stored(self.values / scale[None, :], self.mesh)
