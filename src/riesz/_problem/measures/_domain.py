"""Domains of finite volume: sets in which uniform points can be drawn, and the measure that draws them each step."""

import abc
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

    def evenly(self, x: jax.Array) -> Points:
        """The points with equal weights that sum to the volume."""
        return Points(x, jnp.full(x.shape[0], self.volume / x.shape[0]), None)


class Discrete(AbstractDomain):
    """Fixed points, drawn by their weights; its volume is their mass."""

    x: jax.Array
    weights: jax.Array

    @property
    def volume(self) -> jax.Array:
        return jnp.sum(self.weights)

    def uniform(self, key: Any, n: int) -> jax.Array:
        return self.x[jax.random.choice(key, self.weights.shape[0], (n,), p=self.weights / self.volume)]


def domains_of(*measures: AbstractMeasure) -> tuple[AbstractDomain, ...] | None:
    """The domains of measures that are put together; None where one of them has none, or all of them.

    Fixed points without a domain and without data, such as the time 0, take part as a discrete law.
    """
    found = tuple(
        Discrete(over.x, over.weights)
        if isinstance(over, Points) and over.domain is None and over.data is None
        else over.domain
        for over in measures
    )
    known = tuple(domain for domain in found if domain is not None)
    whole = len(known) == len(found) and any(over.domain is not None for over in measures)
    return known if whole else None


class MonteCarlo(AbstractMeasure):
    """n uniform points on a domain, drawn anew each step, each with weight volume / n."""

    domain: AbstractDomain = eqx.field()  # without field(), the None of every measure would be its default
    n: int = eqx.field(static=True)
    drawn: ClassVar[bool] = True

    def draw(self, key: Any, at: Any = None) -> Points:
        return self.domain.evenly(self.domain.uniform(key, self.n))
