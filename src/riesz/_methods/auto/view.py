"""What a step of auto sees, and what a rule makes of it."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._geometry.linearise import Linearisation
from ..._geometry.tangent import TangentSpace
from ..._linalg.rows import AbstractRows
from ..._problem.integral import AbstractLoss
from ..._problem.measures import Points
from ..._types import Vector
from ..retractions import Retracted
from .box import Box


class View(eqx.Module):
    """What is known at theta, shared by both rules."""

    loss: AbstractLoss
    sample: tuple[Points, ...]
    at: Linearisation
    covector: Vector
    """The gradient of the loss in theta."""
    space: TangentSpace
    """The tangent space, factorised in the coordinates of the rule that is to make the step."""
    rounding: jax.Array
    """What rounding of parameters and values alone makes of the loss: below it there is nothing to gain."""
    vanished: jax.Array
    """Whether the loss is as small as that."""
    fallen: jax.Array
    """Whether it has fallen so far that it may be on its way there."""
    box: Box | None
    """Bounds on the parameters."""
    free: jax.Array | None
    """Which parameters they do not hold; the covector is zero in the others."""

    def value(self, theta: Vector) -> jax.Array:
        """The loss at other parameters, on the same points."""
        return self.loss.value(self.at.D(theta), self.sample)


def rounding_of(at: Linearisation, space: TangentSpace, psi: AbstractRows) -> jax.Array:
    r"""What rounding of theta and of values makes of the loss: $\epsilon^2 (\sum_i \theta_i^2 |\psi_i|^2 + |z|^2)$."""
    values = space.rows(lambda block: block.features.values)
    ulps = jnp.sum((at.theta * psi.norms()) ** 2) + jnp.sum(values**2)
    return jnp.finfo(at.theta.dtype).eps ** 2 * ulps


class Outcome(eqx.Module):
    """What a rule has decided."""

    moved: Retracted
    loss: jax.Array
    """The loss where it leads; NaN where that is not known."""
    accepted: jax.Array
    end: jax.Array
    """The code of the result with which the run ends here; that of RUNNING to go on."""
    shortened: jax.Array
    """Whether the step was held back by more than what is left to gain."""
    residual: jax.Array
    """The relative residual of the linear system, where the solver has no spectrum."""
