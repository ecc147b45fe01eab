"""Sums of measures: the points of all of them, with their own weights."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ._domain import AbstractDomain, domains_of
from ._points import AbstractMeasure, Points
from ._product import shapes_of


class UnionDomain(AbstractDomain):
    """The points of several domains, each as often as there are domains that have it."""

    parts: tuple[AbstractDomain, ...]

    @property
    def volumes(self) -> jax.Array:
        """The volume of each part."""
        return jnp.stack([part.volume for part in self.parts])

    @property
    def volume(self) -> jax.Array:
        return jnp.sum(self.volumes)

    def uniform(self, key: Any, n: int) -> jax.Array:
        """Uniform points of parts that are drawn by their volumes."""
        which, *keys = jax.random.split(key, len(self.parts) + 1)
        chosen = jax.random.choice(which, len(self.parts), (n,), p=self.volumes / self.volume)
        drawn = jnp.stack([part.uniform(own, n) for part, own in zip(self.parts, keys, strict=True)])
        return drawn[chosen, jnp.arange(n)]


def _domain(parts: tuple[AbstractMeasure, ...]) -> UnionDomain | None:
    domains = domains_of(*parts)
    return None if domains is None else UnionDomain(domains)


class Union(AbstractMeasure):
    """The sum of several measures, one of them drawn anew each step."""

    parts: tuple[AbstractMeasure, ...]
    drawn: ClassVar[bool] = True

    @property
    def domain(self) -> UnionDomain | None:
        return _domain(self.parts)

    def draw(self, key: Any, at: Any = None) -> Points:
        """The points of one draw of each; none of them gets tangent rows."""
        keys = jax.random.split(key, len(self.parts))
        return _joined([part.draw(own) for part, own in zip(self.parts, keys, strict=True)])


def _joined(parts: list[Points]) -> Points:
    """The points of all parts, one part after another."""
    return jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *(part.draw() for part in parts))


def union(*measures: AbstractMeasure) -> Points | Union:
    r"""The sum of measures, $\mu_1 + \mu_2 + \dots$: the points of all of them, each with its own weight.

    It is fixed where all of them are, else drawn anew each step. `a + b` is the same as `union(a, b)`. Where domains
    overlap, the overlap counts as often as it is there.

    **Arguments:**

    - `measures`: one or more, with points of one shape; all of them carry data, or none does.

    ```python
    house = riesz.union(riesz.gauss_legendre((0, 0), (1, 1), 10), riesz.simplex([(0, 1), (1, 1), (0.5, 2)], 10))
    walls = riesz.circle((0, 0), 1, 50) + riesz.circle((0, 0), 2, 100)
    ```
    """
    if not measures:
        raise ValueError("measures must be one or more, but none is given.")
    first, *others = (shapes_of(f"measures[{index}]", measure) for index, measure in enumerate(measures))
    for index, other in enumerate(others, 1):
        for part in ("x", "data"):
            here, there = (_outline(getattr(over, part)) for over in (first, other))
            if here != there:
                what = "points" if part == "x" else "data"
                raise ValueError(f"measures must have {what} of one kind, but 0 has {here} and {index} has {there}.")
    if any(measure.drawn for measure in measures):
        return Union(measures)
    return dataclasses.replace(_joined([measure.draw(None) for measure in measures]), domain=_domain(measures))


def _outline(array: Any) -> str:
    """What arrays must share to be joined."""
    return "none" if array is None else f"{array.dtype} of shape {array.shape[1:]}"
