"""What is minimised, over what, and how, as the compiled loop sees it."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from .._geometry.linearise import Sample
from .._methods.safeguard import Safeguard
from .._methods.state import STEP_COLUMNS
from .._problem.features import Whole
from .._problem.integral import AbstractLoss
from .._problem.measures import Points
from .._types import Parametrisation

MIXING = 2**32 - 1
"""What is folded into the key for a solver that draws: no step has this number, so that no points share its numbers."""


class Problem(eqx.Module):
    """What is minimised, over what, and how."""

    loss: AbstractLoss
    D: Parametrisation
    method: Safeguard
    drawn: bool = eqx.field(static=True)
    """Whether steps see new points."""
    measured: bool = eqx.field(static=True)
    """Whether metrics are measured, for which the parameters after every step are kept."""
    small: bool = eqx.field(static=True)
    """Whether a step computes so little that compiling is what a run of usual length takes."""
    left_out: frozenset[str] = eqx.field(static=True)
    """The columns that say nothing here: phases of a method that has one, residuals of a solver with a spectrum."""
    looks: bool = eqx.field(static=True)
    """Whether there is a tolerance for the gradient, which is then looked at where the run would end."""
    mixes: bool = eqx.field(static=True)
    """Whether the solver draws random numbers of its own."""
    mesh: Mesh | None = eqx.field(static=True)
    """The devices over which points are spread, if there are several."""
    validation: Any = None
    """A function of theta that decides which parameters are returned, and when the run ends; None for none."""

    def placed(self, points: tuple[Points, ...]) -> "Problem":
        """The same problem with the points of measures that adapt."""
        return dataclasses.replace(self, loss=self.loss.placed(points)) if points else self

    def spread(self, sample: Sample) -> Sample:
        """The points of a step over all devices; a residual vector, which is no sum over points, stays whole."""
        mesh = self.mesh
        if mesh is None:
            return sample
        stays = [isinstance(term.operator, Whole) for term in self.loss.terms]
        pairs = zip(sample.terms, stays, strict=True)
        W, X = (None if over is None else over.spread(mesh) for over in (sample.W_points, sample.X_points))
        return Sample(tuple(over if stays else over.spread(mesh) for over, stays in pairs), W, X, sample.key)

    def keyed(self, sample: Sample, key: Any, step: Any) -> Sample:
        """The points of a step with the randomness of a solver that draws, apart from that of points."""
        if not self.mixes:
            return sample
        return dataclasses.replace(sample, key=jax.random.fold_in(jax.random.fold_in(key, MIXING), step))

    @property
    def columns(self) -> dict[str, type]:
        """The columns that the history has for every step, with the types of their entries."""
        return {name: kind for name, kind in STEP_COLUMNS.items() if name not in self.left_out}
