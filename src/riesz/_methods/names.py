"""The named methods: one-line compositions of a scheme, a transport and choices."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax

from .. import _check
from .._geometry.inner_products import L2, AbstractInnerProduct, AbstractMetric, GaussNewton
from .._geometry.parameter_metrics import Euclidean, Hessian
from .._linalg.filters import AbstractFilter, Floor, Shift
from .._linalg.solvers import AbstractSolver, as_solver
from .auto import Auto
from .momentum import AbstractMomentum, ConstantMomentum, NesterovMomentum, NoMomentum, as_momentum
from .retractions import AbstractRetraction, Straight
from .schemes import AbstractMethod, Choices, HeavyBall, NesterovOne, NesterovTwo
from .step_sizes import AbstractStepSize, Clipped, Constant
from .transports import Difference, Projected, Quasi, Unresolved

METHODS: dict[str, Callable[..., AbstractMethod]] = {}
"""Every named method."""


def _same(W: Any, X: Any) -> bool:
    """Whether two inner products are one, so that one factorisation serves both."""
    if W is X:
        return True
    traced = any(_check.is_traced(leaf) for leaf in jax.tree.leaves((W, X)))
    return not traced and bool(eqx.tree_equal(W, X))


def _choices(
    transport: Any,
    momentum: AbstractMomentum,
    W: AbstractMetric | None,
    X: AbstractInnerProduct | None,
    filter: AbstractFilter | None,
    step_size: AbstractStepSize | None,
    retraction: AbstractRetraction | None,
    factorisation: AbstractSolver | None,
) -> Choices:
    W = L2() if W is None else W
    if X is None and isinstance(W, GaussNewton):
        X = L2()
    elif X is not None and _same(W, X):
        X = None
    return Choices(
        W=W,
        X=X,
        transport=transport,
        filter=_floor() if filter is None else filter,
        solver=as_solver(factorisation),
        step_size=Clipped(0.1) if step_size is None else step_size,
        momentum=momentum,
        retraction=Straight() if retraction is None else retraction,
    )


@runtime_checkable
class NaturalMethod(Protocol):
    """The keywords that all natural methods share; None stands for the default that the docstring names."""

    def __call__(
        self,
        beta: Any = ...,
        W: AbstractMetric | None = None,
        X: AbstractInnerProduct | None = None,
        filter: AbstractFilter | None = None,
        step_size: AbstractStepSize | None = None,
        retraction: AbstractRetraction | None = None,
        factorisation: AbstractSolver | None = None,
    ) -> AbstractMethod:
        """The method with these choices."""
        ...


_KEYWORDS = """
    **Arguments:**

    - `beta`: momentum: a number, `NesterovMomentum(offset, scale)`, any function k -> beta with k counted from
      1, or an optax schedule. Default: {beta}.
    - `W`: the inner product that represents the gradient. Default: `L2()`.
    - `X`: the inner product that transports momentum. Default: W, or `L2()` where W is `GaussNewton()`.
    - `filter`: how Gram matrices are inverted. Default: {filter}.
    - `step_size`: Default: `Clipped(0.1)`.
    - `retraction`: Default: `Straight()`.
    - `factorisation`: Default: None, which is `QRSVD()` on the smaller side.
    """


def _floor() -> Floor:
    return Floor(1e-8)


def _natural(
    name: str, scheme: Any, transport: Any, default: Any, meaning: str, filtered: Any = _floor
) -> NaturalMethod:
    """A scheme with a transport, as a function of the remaining choices.

    The default momentum and filter are made when the method is: their numbers take the precision that is on by then.
    """

    def method(
        beta: Any = None,
        W: AbstractMetric | None = None,
        X: AbstractInnerProduct | None = None,
        filter: AbstractFilter | None = None,
        step_size: AbstractStepSize | None = None,
        retraction: AbstractRetraction | None = None,
        factorisation: AbstractSolver | None = None,
    ) -> AbstractMethod:
        momentum = as_momentum(default() if beta is None else beta)
        filter = filtered() if filter is None else filter
        return scheme(_choices(transport, momentum, W, X, filter, step_size, retraction, factorisation))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{meaning}\n{_KEYWORDS.format(beta=_WRITTEN[default], filter=_WRITTEN[filtered])}"
    METHODS[name] = method
    return method


def auto() -> AbstractMethod:
    r"""Gauss-Newton steps with nothing to tune: damped, bent with the manifold, and checked.

    For any loss that has a Gauss-Newton metric. Its path is the same whatever the units of the parameters, and under
    L -> a L + b. It stops by itself when nothing is left to gain. docs/auto.md has the mathematics.

    ```python
    solution = riesz.minimise(loss, D, theta0, riesz.auto())
    ```
    """
    return Auto()


METHODS["auto"] = auto


def _long() -> ConstantMomentum:
    return ConstantMomentum(0.9)


def _shift() -> Shift:
    return Shift(1e-6)


_WRITTEN = {
    NoMomentum: "0",
    _long: "0.9",
    ConstantMomentum: "0.5",
    NesterovMomentum: "`NesterovMomentum()`",
    _floor: "`Floor(1e-8)`",
    _shift: "`Shift(1e-6)`",
}

# fmt: off
ngd = _natural("ngd", HeavyBall, Quasi(), NoMomentum,
    "Natural gradient descent: theta - alpha G^+ grad L.")
nhb = _natural("nhb", HeavyBall, Projected(), ConstantMomentum,
    "Natural heavy ball: momentum projected from the last tangent space.")
nhb_fd = _natural("nhb_fd", HeavyBall, Difference(), ConstantMomentum,
    "Natural heavy ball with the functional difference v_k - v_{k-1}.")
qnhb = _natural("qnhb", HeavyBall, Quasi(), ConstantMomentum,
    "Quasi-natural heavy ball: momentum kept in parameters.")
nn1 = _natural("nn1", NesterovOne, Projected(), NesterovMomentum,
    "Natural Nesterov I: the gradient in the tangent space at w_k.")
nn1_fd = _natural("nn1_fd", NesterovOne, Difference(), NesterovMomentum,
    "Natural Nesterov I with the functional difference.")
qnn1 = _natural("qnn1", NesterovOne, Quasi(), NesterovMomentum,
    "Quasi-natural Nesterov I: momentum kept in parameters.")
nn2 = _natural("nn2", NesterovTwo, Projected(), NesterovMomentum,
    "Natural Nesterov II: the differential at w_k in the tangent space at v_k.")
nn2_fd = _natural("nn2_fd", NesterovTwo, Difference(), NesterovMomentum,
    "Natural Nesterov II with the functional difference.")
qnn2 = _natural("qnn2", NesterovTwo, Quasi(), NesterovMomentum,
    "Quasi-natural Nesterov II: momentum kept in parameters.")
spring = _natural("spring", HeavyBall, Unresolved(), _long,
    "SPRING: momentum kept where the tangent system does not resolve it, (I - G^+ G) delta.", _shift)
# fmt: on


def _parametric(scheme: Any, metric: AbstractMetric, beta: Any, step_size: Any, filter: Any = None) -> AbstractMethod:
    return scheme(_choices(Quasi(), as_momentum(beta), metric, None, filter, step_size, None, None))


def gd(step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Gradient descent: theta - alpha grad L.

    **Arguments:**

    - `step_size`: Default: `Clipped(0.1)`.
    """
    return _parametric(HeavyBall, Euclidean(), 0.0, step_size)


