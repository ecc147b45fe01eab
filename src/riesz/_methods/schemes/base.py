"""What a method is: three verbs. What a scheme is: a method that holds choices."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._geometry.frame import Frame, Sample, draw_sample
from ..._geometry.inner_products import AbstractInnerProduct, AbstractMetric
from ..._linalg.filters import AbstractFilter
from ..._linalg.solvers import QRSVD, AbstractFactorisation
from ..._problem.integral import AbstractLoss
from ..._types import Parametrisation, Vector
from ..momentum import AbstractMomentum, NoMomentum
from ..retractions import AbstractRetraction, Landing
from ..state import Info, State
from ..step_sizes import AbstractStepSize, Shortened
from ..transports import AbstractTransport


class AbstractMethod(eqx.Module):
    """Pure verbs, to be jitted, vmapped and scanned over at will."""

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
    def metrics(self) -> dict[str, AbstractMetric]:
        """The metrics it needs of the loss, by what a user calls them."""
        return {}

    @abc.abstractmethod
    def shortened(self, factor: jax.Array) -> "AbstractMethod":
        """The same method with its step sizes times a factor: how a safeguard retreats."""

    def refactorised(self, change: Callable[[AbstractFactorisation], AbstractFactorisation]) -> "AbstractMethod":
        """The same method with its factorisation changed, where it has one: how it is made to fit into memory."""
        return self

    @abc.abstractmethod
    def at_rest(self, theta: Vector, state: Any) -> Any:
        """The state at theta with its momentum dropped."""


class Choices(eqx.Module):
    """The parts of a method."""

    W: AbstractMetric
    X: AbstractInnerProduct | None
    """The inner product of the momentum; None where it is W."""
    transport: AbstractTransport
    filter: AbstractFilter
    factorisation: AbstractFactorisation | None
    step_size: AbstractStepSize
    momentum: AbstractMomentum
    retraction: AbstractRetraction

    def __check_init__(self):
        _check.kind("W", self.W, AbstractMetric, "an inner product, such as riesz.L2()")
        if self.X is not None:
            _check.kind("X", self.X, AbstractInnerProduct, "an inner product, such as riesz.L2(), or None")
        _check.kind("filter", self.filter, AbstractFilter, "a filter, such as riesz.Floor(1e-8)")
        if self.factorisation is not None:
            _check.kind(
                "factorisation",
                self.factorisation,
                AbstractFactorisation,
                "riesz.QRSVD(), riesz.Gram() or None",
            )
        _check.kind("step_size", self.step_size, AbstractStepSize, "a step size, such as riesz.Clipped(0.1)")
        _check.kind("retraction", self.retraction, AbstractRetraction, "a retraction, such as riesz.Straight()")
        carries = self.transport.follows_gauge or isinstance(self.momentum, NoMomentum)
        if self.retraction.changes_gauge and not carries:
            raise ValueError(
                "retraction changes the generating system, which a quasi method cannot follow: "
                "use the projected or the difference variant."
            )

    def frame(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, sample: Sample) -> Frame:
        """The frame at theta under these choices."""
        return Frame(loss, D, theta, sample, W=self.W, X=self.X, filter=self.filter, factorisation=self.factorisation)


class AbstractScheme(AbstractMethod):
    """A scheme with its choices: a method of the paper."""

    choices: eqx.AbstractVar[Choices]

    def init(self, theta: Vector) -> State:
        """No momentum, k = 1."""
        return State.start(theta)

    def draw(self, loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any = None) -> Sample:
        """The points of the loss, and of W and X where they have measures of their own."""
        return draw_sample(loss, D, theta, key, self.choices.W, self.choices.X)

    @property
    def metrics(self) -> dict[str, AbstractMetric]:
        """W, and X where it is another."""
        return {"W": self.choices.W} | ({} if self.choices.X is None else {"X": self.choices.X})

    def shortened(self, factor: jax.Array) -> AbstractMethod:
        """The same choices with shorter steps."""
        return eqx.tree_at(lambda m: m.choices.step_size, self, Shortened(self.choices.step_size, factor))

    def refactorised(self, change: Callable[[AbstractFactorisation], AbstractFactorisation]) -> AbstractMethod:
        """The same choices with another factorisation."""
        changed = change(self.choices.factorisation or QRSVD())
        none = lambda leaf: leaf is None
        return eqx.tree_at(lambda m: m.choices.factorisation, self, changed, is_leaf=none)

    def at_rest(self, theta: Vector, state: State) -> State:
        """No momentum, the same k."""
        return state.at_rest(theta)


def narrate(frame: Frame, space: Any, covector: Vector, landing: Landing, alpha: jax.Array) -> Info:
    """What a step from the frame tells: the space and covector of its gradient, and where it landed."""
    return Info(
        loss=frame.value,
        gradient_norm=jnp.linalg.norm(covector),
        step_norm=jnp.linalg.norm(landing.theta - frame.theta),
        alpha=alpha,
        scale=landing.scale,
        rank=space.rank,
        accepted=jnp.asarray(True),
        end=jnp.zeros((), int),
    )
