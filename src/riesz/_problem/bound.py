"""A function whose parameters are bound to it."""

from typing import Any

import equinox as eqx
import jax

from .._types import Parametrisation


class Bound(eqx.Module):
    """The function D(theta), known by D and theta.

    Where it stands in a loss or a model, theta is an array among others: with other numbers in it nothing is compiled
    again. The function that D(theta) returns is most often a closure, for which every program would be compiled anew.
    """

    D: Parametrisation
    theta: jax.Array

    __eq__, __hash__ = object.__eq__, object.__hash__  # as functions have them, for `jax.jit`

    def __call__(self, x: Any) -> Any:
        return self.D(self.theta)(x)