def heavy_ball(beta: Any = 0.5, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Classical heavy ball: theta + (h_k/h_{k-1}) beta (theta - theta_{k-1}) - alpha grad L.

    **Arguments:**

    - `beta`: as for the natural methods. Default: 0.5.
    - `step_size`: Default: `Clipped(0.1)`.
    """
    return _parametric(HeavyBall, Euclidean(), beta, step_size)


def nesterov(beta: Any = None, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Classical Nesterov: y - alpha grad L(y) with y = theta + beta (theta - theta_{k-1}).

    **Arguments:**

    - `beta`: as for the natural methods. Default: `NesterovMomentum()`.
    - `step_size`: Default: `Clipped(0.1)`.
    """
    return _parametric(NesterovOne, Euclidean(), NesterovMomentum() if beta is None else beta, step_size)


def newton(filter: AbstractFilter | None = None, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Newton's method with the d x d Hessian G + K; for small d.

    As Newton's method does, it seeks any stationary point: the sign of an eigenvalue survives the filter.

    **Arguments:**

    - `filter`: acts on the absolute values of the eigenvalues. Default: `Floor(1e-8)`.
    - `step_size`: Default: `Constant(1.0)`.
    """
    return _parametric(HeavyBall, Hessian(), 0.0, Constant(1.0) if step_size is None else step_size, filter)


METHODS.update(gd=gd, heavy_ball=heavy_ball, nesterov=nesterov, newton=newton)


def as_method(method: Any) -> AbstractMethod:
    """A method, or the named method with its defaults."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(sorted(METHODS))}, not {method!r}.")
        return METHODS[method]()
    return method
