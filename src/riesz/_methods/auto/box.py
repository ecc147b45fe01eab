"""Bounds on parameters: a box, the parameters that it holds, and the projection onto it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._types import Vector
from ..retractions import Retracted


class Box(eqx.Module):
    r"""The parameters with $\text{low} \le \theta \le \text{high}$; infinite where there is no bound.

    A parameter at a bound is *held* where the gradient would move it out. A step moves the others as if the held ones
    were constants, along a path that is projected onto the box: where it would leave it, it goes on along its face.
    The loss is stationary where the gradient in the others vanishes.
    """

    low: jax.Array
    high: jax.Array

    def free(self, theta: Vector, covector: Vector) -> jax.Array:
        """Which parameters are not held, for a gradient that is given as a covector."""
        return ~((theta <= self.low) & (covector > 0) | (theta >= self.high) & (covector < 0))

    def project(self, theta: Vector, moved: Retracted, free: jax.Array) -> Retracted:
        """A step with its end projected onto the box, and the coefficients of what is left of it."""
        inside = jnp.where(free, jnp.clip(moved.theta, self.low, self.high), theta)
        delta = jnp.where(inside == moved.theta, moved.delta, inside - theta)
        return dataclasses.replace(moved, theta=inside, delta=delta)
