"""Tangent spaces: the weighted rows Psi of the generating system psi, factorised once."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linalg.filters import AbstractFilter
from .._linalg.solvers import QRSVD, AbstractFactorisation, AbstractFactorised
from .._problem.features import Features, flat
from .._problem.measures import Points
from .._types import Operator, Rows, Vector


class Differential(eqx.Module):
    """L'(v), kept as the slopes l'(z_j) of every term at its points: it can be paired with any tangent space."""

    slopes: tuple[jax.Array, ...]


class Curvature(eqx.Module):
    """A point-wise form M_j = R_j^T R_j with R_j = diag(lambda_j)^(1/2) V_j^T.

    From the eigenvectors, never from Cholesky: the softmax Hessian is singular, and a density that is not
    convex has negative eigenvalues, which are clipped to zero.
    """

    eigenvalues: jax.Array
    vectors: jax.Array

    @classmethod
    def of(cls, forms: jax.Array) -> "Curvature":
        """The factors of symmetric forms of shape (m, p, p)."""
        if forms.shape[1:] == (1, 1):
            return cls(jnp.maximum(forms[:, 0], 0), jnp.ones_like(forms))
        # One at a time: batched, LAPACK's calls wait in XLA's threads for XLA's threads, and two of them wait for ever.
        eigenvalues, vectors = jax.lax.map(jnp.linalg.eigh, forms)
        return cls(jnp.maximum(eigenvalues, 0), vectors)

    def root(self, z: jax.Array) -> jax.Array:
        """R_j z_j, for z of shape (m, p) or (m, p, d)."""
        scale = jnp.sqrt(self.eigenvalues)
        return jnp.einsum("mqp,mq...->mp...", self.vectors, z) * scale.reshape(*scale.shape, *[1] * (z.ndim - 2))

    def lift(self, slope: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Split a slope as R_j^T r_j + rest_j, with r_j bounded where the form is nearly singular.

        The split is exact whatever is kept; what is kept only decides the rounding. A slope goes through r
        where the form is at least sqrt(machine epsilon) of the largest one, so that r stays moderate.
        """
        threshold = jnp.sqrt(jnp.finfo(slope.dtype).eps) * jnp.max(self.eigenvalues)
        kept = self.eigenvalues > threshold
        coefficients = jnp.einsum("mqp,mq->mp", self.vectors, slope)
        r = jnp.where(kept, coefficients / jnp.sqrt(jnp.where(kept, self.eigenvalues, 1)), 0)
        return r, jnp.einsum("mqp,mp->mq", self.vectors, jnp.where(kept, 0, coefficients))


class Block(eqx.Module):
    """The rows that one operator gives on one measure: sqrt(w_j) R_j d(A v)(x_j)/dtheta."""

    operator: Operator
    over: Points
    features: Features
    curvature: Curvature | None
    """The point-wise form of the inner product; None is the identity."""
    term: int | None = eqx.field(static=True)
    """The term of the loss whose operator and points these are, if any."""

    def weigh(self, z: jax.Array) -> jax.Array:
        """sqrt(w_j) R_j z_j as rows, for z of shape (m, p) or (m, p, d)."""
        root = z if self.curvature is None else self.curvature.root(z)
        weights = jnp.sqrt(self.over.weights).reshape(-1, *[1] * (z.ndim - 1))
        return (weights * root).reshape(-1, *z.shape[2:])

    @property
    def weighted(self) -> Rows:
        """Its rows, weighted, where they are stored."""
        assert self.features.rows is not None
        return self.weigh(self.features.rows)


def lift(blocks: tuple[Block, ...], differential: Differential) -> tuple[jax.Array | None, Differential | None]:
    """Split L' into what is an inner product with given rows, and a rest that stays a covector.

    Rows are projected without squaring the condition number, so as much as possible goes through them:
    for L2, everything.
    """
    rest = dict(enumerate(differential.slopes))
    rows = []
    for block in blocks:
        if block.term is None:
            return None, differential
        slope = rest.pop(block.term)
        if block.curvature is not None:
            slope, rest[block.term] = block.curvature.lift(slope)
        rows.append((jnp.sqrt(block.over.weights)[:, None] * slope).reshape(-1))
    if not rest:
        return jnp.concatenate(rows), None
    slopes = [rest.get(t, jnp.zeros_like(slope)) for t, slope in enumerate(differential.slopes)]
    return jnp.concatenate(rows), Differential(tuple(slopes))


class TangentSpace(eqx.Module):
    r"""The tangent space $T_\theta = \mathrm{span}\,\psi(\theta)$ with an inner product, factorised once.

    Its Gram matrix is $G = \Psi^T \Psi$ with the weighted rows
    $\Psi = [\sqrt{w_j}\, R_j\, \partial z_j / \partial\theta]$. Build one with `riesz.tangent_space`.
    """

    blocks: tuple[Block, ...]
    psi: Any
    """Psi: an array, or `Streamed` rows, which know its products."""
    factorised: AbstractFactorised
    filter: AbstractFilter

    def __init__(
        self,
        blocks: tuple[Block, ...],
        filter: AbstractFilter,
        factorisation: AbstractFactorisation | None = None,
        psi: Any = None,
    ):
        self.blocks = blocks
        self.psi = jnp.concatenate([block.weighted for block in blocks]) if psi is None else psi
        self.factorised = (factorisation or QRSVD())(self.psi)
        self.filter = filter

    @property
    def gram(self) -> Rows:
        """The Gram matrix G = (psi, psi^T), d x d, unfiltered."""
        return self.psi.T @ self.psi

    @property
    def rank(self) -> jax.Array:
        """The number of eigenvalues of G above the filter's eps."""
        return self.filter.rank(self.factorised.eigenvalues)

    def norm(self, delta: Vector) -> jax.Array:
        """The norm of the tangent function psi^T delta."""
        return jnp.linalg.norm(self.psi @ delta)

    def length(self, delta: Vector) -> jax.Array:
        """The length of the coefficients, in the coordinates in which the filter acts."""
        return self.factorised.length(delta)

    def rows(self, of: Callable[[Block], jax.Array]) -> jax.Array:
        """A function as weighted rows; `of(block)` gives its values under the block's operator at its points."""
        return jnp.concatenate([block.weigh(flat(of(block))) for block in self.blocks])

    def project(self, rows: jax.Array) -> Vector:
        """Coefficients of the orthogonal projection of a function, given as weighted rows, onto this space."""
        return self.factorised.project(rows, self.filter)

    def riesz(self, covector: Vector) -> Vector:
        """Coefficients g of the Riesz representer of a covector c: (psi^T g, psi)= c."""
        return self.factorised.riesz(covector, self.filter)

    def lift(self, differential: Differential) -> tuple[jax.Array | None, Differential | None]:
        """Split L' into what is an inner product with given rows, and a rest that stays a covector."""
        return lift(self.blocks, differential)
