"""Natural Nesterov I: NN-I, NN-I-FD, QNN-I, and classical Nesterov."""

import jax

from ..._geometry.frame import Sample
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..state import Info, State
from ..step_sizes import Search
from ..transports import Difference
from .base import AbstractScheme, Choices, narrate


class NesterovOne(AbstractScheme):
    r"""$w_k = R(v_k + \beta_k\, \psi^{(k)T} d_k)$, then $v_{k+1} = R(w_k - \alpha_k\, \mathrm{grad}\, L(w_k))$.

    Two frames, so twice the work of a natural gradient step unless the transport is `Quasi`.
    """

    choices: Choices

    def __check_init__(self):
        if self.choices.retraction.changes_gauge and not isinstance(self.choices.transport, Difference):
            raise ValueError(
                "retraction changes the generating system, so that the two moves of a Nesterov I step have no common "
                "coefficients: use the difference variant, or Nesterov II."
            )

    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: State, sample: Sample
    ) -> tuple[Vector, State, Info]:
        """Drift from theta_k to y_k, then a natural gradient step from y_k."""
        choose = self.choices
        here = choose.frame(loss, D, theta, sample)
        d = choose.transport(here, state)
        drift = choose.retraction(here, choose.momentum(state.k) * d)

        there = choose.frame(loss, D, drift.theta, sample)
        g = there.gradient

        def trial(alpha: jax.Array) -> jax.Array:
            return loss.value(D(choose.retraction(there, -alpha * g).theta), sample.terms)

        covector = there.covector(there.differential)
        alpha = choose.step_size(Search(g, trial, there.value, covector @ g))
        landing = choose.retraction(there, -alpha * g)
        state = State(theta, drift.delta + landing.delta, alpha, state.k + 1)
        return landing.theta, state, narrate(here, there.W, covector, landing, alpha)
