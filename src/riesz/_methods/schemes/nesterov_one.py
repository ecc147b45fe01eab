"""Natural Nesterov I: NN-I, NN-I-FD, QNN-I, and classical Nesterov."""

import jax

from ..._geometry.linearise import Sample
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..state import Info, State
from ..step_sizes import Search
from ..transports import Difference
from .base import AbstractScheme
from .choices import Choices


class NesterovOne(AbstractScheme):
    r"""$w_k = R(v_k + \beta_k\, \psi^{(k)T} d_k)$, then $v_{k+1} = R(w_k - \alpha_k\, \mathrm{grad}\, L(w_k))$.

    Two linearisations, so twice the work of a natural gradient step unless the transport is `Quasi`.
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
        choices = self.choices
        bends = choices.retraction.projects
        at = choices.linearise(loss, D, theta, sample, rows=bends or choices.transport.inner_product is not None)
        W = choices.gradient_space(at, sample) if bends else None
        d = choices.transport(at, choices.momentum_space(at, sample, W), state)
        drift = choices.retraction(at, W, choices.momentum(state.k) * d)

        there = choices.linearise(loss, D, drift.theta, sample)
        W = choices.gradient_space(there, sample)
        gradient = W.represent(there, there.slopes)
        g = gradient.coefficients

        def trial(alpha: jax.Array) -> jax.Array:
            return loss.value(D(choices.retraction(there, W, -alpha * g).theta), sample.terms)

        alpha = choices.step_size(Search(g, trial, there.loss, gradient.covector @ g))
        moved = choices.retraction(there, W, -alpha * g)
        state = State(theta, drift.delta + moved.delta, alpha, state.k + 1)
        return moved.theta, state, Info.of(at, gradient, moved, alpha)
