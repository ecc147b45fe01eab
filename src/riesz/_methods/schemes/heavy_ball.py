"""Natural heavy ball: NHB, NHB-FD, QNHB, and NGD with no momentum."""

import jax
import jax.numpy as jnp

from ..._geometry.linearise import Sample
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..state import Info, State
from ..step_sizes import Search
from .base import AbstractScheme
from .choices import Choices


class HeavyBall(AbstractScheme):
    r"""$v_{k+1} = R\big[v_k + \tfrac{h_k}{h_{k-1}} \beta_k\, \psi^{(k)T} d_k - \alpha_k\, \mathrm{grad}\, L(v_k)\big]$.

    $\psi^{(k)T} d_k$ is the transported displacement of the last step, and $\alpha_k = h_k^2$.
    """

    choices: Choices

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: State, sample: Sample
    ) -> tuple[Vector, State, Info]:
        """One Jacobian and, where X is W, one factorisation."""
        choices = self.choices
        at, W, X = choices.look(loss, D, theta, sample)
        gradient = W.represent(at, at.slopes)
        g = gradient.coefficients
        d = choices.transport(at, X, state)
        beta = choices.momentum(state.k)

        def displacement(alpha: jax.Array) -> Vector:
            ratio = jnp.sqrt(alpha / state.alpha)  # h_k / h_{k-1}
            return ratio * beta * d - alpha * g

        def trial(alpha: jax.Array) -> jax.Array:
            return loss.value(D(choices.retraction(at, W, displacement(alpha)).theta), sample.terms)

        alpha = choices.step_size(Search(g, trial, at.loss, gradient.covector @ g))
        moved = choices.retraction(at, W, displacement(alpha))
        state = State(theta, moved.delta, alpha, state.k + 1)
        return moved.theta, state, Info.of(at, gradient, moved, alpha)
