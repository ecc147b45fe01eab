"""Natural Nesterov II: NN-II, NN-II-FD, QNN-II."""

import jax

from ..._geometry.linearise import Sample
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..state import Info, State
from ..step_sizes import Search
from .base import AbstractScheme
from .choices import Choices


class NesterovTwo(AbstractScheme):
    r"""$w_k = R(v_k + \Delta_k)$, then $v_{k+1} = R(v_k + \Delta_k - \alpha_k\, \mathcal{R}_{T_k} L'(w_k))$.

    With $\Delta_k = \beta_k\, \psi^{(k)T} d_k$. The differential at $w_k$ is represented in the tangent space
    at $v_k$, so one factorisation serves both; at $w_k$ a forward pass is enough.
    """

    choices: Choices

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: State, sample: Sample
    ) -> tuple[Vector, State, Info]:
        """Look ahead to y_k, then step from theta_k."""
        choices = self.choices
        at, W, X = choices.look(loss, D, theta, sample)
        drift = choices.momentum(state.k) * choices.transport(at, X, state)
        y = choices.retraction(at, W, drift).theta

        there = choices.linearise(loss, D, y, sample, rows=False)
        gradient = W.represent(at, there.slopes)
        g = gradient.coefficients

        def trial(alpha: jax.Array) -> jax.Array:
            return loss.value(D(choices.retraction(at, W, drift - alpha * g).theta), sample.terms)

        alpha = choices.step_size(Search(g, trial, there.loss, gradient.covector @ g))
        moved = choices.retraction(at, W, drift - alpha * g)
        state = State(theta, moved.delta, alpha, state.k + 1)
        return moved.theta, state, Info.of(at, gradient, moved, alpha)
