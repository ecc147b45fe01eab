"""What a method is: its verbs. What a scheme is: a method that holds choices."""

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..._geometry.inner_products import AbstractMetric, draw_sample
from ..._geometry.linearise import Sample
from ..._linalg.solvers import AbstractSolver
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..result import Result
from ..state import Info, State
from ..step_sizes import Shortened
from .choices import Choices


class AbstractMethod(eqx.Module):
    """Pure verbs, to be jitted, vmapped and scanned over at will.

    `init` and `draw` come before a step, `step` makes one. The other verbs are for who runs a method: which inner
    products it needs, how it is shortened, stopped, or made to fit into memory.
    """

    @abc.abstractmethod
    def init(self, theta: Vector) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points that one step sees."""

    @abc.abstractmethod
    def step(
        self, loss: AbstractLoss, D: Parametrisation, theta: Vector, state: Any, sample: Sample
    ) -> tuple[Vector, Any, Info]:
        """One step: the new parameters, the new state, and what a plot needs."""

    @property
    def inner_products(self) -> dict[str, AbstractMetric]:
        """The inner products that it needs of the loss, by the keywords that users give them by."""
        return {}

    @abc.abstractmethod
    def shortened(self, factor: jax.Array) -> "AbstractMethod":
        """The same method with its step sizes times a factor: how a safeguard retreats."""

    @property
    def solver(self) -> AbstractSolver | None:
        """How it solves; None where it never does."""
        return None

    def solving(self, solver: AbstractSolver) -> "AbstractMethod":
        """The same method with another solver, where it has one: how it is made to fit into memory."""
        return self

    @abc.abstractmethod
    def at_rest(self, theta: Vector, state: Any) -> Any:
        """The state at theta with its momentum dropped."""

    def elsewhere(self, theta: Vector, state: Any) -> Any:
        """The state where somebody else has moved theta, or has changed the loss."""
        return self.at_rest(theta, state)

    def notes(self, loss: AbstractLoss, result: Result, history: dict[str, np.ndarray]) -> tuple[str, ...]:
        """What a user should know of a run beside its result, in sentences."""
        return ()


class AbstractScheme(AbstractMethod):
    """A scheme with its choices: a method of the paper."""

    choices: eqx.AbstractVar[Choices]

    def init(self, theta: Vector) -> State:
        return State.start(theta)

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        return draw_sample(loss, D, theta, key, self.choices.W, self.choices.X)

    @property
    def inner_products(self) -> dict[str, AbstractMetric]:
        return {"W": self.choices.W} | ({} if self.choices.X is None else {"X": self.choices.X})

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        return eqx.tree_at(lambda m: m.choices.step_size, self, Shortened(self.choices.step_size, factor))

    @property
    def solver(self) -> AbstractSolver | None:
        return self.choices.solver if self.choices.W.needs_rows else None

    def solving(self, solver: AbstractSolver) -> AbstractMethod:
        return eqx.tree_at(lambda m: m.choices.solver, self, solver)

    def at_rest(self, theta: Vector, state: State) -> State:
        return state.at_rest(theta)
