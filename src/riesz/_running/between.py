"""A look between the points: the loss at points of the same domains that no step has seen."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._geometry.linearise import Sample
from .._problem.features import image
from .._problem.integral import AbstractLoss
from .._types import Vector
from .compiled import Compiled
from .problem import Problem

DRAWS = 20
"""A look is the mean of the loss over this many draws, each of as many points as a step has."""
SEED = 1729
"""The seed of the points that are looked at: always the same, so that looks at several parameters compare."""
FAR = 30.0
"""Where the loss between the points is more than this multiple of the loss at the points, a note says so."""
ASKS = 3.0
"""Above this multiple, points that adapt are placed anew."""
ROUNDING = 1e3
"""Residuals below this multiple of eps times those at the start are rounding."""


def can_look(loss: AbstractLoss) -> bool:
    """Whether there is anything between the points: they are fixed, and some were chosen from a domain."""
    return not loss.drawn and any(term.over is not None and term.over.domain is not None for term in loss.terms)


@dataclasses.dataclass(frozen=True)
class Look:
    """What is seen between the points."""

    loss: float
    positive: bool
    """Whether no density is negative there: only then do ratios of losses mean anything."""

    def _exceeds(self, factor: float, loss: float, first: "Look | None") -> bool:
        """Whether it is more than a multiple of the loss at the points, and than rounding of the first look."""
        rounding = 0.0 if first is None else (ROUNDING * np.finfo(float).eps) ** 2 * first.loss
        return self.positive and self.loss > max(factor * loss, rounding)

    def asks(self, loss: float, first: "Look | None") -> bool:
        """Whether points that adapt should be placed anew."""
        return self._exceeds(ASKS, loss, first)

    def note(self, loss: float, first: "Look | None") -> tuple[str, ...]:
        """What a user should know of it, beside the loss at the points and the first look of the run."""
        if not self._exceeds(FAR, loss, first):
            return ()
        return (
            f"The loss is {loss:.2g} at the points and {self.loss:.2g} between them: the solution is not to be "
            "believed there. Take more points, let riesz.adaptive place them, or take fewer parameters.",
        )


def _mean_loss(problem: Problem, theta: Vector) -> tuple[jax.Array, jax.Array]:
    """The mean of the loss over fresh points, and whether no density is negative there."""
    loss, v = problem.loss, problem.D(theta)

    def one(key: Any) -> tuple[jax.Array, jax.Array]:
        points = problem.spread(Sample(loss.fresh(key, loss.draw(None, problem.D, theta)))).terms
        pairs = list(zip(loss.terms, points, strict=True))
        densities = [term.densities(image(term.operator, v, over.x), over) for term, over in pairs]
        value = sum(over.weights @ part for part, over in zip(densities, points, strict=True))
        return jnp.asarray(value), jnp.all(jnp.concatenate(densities) >= 0)

    # One draw after another, so that a look takes no more memory than a step.
    losses, positive = jax.lax.map(one, jax.random.split(jax.random.key(SEED), DRAWS))
    return jnp.mean(losses), jnp.all(positive)


_between = Compiled(_mean_loss)


class Looks:
    """What a run sees between its points: at first, and at the parameters that were looked at last."""

    def __init__(self, problem: Problem, theta: Vector):
        self.problem = problem
        self.first = self._look(theta)
        self._last: tuple[Any, Look] = theta, self.first

    @property
    def last(self) -> Look:
        """What was seen last."""
        return self._last[1]

    def at(self, theta: Vector) -> Look:
        """What is between the points at theta."""
        if self._last[0] is not theta:
            self._last = theta, self._look(theta)
        return self.last

    def _look(self, theta: Vector) -> Look:
        loss, positive = _between(self.problem, theta, quick=self.problem.small, mesh=self.problem.mesh)
        return Look(float(loss), bool(positive))
