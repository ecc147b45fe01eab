"""Tangent spaces: the weighted rows Psi of the generating system psi, factorised once."""

import abc
import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linalg.filters import AbstractFilter
from .._linalg.rows import AbstractRows
from .._linalg.solvers import AbstractFactors, AbstractInverse, AbstractSolver
from .._types import Rows, Vector
from .linearise import Linearisation, Slopes
from .rows import Block, split, weighted


class Representer(eqx.Module):
    """The Riesz representer of L' in a space, and how its system was resolved and solved."""

    coefficients: Vector
    """The coefficients g in the generating system of the space."""
    covector: Vector
    """The covector L'(psi) that they represent."""
    rank: jax.Array
    """How many directions are resolved; -1 where the solver has no spectrum."""
    residual: jax.Array
    """The relative residual of the system that was solved; NaN where it was solved directly."""


def covector_of(at: Linearisation, blocks: tuple[Block, ...], psi: AbstractRows, slopes: Slopes) -> Vector:
    """The covector L'(psi), through the rows where L' is an inner product with them: the model is not asked again."""
    r, rest = split(blocks, slopes)
    return psi.T @ r if r is not None and rest is None else at.covector(slopes)


class AbstractSpace(eqx.Module):
    """What represents the gradient: a tangent space, or R^d itself."""

    @abc.abstractmethod
    def represent(self, at: Linearisation, slopes: Slopes) -> Representer:
        """The representer of L', given as slopes at the points of a linearisation."""


class TangentSpace(AbstractSpace):
    r"""The tangent space $T_\theta = \mathrm{span}\,\psi(\theta)$ with an inner product, factorised once.

    Its Gram matrix is $G = \Psi^T \Psi$ with the weighted rows
    $\Psi = [\sqrt{w_j}\, R_j\, \partial z_j / \partial\theta]$. Build one with `riesz.tangent_space`.
    """

    blocks: tuple[Block, ...]
    psi: AbstractRows
    """Psi, known by its products: `psi @ delta`, `psi.T @ r`, `psi.gram()`, `psi.norms()`, and so on."""
    factors: AbstractFactors
    inverse: AbstractInverse
    filter: AbstractFilter
    scale: jax.Array | None = None
    """S, where the rows were factorised in the coordinates S theta; filters then act on S^-1 G S^-1."""

    @classmethod
    def of(
        cls,
        blocks: tuple[Block, ...],
        psi: AbstractRows,
        solver: AbstractSolver,
        filter: AbstractFilter,
        scale: jax.Array | None = None,
    ) -> "TangentSpace":
        """Factorise the rows of the blocks, in the coordinates S theta where a scale S is given."""
        factors = solver(psi if scale is None else psi.scaled(scale))
        return cls(blocks, psi, factors, factors.inverse(filter), filter, scale)

    def filtered(self, filter: AbstractFilter) -> "TangentSpace":
        """The same space with another filter, sharing rows and factors."""
        return dataclasses.replace(self, inverse=self.factors.inverse(filter), filter=filter)

    @property
    def gram(self) -> Rows:
        """The Gram matrix G = (psi, psi^T), d x d, unfiltered."""
        return self.psi.gram()

    @property
    def rank(self) -> jax.Array:
        """The number of eigenvalues of G above the filter's eps; -1 where the solver has no spectrum."""
        return self.factors.rank(self.filter)

    def norm(self, delta: Vector) -> jax.Array:
        """The norm of the tangent function psi^T delta."""
        return jnp.linalg.norm(self.psi @ delta)

    def length(self, delta: Vector) -> jax.Array:
        """The length of the coefficients, in the coordinates in which the filter acts."""
        return jnp.linalg.norm(delta if self.scale is None else self.scale * delta)

    def rows(self, of: Callable[[Block], jax.Array]) -> jax.Array:
        """A function as weighted rows; `of(block)` gives its values under the block's operator at its points."""
        return weighted(self.blocks, of)

    def project(self, rows: jax.Array) -> Vector:
        """Coefficients of the orthogonal projection of a function, given as weighted rows, onto this space."""
        delta = self.inverse.project(rows)
        return delta if self.scale is None else delta / self.scale

    def riesz(self, covector: Vector) -> Vector:
        """Coefficients g of the Riesz representer of a covector c: (psi^T g, psi) = c."""
        if self.scale is None:
            return self.inverse.riesz(covector)
        return self.inverse.riesz(covector / self.scale) / self.scale

    def represent(self, at: Linearisation, slopes: Slopes) -> Representer:
        """The representer g of L': (psi^T g, w) = L'(w) for all w in this space."""
        covector = self.covector(at, slopes)
        g = self.solve(*self.split(at, slopes))
        has_spectrum = self.factors.eigenvalues is not None
        residual = jnp.full((), jnp.nan, g.dtype) if has_spectrum else self.residual(g, covector)
        return Representer(g, covector, self.factors.rank(self.filter), residual)

    def covector(self, at: Linearisation, slopes: Slopes) -> Vector:
        """The covector L'(psi) of slopes at the points of a linearisation."""
        return covector_of(at, self.blocks, self.psi, slopes)

    def split(self, at: Linearisation, slopes: Slopes) -> tuple[jax.Array | None, Vector | None]:
        """L' as the inner product with rows r and a covector c, either of them None where it is not needed."""
        r, rest = split(self.blocks, slopes)
        return r, None if rest is None else at.covector(rest)

    def solve(self, r: jax.Array | None, c: Vector | None) -> Vector:
        """Coefficients of the representer of what rows r and a covector c make together."""
        if r is None or c is None:
            return self.riesz(c) if r is None else self.project(r)  # type: ignore[arg-type]
        return self.project(r) + self.riesz(c)

    def representer_norm(self, r: jax.Array | None, c: Vector | None) -> jax.Array:
        """The norm of the representer of what rows r and a covector c make together."""
        rows, d = self.psi.shape
        r = jnp.zeros(rows, self.psi.dtype) if r is None else r
        c = jnp.zeros(d, self.psi.dtype) if c is None else c
        return self.inverse.norm(r, c if self.scale is None else c / self.scale)

    def residual(self, delta: Vector, covector: Vector) -> jax.Array:
        """How well (G + eps S^2) delta = covector is solved, relative to the covector, for the filter `Shift`."""
        S = jnp.ones_like(delta) if self.scale is None else self.scale
        left = covector - self.psi.T @ (self.psi @ delta) - self.filter.eps * S**2 * delta
        size = jnp.linalg.norm(covector / S)
        return jnp.linalg.norm(left / S) / jnp.where(size > 0, size, 1)
