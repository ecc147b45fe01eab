"""Retractions R: from a tangent vector at v = D(theta) back to the manifold."""

import abc
from typing import ClassVar

import equinox as eqx

from ._frame import Frame
from ._types import Vector


class AbstractRetraction(eqx.Module):
    """R(v + Delta) for Delta = psi(theta)^T delta."""

    changes_gauge: eqx.AbstractClassVar[bool]
    """Whether coefficients before and after it belong to different generating systems even for small steps."""

    @abc.abstractmethod
    def __call__(self, frame: Frame, delta: Vector) -> tuple[Vector, Vector]:
        """The new parameters, and the tangent coefficients that were actually taken."""


class Straight(AbstractRetraction):
    r"""The natural retraction, $R(v + \psi^T \delta) = D(\theta + \delta)$: a straight line in parameters."""

    changes_gauge: ClassVar[bool] = False

    def __call__(self, frame: Frame, delta: Vector) -> tuple[Vector, Vector]:
        """Theta + delta, and delta."""
        return frame.theta + delta, delta
