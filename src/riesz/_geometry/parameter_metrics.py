"""Metrics of the parameter space R^d: the identity of the classical methods, and Newton's Hessian."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linalg.filters import AbstractFilter
from .._problem.measures import Points
from .._types import Vector
from .inner_products import AbstractMetric
from .tangent import Differential

if TYPE_CHECKING:
    from .frame import Frame


class EuclideanSpace(eqx.Module):
    """R^d with the identity in place of G."""

    rank: jax.Array

    def lift(self, differential: Differential) -> tuple[None, Differential]:
        """No rows: L' stays a covector."""
        return None, differential

    def riesz(self, covector: Vector) -> Vector:
        """The gradient is its own representer."""
        return covector


class Euclidean(AbstractMetric):
    """The Euclidean metric on parameters, under which natural methods become the classical ones."""

    def space(self, frame: "Frame", over: Points | None) -> EuclideanSpace:
        """R^d itself."""
        return EuclideanSpace(jnp.asarray(frame.theta.size))


class HessianSpace(eqx.Module):
    """R^d with the Hessian H_L = G + K, which may be indefinite."""

    eigenvalues: jax.Array
    vectors: jax.Array
    filter: AbstractFilter

    @property
    def rank(self) -> jax.Array:
        """The number of eigenvalues of H_L above eps in absolute value."""
        return self.filter.rank(jnp.abs(self.eigenvalues))

    def lift(self, differential: Differential) -> tuple[None, Differential]:
        """No rows: L' stays a covector."""
        return None, differential

    def riesz(self, covector: Vector) -> Vector:
        """H_L^-1 c; the filter acts on |lambda|, and the sign of lambda survives, as in Newton's method."""
        gains = jnp.sign(self.eigenvalues) * self.filter(jnp.abs(self.eigenvalues))
        return self.vectors @ (gains * (self.vectors.T @ covector))


class Hessian(AbstractMetric):
    """H_L(theta) = G + K, the functional Hessian plus the curvature of the manifold; d x d, for small d."""

    def space(self, frame: "Frame", over: Points | None) -> HessianSpace:
        """The eigenvalues of the Hessian at the frame's theta."""
        L: Any = lambda theta: frame.loss.value(frame.D(theta), frame.sample.terms)
        eigenvalues, vectors = jnp.linalg.eigh(jax.hessian(L)(frame.theta))
        return HessianSpace(eigenvalues, vectors, frame.filter)
