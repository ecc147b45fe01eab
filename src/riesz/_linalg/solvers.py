"""The only linear algebra: factorise the rows Psi once, then solve with G = Psi^T Psi many times.

Every factorisation works on the smaller side, chosen by shape, and offers two cheap solves with a filter f:

- `project(r)`: f(G) Psi^T r, the filtered least-squares solution of Psi delta = r;
- `riesz(c)`: f(G) c for any covector c, its part in the null space of G included.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Rows, Vector
from .filters import AbstractFilter


class AbstractFactorised(eqx.Module):
    """Rows that have been factorised."""

    @property
    @abc.abstractmethod
    def eigenvalues(self) -> jax.Array:
        """The eigenvalues of G that are not zero by shape: min(rows, d) of them."""

    @abc.abstractmethod
    def project(self, r: jax.Array, filter: AbstractFilter) -> Vector:
        """f(G) Psi^T r."""

    @abc.abstractmethod
    def riesz(self, c: Vector, filter: AbstractFilter) -> Vector:
        """f(G) c."""

    @abc.abstractmethod
    def norm(self, r: jax.Array, c: Vector, filter: AbstractFilter) -> jax.Array:
        """|Psi f(G) (Psi^T r + c)|, without forming coefficients that would cancel."""

    @property
    def noise(self) -> jax.Array:
        """The size below which its eigenvalues are rounding: here, that of a matrix which was squared."""
        return jnp.finfo(self.eigenvalues.dtype).eps * jnp.max(self.eigenvalues)

    def length(self, delta: Vector) -> jax.Array:
        """The length of coefficients in the coordinates in which the filter acts."""
        return jnp.linalg.norm(delta)


class AbstractFactorisation(eqx.Module):
    """A way to factorise rows, and to have them assembled."""

    @property
    def at_once(self) -> int | None:
        """How many points at a time rows are assembled for; None for all of them."""
        return None

    @property
    def stores(self) -> bool:
        """Whether all rows are stored; otherwise they come as `Streamed` rows, which know their products."""
        return True

    def in_chunks(self, chunk: int) -> "AbstractFactorisation":
        """The same factorisation with rows assembled in chunks of points, where it can."""
        return self

    @abc.abstractmethod
    def __call__(self, psi: Rows) -> AbstractFactorised:
        """Factorise: the expensive verb."""


def _apply(factors: tuple[jax.Array, ...], x: jax.Array) -> jax.Array:
    for factor in reversed(factors):
        x = factor @ x
    return x


def _apply_transposed(factors: tuple[jax.Array, ...], x: jax.Array) -> jax.Array:
    for factor in factors:
        x = x @ factor
    return x


class SingularValues(AbstractFactorised):
    """Psi = U diag(s) V^T, with U and V kept as products of the factors they came from."""

    left: tuple[jax.Array, ...]
    s: jax.Array
    right: tuple[jax.Array, ...]

    @property
    def eigenvalues(self) -> jax.Array:
        """s^2."""
        return self.s**2

    @property
    def noise(self) -> jax.Array:
        """Singular values are resolved, so their squares are twice as deep."""
        return jnp.finfo(self.s.dtype).eps ** 2 * jnp.max(self.eigenvalues)

    def project(self, r: jax.Array, filter: AbstractFilter) -> Vector:
        """V s f(s^2) U^T r: no squaring of the condition number."""
        return _apply(self.right, self.s * filter(self.eigenvalues) * _apply_transposed(self.left, r))

    def riesz(self, c: Vector, filter: AbstractFilter) -> Vector:
        """V f(s^2) V^T c + f(0) (I - V V^T) c."""
        inside = _apply_transposed(self.right, c)
        solved = _apply(self.right, filter(self.eigenvalues) * inside)
        if inside.shape == c.shape:
            return solved
        return solved + filter(jnp.zeros_like(self.s[0])) * (c - _apply(self.right, inside))

    def norm(self, r: jax.Array, c: Vector, filter: AbstractFilter) -> jax.Array:
        """|s f(s^2) (s U^T r + V^T c)|."""
        gains = self.s * filter(self.eigenvalues)
        return jnp.linalg.norm(gains * (self.s * _apply_transposed(self.left, r) + _apply_transposed(self.right, c)))

    def leverage(self, cutoff: Any) -> jax.Array:
        """How much each row matters: its squared length in U, over singular values above a share of the largest.

        Below the rounding of the largest there is only noise, whatever the share.
        """
        U = _apply(self.left[:-1], self.left[-1])
        rounding = max(U.shape) * jnp.finfo(U.dtype).eps
        kept = self.s > jnp.maximum(cutoff, rounding) * jnp.max(self.s, initial=0.0)
        return jnp.sum(jnp.where(kept[None, :], U, 0) ** 2, axis=1)


class ByChunks(AbstractFactorisation):
    """A factorisation that may have its rows assembled for `chunk` points at a time."""

    chunk: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.chunk is not None:
            _check.count("chunk", self.chunk)

    @property
    def at_once(self) -> int | None:
        """The chunk."""
        return self.chunk

    def in_chunks(self, chunk: int) -> "ByChunks":
        """Itself, with that chunk."""
        return type(self)(chunk)


class QRSVD(ByChunks):
    """QR of the rows (of their transpose where rows are fewer than parameters), then the SVD of R.

    The default: it keeps the small singular values, on which the last digits of a solution depend.

    **Arguments:**

    - `chunk`: assemble the rows for so many points at a time, which takes less memory and more time: the weighted rows
      are stored, but not the rows before weighting, nor what assembling them needs.
    """

    def __call__(self, psi: Rows) -> SingularValues:
        """Psi = Q R = (Q U) diag(s) V^T."""
        rows, d = psi.shape
        if rows >= d:
            Q, R = jnp.linalg.qr(psi)
            U, s, Vt = jnp.linalg.svd(R)
            return SingularValues((Q, U), s, (Vt.T,))
        Q, R = jnp.linalg.qr(psi.T)
        V, s, Ut = jnp.linalg.svd(R)
        return SingularValues((Ut.T,), s, (Q, V))


class ScaledSystem(AbstractFactorised):
    """Rows factorised in the coordinates S theta: filters act on the eigenvalues of S^-1 G S^-1."""

    inner: AbstractFactorised
    scale: jax.Array

    @property
    def eigenvalues(self) -> jax.Array:
        """Those of S^-1 G S^-1."""
        return self.inner.eigenvalues

    @property
    def noise(self) -> jax.Array:
        """That of the scaled system."""
        return self.inner.noise

    def project(self, r: jax.Array, filter: AbstractFilter) -> Vector:
        """S^-1 f(S^-1 G S^-1) S^-1 Psi^T r."""
        return self.inner.project(r, filter) / self.scale

    def riesz(self, c: Vector, filter: AbstractFilter) -> Vector:
        """S^-1 f(S^-1 G S^-1) S^-1 c."""
        return self.inner.riesz(c / self.scale, filter) / self.scale

    def norm(self, r: jax.Array, c: Vector, filter: AbstractFilter) -> jax.Array:
        """That of the scaled system."""
        return self.inner.norm(r, c / self.scale, filter)

    def length(self, delta: Vector) -> jax.Array:
        """|S delta|."""
        return self.inner.length(self.scale * delta)


class Scaled(AbstractFactorisation):
    """Another factorisation in the coordinates S theta, with S > 0 a number for every parameter."""

    scale: jax.Array
    factorisation: AbstractFactorisation = QRSVD()

    @property
    def at_once(self) -> int | None:
        """As many as for the other factorisation."""
        return self.factorisation.at_once

    @property
    def stores(self) -> bool:
        """Whether the other factorisation does."""
        return self.factorisation.stores

    def __call__(self, psi: Rows) -> ScaledSystem:
        """Factorise Psi S^-1."""
        return ScaledSystem(self.factorisation(psi / self.scale[None, :]), self.scale)


class Eigenvalues(AbstractFactorised):
    """G = Psi^T Psi, or the kernel matrix Psi Psi^T where that is smaller, as vectors diag(lambda) vectors^T."""

    psi: Any
    """An array, or `Streamed` rows."""
    spectrum: jax.Array
    vectors: jax.Array

    @property
    def eigenvalues(self) -> jax.Array:
        """Lambda."""
        return self.spectrum

    @property
    def kernel(self) -> bool:
        """Whether the kernel side was factorised."""
        return self.psi.shape[0] < self.psi.shape[1]

    def _filtered(self, gains: jax.Array, x: jax.Array) -> jax.Array:
        return self.vectors @ (gains * (self.vectors.T @ x))

    def project(self, r: jax.Array, filter: AbstractFilter) -> Vector:
        """f(G) Psi^T r = Psi^T f(Psi Psi^T) r."""
        gains = filter(self.eigenvalues)
        return self.psi.T @ self._filtered(gains, r) if self.kernel else self._filtered(gains, self.psi.T @ r)

    def riesz(self, c: Vector, filter: AbstractFilter) -> Vector:
        """f(G) c, which on the kernel side is f(0) c + Psi^T (f(lambda) - f(0))/lambda Psi c."""
        gains = filter(self.eigenvalues)
        if not self.kernel:
            return self._filtered(gains, c)
        null = filter(jnp.zeros_like(gains[0]))
        positive = self.eigenvalues > 0
        excess = jnp.where(positive, (gains - null) / jnp.where(positive, self.eigenvalues, 1), 0)
        return null * c + self.psi.T @ self._filtered(excess, self.psi @ c)

    def norm(self, r: jax.Array, c: Vector, filter: AbstractFilter) -> jax.Array:
        """From the coefficients themselves."""
        return jnp.linalg.norm(self.psi @ (self.project(r, filter) + self.riesz(c, filter)))


class Gram(ByChunks):
    """Eigenvalues of the Gram matrix, or of the kernel matrix where rows are fewer than parameters.

    Two to three times faster than `QRSVD`, but it squares the condition number: eigenvalues of G below
    about 1e-16 of the largest are noise, where `QRSVD` resolves them down to 1e-32.

    **Arguments:**

    - `chunk`: never store the rows: G is summed over chunks of so many points, and products with the rows are
      derivatives along a direction. The memory is that of G and of one chunk; the time about twice as long.

    ```python
    riesz.nhb(factorisation=riesz.Gram(chunk=1024))
    ```
    """

    @property
    def stores(self) -> bool:
        """Only without chunks."""
        return self.chunk is None

    def __call__(self, psi: Rows) -> Eigenvalues:
        """Form the smaller of Psi^T Psi and Psi Psi^T and diagonalise it."""
        rows, d = psi.shape
        eigenvalues, vectors = jnp.linalg.eigh(psi @ psi.T if rows < d else psi.T @ psi)
        return Eigenvalues(psi, jnp.maximum(eigenvalues, 0), vectors)
