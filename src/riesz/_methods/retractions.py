"""Retractions R: from a tangent vector at v = D(theta) back to the manifold."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._geometry.linearise import Linearisation
from .._problem.features import bend, evaluate, flat
from .._types import Vector


class Retracted(eqx.Module):
    """Where a retraction leads."""

    theta: jax.Array
    """The new parameters."""
    delta: jax.Array
    """The tangent coefficients that were actually taken."""
    scale: jax.Array
    """The factor by which the displacement was shortened; 1 where it was not."""
    bending: jax.Array
    """|a|/|delta|: how much the path bends over the whole displacement; 0 for a straight one."""


class AbstractRetraction(eqx.Module):
    """R(v + Delta) for Delta = psi(theta)^T delta."""

    changes_gauge: eqx.AbstractClassVar[bool]
    """Whether coefficients before and after it belong to different generating systems even for small steps."""
    projects: ClassVar[bool] = False
    """Whether it needs the tangent space with W, and not only theta."""

    @abc.abstractmethod
    def __call__(self, at: Linearisation, space: Any, delta: Vector) -> Retracted:
        """The parameters of R(v + psi^T delta); `space` is the tangent space with W, None where it is not needed."""


class Straight(AbstractRetraction):
    r"""The natural retraction, $R(v + \psi^T \delta) = D(\theta + \delta)$: a straight line in parameters."""

    changes_gauge: ClassVar[bool] = False

    def __call__(self, at: Linearisation, space: Any, delta: Vector) -> Retracted:
        return Retracted(at.theta + delta, delta, jnp.ones((), delta.dtype), jnp.zeros((), delta.dtype))


class SecondOrder(AbstractRetraction):
    r"""Bend the path so that it leaves the tangent direction only at right angles to the tangent space.

    $R(v + \psi^T \delta) = D(\theta + s\delta + \tfrac{s^2}{2} a)$ with $\psi^T a = -P_{T}\, H_D(\delta, \delta)$ in W,
    filtered as the gradient is: the second derivative of $s \mapsto D$ has no tangential part. The ratio
    $|a|/|\delta|$ says how far a straight line may be followed, and limits it,
    $s = \min(1, \text{limit}\,|\delta|/|a|)$.

    These are the first terms of the orthographic retraction, the point of the manifold with
    $P_T(R - v) = s\,\psi^T \delta$. `corrections` more are chord steps towards it, each as long as it is at most half
    of the last: a forward pass and a right-hand side.

    It costs one nested JVP of the rows and one right-hand side of the factorisation that is already there.

    **Arguments:**

    - `limit`: the largest ratio |a|/|delta| after shortening; a large number for none.
    - `corrections`: how many chord steps at most.
    - `lowest`: whether the step also ends where the loss, to second order along the path, is lowest. This matters
      where residuals stay large: there Gauss-Newton steps are too long.

    ```python
    riesz.nhb(retraction=riesz.SecondOrder(), step_size=riesz.Constant(1.0))
    ```
    """

    limit: jax.Array = eqx.field(converter=_check.parameter("limit", above=0.0), default=0.75)
    corrections: int = eqx.field(static=True, default=0)
    lowest: bool = eqx.field(static=True, default=False)
    changes_gauge: ClassVar[bool] = False
    projects: ClassVar[bool] = True

    def __check_init__(self):
        _check.count("corrections", self.corrections, least=0)

    def __call__(self, at: Linearisation, space: Any, delta: Vector) -> Retracted:
        bent = lambda operator, over: bend(at.D, operator, at.theta, delta, over.x)
        turns = [bent(part.term.operator, part.over) for part in at.parts] if self.lowest else []
        known = dict(enumerate(turns))
        turned = lambda block: known[block.term] if block.term in known else bent(block.operator, block.over)
        a = -space.project(space.rows(turned))
        length, limit = space.length(delta), jnp.asarray(self.limit, delta.dtype)
        bending = space.length(a) / jnp.where(length > 0, length, 1)
        s = jnp.where(bending > limit, limit / jnp.where(bending > limit, bending, 1), 1)
        if self.lowest:
            s = jnp.minimum(s, self._newton(at, space, delta, a, turns))
        theta = at.theta + s * delta + s**2 / 2 * a
        if self.corrections:
            theta = self._corrected(at, space, theta, s * delta, s**2 / 2 * space.length(a))
        return Retracted(theta, s * delta, s, bending)

    def _newton(self, at: Linearisation, space: Any, delta: Vector, a: Vector, turns: list[jax.Array]) -> jax.Array:
        r"""Where $s L'(\psi^T\delta) + \tfrac{s^2}{2} q$ is lowest, with q the second derivative along the path."""
        covector = space.covector(at, at.slopes)
        pairs = zip(at.parts, turns, strict=True)
        paired = [part.over.weights @ jnp.sum(flat(turn) * part.slopes, 1) for part, turn in pairs]
        q = space.norm(delta) ** 2 + sum(paired) + covector @ a
        slope = -(covector @ delta)
        shorter = (q > slope) & (slope > 0)
        return jnp.where(shorter, slope / jnp.where(shorter, q, 1), 1)

    def _corrected(self, at: Linearisation, space: Any, theta: Vector, delta: Vector, last: jax.Array) -> Vector:
        """Chord steps on P_T (D(theta) - v) = psi^T delta."""

        def correct(_: Any, carry: Any) -> Any:
            theta, last = carry
            moved = lambda block: evaluate(at.D, block.operator, theta, block.over.x) - block.features.values
            step = -space.project(space.rows(moved) - space.psi @ delta)
            length = space.length(step)
            contracts = length <= last / 2
            return jnp.where(contracts, theta + step, theta), jnp.where(contracts, length, 0)

        return jax.lax.fori_loop(0, self.corrections, correct, (theta, last))[0]
