r"""Transports: how the last displacement becomes the momentum term $\psi^{(k)T} d_k$ of this step."""

import abc
from typing import Any, ClassVar

import equinox as eqx

from .._geometry.linearise import Linearisation
from .._geometry.rows import weighted
from .._problem.features import along, evaluate
from .._types import Vector
from .state import State


class AbstractTransport(eqx.Module):
    """Coefficients d_k in T_k of the momentum h_{k-1} P^(k-1)."""

    follows_gauge: eqx.AbstractClassVar[bool]
    """Whether it carries a function, and so stays right when the generating system changes."""
    inner_product: eqx.AbstractClassVar[str | None]
    """In which tangent space it works: that of "X" or of "W", or None where it solves nothing."""

    @abc.abstractmethod
    def __call__(self, at: Linearisation, space: Any, state: State) -> Vector:
        """The coefficients d_k at the linearisation, in the tangent space of its inner product."""


class Projected(AbstractTransport):
    r"""Project the last tangent vector, $\psi^T d_k = P^X_{T_k}\, \psi^{(k-1)T} \delta_{k-1}$.

    In parameters $d_k = G_X^{(k)\dagger} G_X^{(k,k-1)} \delta_{k-1}$; the cross-Gram matrix is never formed,
    because its product with $\delta_{k-1}$ is one JVP at $\theta_{k-1}$ on the current points.
    """

    follows_gauge: ClassVar[bool] = True
    inner_product: ClassVar[str | None] = "X"

    def __call__(self, at: Linearisation, space: Any, state: State) -> Vector:
        """One JVP and one more right-hand side."""
        last = lambda block: along(at.D, block.operator, state.theta, state.delta, block.over.x)
        return space.project(weighted(space.blocks, last))


class Difference(AbstractTransport):
    r"""Project the functional difference, $\psi^T d_k = P^X_{T_k} (v_k - v_{k-1})$ (the FD variants)."""

    follows_gauge: ClassVar[bool] = True
    inner_product: ClassVar[str | None] = "X"

    def __call__(self, at: Linearisation, space: Any, state: State) -> Vector:
        """One forward pass at theta_{k-1} and one more right-hand side."""
        last = lambda block: evaluate(at.D, block.operator, state.theta, block.over.x)
        return space.project(weighted(space.blocks, lambda block: block.features.values - last(block)))


class Quasi(AbstractTransport):
    r"""Keep the coefficients, $d_k = \delta_{k-1}$: no solve at all (the quasi-natural variants)."""

    follows_gauge: ClassVar[bool] = False
    inner_product: ClassVar[str | None] = None

    def __call__(self, at: Linearisation, space: Any, state: State) -> Vector:
        """The coefficients of the last step, read in the new generating system."""
        return state.delta


class Unresolved(AbstractTransport):
    r"""Keep what the tangent system does not resolve, $d_k = (I - G_W^\dagger G_W)\, \delta_{k-1}$: SPRING.

    With the filter `Shift(lambda)` and a constant step size $\alpha$, a heavy ball with it takes the step
    $\delta_k = \alpha \phi_k$ with $(G + \lambda)\, \phi_k = -\nabla L + \lambda \beta\, \phi_{k-1}$. Its momentum
    survives only where the sampled tangent functions say nothing: the complement of `Projected`, made for few points.
    """

    follows_gauge: ClassVar[bool] = False
    inner_product: ClassVar[str | None] = "W"

    def __call__(self, at: Linearisation, space: Any, state: State) -> Vector:
        """One product with the rows and one more right-hand side."""
        return state.delta - space.project(space.psi @ state.delta)
