"""What every measure answers."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx

if TYPE_CHECKING:
    from ._points import Points


class AbstractMeasure(eqx.Module):
    """A measure that can be drawn: `draw` gives the points, weights and data of one step."""

    drawn: eqx.AbstractClassVar[bool]
    """Whether every step sees new points, and so needs a key."""

    @abc.abstractmethod
    def draw(self, key: Any, features: Callable[[Any], Any] | None = None) -> "Points":
        """The points of one step; `features(x)` gives the tangent rows at the current theta."""
