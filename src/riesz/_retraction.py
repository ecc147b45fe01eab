"""Retractions R: from a tangent vector at v = D(theta) back to the manifold."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from . import _check
from ._features import bend
from ._frame import Frame
from ._types import Vector


class Landing(eqx.Module):
    """Where a retraction leads."""

    theta: jax.Array
    """The new parameters."""
    delta: jax.Array
    """The tangent coefficients that were actually taken."""
    scale: jax.Array
    """The factor by which the displacement was shortened; 1 where it was not."""


class AbstractRetraction(eqx.Module):
    """R(v + Delta) for Delta = psi(theta)^T delta."""

    changes_gauge: eqx.AbstractClassVar[bool]
    """Whether coefficients before and after it belong to different generating systems even for small steps."""

    @abc.abstractmethod
    def __call__(self, frame: Frame, delta: Vector) -> Landing:
        """Land."""


class Straight(AbstractRetraction):
    r"""The natural retraction, $R(v + \psi^T \delta) = D(\theta + \delta)$: a straight line in parameters."""

    changes_gauge: ClassVar[bool] = False

    def __call__(self, frame: Frame, delta: Vector) -> Landing:
        """Theta + delta."""
        return Landing(frame.theta + delta, delta, jnp.ones((), delta.dtype))


class SecondOrder(AbstractRetraction):
    r"""Bend the path so that it leaves the tangent direction only at right angles to the tangent space.

    $R(v + \psi^T \delta) = D(\theta + s\delta + \tfrac{s^2}{2} a)$ with $\psi^T a = -P_{T}\, H_D(\delta, \delta)$ in W,
    filtered as the gradient is: the second derivative of $s \mapsto D$ has no tangential part. The ratio
    $|a|/|\delta|$ says how far a straight line may be followed, and limits it,
    $s = \min(1, \text{limit}\,|\delta|/|a|)$.

    It costs one nested JVP of the rows and one right-hand side of the factorisation that is already there.

    **Arguments:**

    - `limit`: the largest ratio |a|/|delta| after shortening; a large number for none.

    ```python
    riesz.nhb(retraction=riesz.SecondOrder(), step_size=riesz.Constant(1.0))
    ```
    """

    limit: jax.Array = eqx.field(converter=_check.leaf, default=0.75)
    changes_gauge: ClassVar[bool] = False

    def __check_init__(self):
        _check.number("limit", self.limit, above=0.0)

    def __call__(self, frame: Frame, delta: Vector) -> Landing:
        """Theta + s delta + s^2 a / 2."""
        bent = frame.W.rows(lambda block: bend(frame.D, block.operator, frame.theta, delta, block.over.x))
        a = -frame.W.project(bent)
        length, excess = jnp.linalg.norm(delta), jnp.linalg.norm(a) / self.limit.astype(delta.dtype)
        s = jnp.where(excess > length, length / jnp.where(excess > length, excess, 1), 1)
        return Landing(frame.theta + s * delta + s**2 / 2 * a, s * delta, s)
