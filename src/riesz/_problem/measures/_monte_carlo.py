"""Uniform points on a domain, drawn anew each step."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ._points import AbstractMeasure, Points


class AbstractDomain(eqx.Module):
    """A set of finite volume in which uniform points can be drawn."""

    @property
    @abc.abstractmethod
    def volume(self) -> jax.Array:
        """Its length, area or volume."""

    @abc.abstractmethod
    def uniform(self, key: Any, n: int) -> jax.Array:
        """Uniform points of it, n of them along the first axis."""


class MonteCarlo(AbstractMeasure):
    """n uniform points on a domain, drawn anew each step, each with weight volume / n."""

    domain: AbstractDomain
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> Points:
        return Points(self.domain.uniform(key, self.n), jnp.full(self.n, self.domain.volume / self.n), None)
