"""Natural Nesterov II: NN-II, NN-II-FD, QNN-II."""

import jax

from ..._geometry.frame import Sample
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..state import Info, State
from ..step_sizes import Search
from .base import AbstractScheme, Choices, narrate


class NesterovTwo(AbstractScheme):
    r"""$w_k = R(v_k + \Delta_k)$, then $v_{k+1} = R(v_k + \Delta_k - \alpha_k\, \mathcal{R}_{T_k} L'(w_k))$.

    With $\Delta_k = \beta_k\, \psi^{(k)T} d_k$. The differential at $w_k$ is represented in the tangent space
    at $v_k$, so one frame serves both; at $w_k$ a forward pass is enough.
    """

    choices: Choices

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: State, sample: Sample
    ) -> tuple[Vector, State, Info]:
        """Look ahead to y_k, then step from theta_k."""
        choose = self.choices
        here = choose.frame(loss, D, theta, sample)
        drift = choose.momentum(state.k) * choose.transport(here, state)
        y = choose.retraction(here, drift).theta

        there = choose.frame(loss, D, y, sample)
        g = here.representer(there.differential)

        def trial(alpha: jax.Array) -> jax.Array:
            return loss.value(D(choose.retraction(here, drift - alpha * g).theta), sample.terms)

        covector = here.covector(there.differential)
        alpha = choose.step_size(Search(g, trial, there.value, covector @ g))
        landing = choose.retraction(here, drift - alpha * g)
        return (
            landing.theta,
            State(theta, landing.delta, alpha, state.k + 1),
            narrate(here, here.W, covector, landing, alpha),
        )
