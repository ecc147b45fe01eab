"""The choices that make a scheme a method, and what they see at theta."""

from typing import Any

import equinox as eqx

from ... import _check
from ..._geometry.inner_products import AbstractInnerProduct, AbstractMetric, same_rows
from ..._geometry.linearise import Linearisation, Sample, linearise
from ..._geometry.tangent import AbstractSpace
from ..._linalg.filters import AbstractFilter
from ..._linalg.solvers import AbstractSolver, check_filter
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..momentum import AbstractMomentum, NoMomentum
from ..retractions import AbstractRetraction
from ..step_sizes import AbstractStepSize
from ..transports import AbstractTransport


class Choices(eqx.Module):
    """The parts of a method."""

    W: AbstractMetric
    X: AbstractInnerProduct | None
    """The inner product of the momentum; None where it is W."""
    transport: AbstractTransport
    filter: AbstractFilter
    solver: AbstractSolver
    step_size: AbstractStepSize
    momentum: AbstractMomentum
    retraction: AbstractRetraction

    def __check_init__(self):
        _check.kind("W", self.W, AbstractMetric, "an inner product, such as riesz.L2()")
        if self.X is not None:
            _check.kind("X", self.X, AbstractInnerProduct, "an inner product, such as riesz.L2(), or None")
        _check.kind("filter", self.filter, AbstractFilter, "a filter, such as riesz.Floor(1e-8)")
        _check.kind("step_size", self.step_size, AbstractStepSize, "a step size, such as riesz.Clipped(0.1)")
        _check.kind("retraction", self.retraction, AbstractRetraction, "a retraction, such as riesz.Straight()")
        if self.W.needs_rows:
            check_filter(self.solver, self.filter)
        carries = self.transport.follows_gauge or isinstance(self.momentum, NoMomentum)
        if self.retraction.changes_gauge and not carries:
            raise ValueError(
                "retraction changes the generating system, which a quasi method cannot follow: "
                "use the projected or the difference variant."
            )

    def look(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, sample: Sample
    ) -> tuple[Linearisation, AbstractSpace, Any]:
        """What is known at theta, the space of the gradient and that of the momentum."""
        at = self.linearise(loss, D, theta, sample)
        W = self.gradient_space(at, sample)
        return at, W, self.momentum_space(at, sample, W)

    def linearise(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, sample: Sample, rows: bool | None = None
    ) -> Linearisation:
        """What is known at theta, with rows where W is made of rows."""
        rows = self.W.needs_rows if rows is None else rows
        return linearise(loss, D, theta, sample, rows=rows, chunk=self.solver.points_at_once)

    def gradient_space(self, at: Linearisation, sample: Sample) -> AbstractSpace:
        """The space with W, in which the gradient of the loss is represented."""
        return self.W.space(at, sample.W_points, self.solver.fresh(sample.key), self.filter)

    def momentum_space(self, at: Linearisation, sample: Sample, W: AbstractSpace | None = None) -> Any:
        """The space in which momentum is transported: W's own where X has the same rows, None where it needs none."""
        if self.transport.inner_product is None:
            return None
        if self.X is None or self.transport.inner_product == "W":
            return self.gradient_space(at, sample) if W is None else W
        if W is not None and same_rows(self.X.blocks(at, sample.X_points), W.blocks):  # type: ignore[attr-defined]
            return W
        return self.X.space(at, sample.X_points, self.solver.fresh(sample.key), self.filter)
