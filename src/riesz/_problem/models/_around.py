"""Models round another model: theta is that of the inner one."""

from collections.abc import Callable
from typing import Any

import equinox as eqx

from ..._types import Key, Parametrisation, Vector


class AbstractAround(eqx.Module):
    """A parametrisation whose parameters, and random starts, are those of the parametrisation `D` within it."""

    D: eqx.AbstractVar[Parametrisation]

    def params(self, theta: Vector) -> Any:
        return self.D.params(theta)  # type: ignore[attr-defined]

    @property
    def start(self) -> Callable[[Key], Vector]:
        return self.D.start  # type: ignore[attr-defined]
