"""Metrics of the parameter space R^d: the identity of the classical methods, and Newton's Hessian."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linalg.filters import AbstractFilter
from .._linalg.solvers import AbstractSolver
from .._problem.features import evaluate
from .._problem.measures import Points
from .._types import Vector
from .inner_products import AbstractMetric
from .linearise import Linearisation, Slopes
from .tangent import AbstractSpace


class EuclideanSpace(AbstractSpace):
    """R^d with the identity in place of G."""

    d: int = eqx.field(static=True)

    @property
    def rank(self) -> jax.Array:
        """All d of them."""
        return jnp.asarray(self.d)

    def represent(self, at: Linearisation, slopes: Slopes) -> Vector:
        """The gradient in theta."""
        return at.covector(slopes)


class Euclidean(AbstractMetric):
    """The Euclidean metric on parameters, under which natural methods become the classical ones."""

    needs_rows: ClassVar[bool] = False

    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> EuclideanSpace:
        """The space R^d itself."""
        return EuclideanSpace(at.theta.size)


class HessianSpace(AbstractSpace):
    """R^d with the Hessian H_L = G + K, which may be indefinite."""

    eigenvalues: jax.Array
    vectors: jax.Array
    filter: AbstractFilter

    @property
    def rank(self) -> jax.Array:
        """The number of eigenvalues of H_L above eps in absolute value."""
        return self.filter.rank(jnp.abs(self.eigenvalues))

    def represent(self, at: Linearisation, slopes: Slopes) -> Vector:
        """H_L^-1 grad L; the filter acts on |lambda|, and the sign of lambda survives, as in Newton's method."""
        gains = jnp.sign(self.eigenvalues) * self.filter(jnp.abs(self.eigenvalues))
        return self.vectors @ (gains * (self.vectors.T @ at.covector(slopes)))


class Hessian(AbstractMetric):
    """H_L(theta) = G + K, the functional Hessian plus the curvature of the manifold; d x d, for small d."""

    needs_rows: ClassVar[bool] = False

    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> HessianSpace:
        """The eigenvalues of the Hessian at theta."""

        def loss(theta: Vector) -> jax.Array:
            images = [evaluate(at.D, part.term.operator, theta, part.over.x) for part in at.parts]
            pairs = zip(at.parts, images, strict=True)
            return sum(part.over.weights @ part.term.densities(z, part.over) for part, z in pairs)  # type: ignore[return-value]

        eigenvalues, vectors = jnp.linalg.eigh(jax.hessian(loss)(at.theta))
        return HessianSpace(eigenvalues, vectors, filter)
