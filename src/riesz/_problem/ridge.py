"""Ridge: a penalty on the parameters themselves, as one more row per parameter."""

from typing import Any

import equinox as eqx
import jax

from .. import _check
from .._types import Function, Parametrisation, Vector
from .integral import AbstractLoss
from .residual_vector import ResidualVector


class Remembering:
    """A function D(theta) that knows its parameters; in everything else it is the function itself."""

    def __init__(self, v: Function, theta: Vector):
        self.v, self.theta = v, theta

    def __call__(self, *args: Any) -> Any:
        # Of one point; of the arguments of `riesz.fit` where it is a residual.
        return self.v(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "v":  # which copying asks for before there is anything
            raise AttributeError(name)
        return getattr(self.v, name)


class Ridged(eqx.Module):
    """The parametrisation D with functions that know their parameters."""

    D: Parametrisation

    def params(self, theta: Vector) -> Any:
        """The user's pytree, where D gives one."""
        return self.D.params(theta)  # type: ignore[attr-defined]

    def __call__(self, theta: Vector) -> Remembering:
        return Remembering(self.D(theta), theta)


class Displacement(eqx.Module):
    """The residual theta - theta0."""

    theta0: jax.Array

    def __call__(self, v: Any) -> jax.Array:
        return v.theta - self.theta0


def ridged(loss: AbstractLoss, D: Parametrisation, theta0: Vector, weight: Any) -> tuple[AbstractLoss, Parametrisation]:
    r"""The loss with $\frac{\text{weight}}{2} |\theta - \theta_0|^2$ added, and a parametrisation that shows theta."""
    _check.scalar("ridge", weight, above=0.0)
    return loss + ResidualVector(Displacement(theta0)) * weight, Ridged(D)


def plain(D: Parametrisation) -> Parametrisation:
    """The user's own parametrisation."""
    return D.D if isinstance(D, Ridged) else D
