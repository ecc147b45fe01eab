"""Metrics of the parameter space R^d: the identity of the classical methods, and Newton's Hessian."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from .._linalg.filters import AbstractFilter
from .._linalg.solvers import AbstractSolver
from .._problem.features import evaluate
from .._problem.measures import Points
from .._types import Vector
from .inner_products import AbstractMetric
from .linearise import Linearisation, Slopes
from .tangent import AbstractSpace, Representer


class Euclidean(AbstractMetric, AbstractSpace):
    """R^d with the identity in place of G, under which natural methods become the classical ones: its own space."""

    needs_rows: ClassVar[bool] = False

    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> "Euclidean":
        return self

    def represent(self, at: Linearisation, slopes: Slopes) -> Representer:
        """The gradient in theta is its own representer."""
        covector, none = at.covector(slopes), jnp.full((), jnp.nan, at.theta.dtype)
        return Representer(covector, covector, jnp.asarray(at.theta.size), none)


class HessianSpace(AbstractSpace):
    """R^d with the Hessian H_L = G + K, which may be indefinite."""

    eigenvalues: jax.Array
    vectors: jax.Array
    filter: AbstractFilter

    def represent(self, at: Linearisation, slopes: Slopes) -> Representer:
        """H_L^-1 grad L; the filter acts on |lambda|, and the sign of lambda survives, as in Newton's method."""
        sizes = jnp.abs(self.eigenvalues)
        gains = jnp.sign(self.eigenvalues) * self.filter(sizes)
        covector = at.covector(slopes)
        g = self.vectors @ (gains * (self.vectors.T @ covector))
        return Representer(g, covector, self.filter.rank(sizes), jnp.full((), jnp.nan, g.dtype))


class Hessian(AbstractMetric):
    """H_L(theta) = G + K, the functional Hessian plus the curvature of the manifold; d x d, for small d."""

    needs_rows: ClassVar[bool] = False

    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> HessianSpace:
        def loss(theta: Vector) -> jax.Array:
            images = [evaluate(at.D, part.term.operator, theta, part.over.x) for part in at.parts]
            pairs = zip(at.parts, images, strict=True)
            return sum(part.over.weights @ part.term.densities(z, part.over) for part, z in pairs)  # type: ignore[return-value]

        eigenvalues, vectors = jnp.linalg.eigh(jax.hessian(loss)(at.theta))
        return HessianSpace(eigenvalues, vectors, filter)
