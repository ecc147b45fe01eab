"""The named methods: one-line compositions of a scheme, a transport and choices."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from .. import _check
from .._geometry.inner_products import L2, AbstractInnerProduct, AbstractMetric, GaussNewton
from .._geometry.parameter_metrics import Euclidean, Hessian
from .._linalg.filters import AbstractFilter, Floor, Shift
from .._linalg.solvers import AbstractSolver, as_solver
from .auto import Auto, LongSteps, QuickSteps
from .momentum import ConstantMomentum, NesterovMomentum, NoMomentum, as_momentum
from .retractions import AbstractRetraction, Straight
from .schemes import AbstractMethod, Choices, HeavyBall, NesterovOne, NesterovTwo
from .step_sizes import AbstractStepSize, Clipped, Constant
from .transports import Difference, Projected, Quasi, Unresolved


def _same(W: Any, X: Any) -> bool:
    """Whether two inner products are one, so that one factorisation serves both."""
    if W is X:
        return True
    traced = any(_check.is_traced(leaf) for leaf in jax.tree.leaves((W, X)))
    return not traced and bool(eqx.tree_equal(W, X))


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


# Defaults, each with its name in the docs; they are made when a method is, in the precision that is on by then.
_NONE = (NoMomentum, "0")
_HALF = (ConstantMomentum, "0.5")
_LONG = (lambda: ConstantMomentum(0.9), "0.9")
_RISING = (NesterovMomentum, "`NesterovMomentum()`")
_FLOOR = (lambda: Floor(1e-8), "`Floor(1e-8)`")
_SHIFT = (lambda: Shift(1e-6), "`Shift(1e-6)`")


def _natural(name: str, scheme: Any, transport: Any, rule: Any, meaning: str, filtered: Any = _FLOOR):
    """A scheme with a transport, as a function of the remaining choices; type checkers see its keywords."""

    def method(
        beta: Any = None,
        W: AbstractMetric | None = None,
        X: AbstractInnerProduct | None = None,
        filter: AbstractFilter | None = None,
        step_size: AbstractStepSize | None = None,
        retraction: AbstractRetraction | None = None,
        factorisation: AbstractSolver | None = None,
    ) -> AbstractMethod:
        W = L2() if W is None else W
        if X is None and isinstance(W, GaussNewton):
            X = L2()
        elif X is not None and _same(W, X):
            X = None
        choices = Choices(
            W=W,
            X=X,
            transport=transport,
            filter=filtered[0]() if filter is None else filter,
            solver=as_solver(factorisation),
            step_size=Clipped(0.1) if step_size is None else step_size,
            momentum=as_momentum(rule[0]() if beta is None else beta),
            retraction=Straight() if retraction is None else retraction,
        )
        return scheme(choices)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{meaning}\n{_KEYWORDS.format(beta=rule[1], filter=filtered[1])}"
    METHODS[name] = method
    return method


def auto(
    quick: QuickSteps | None = None, long: LongSteps | bool = True, factorisation: AbstractSolver | None = None
) -> AbstractMethod:
    r"""Gauss-Newton steps with nothing to tune: quick ones, then long ones where the loss could vanish but does not.

    For any loss that has a Gauss-Newton metric. It stops by itself when nothing is left to gain. The path of the quick
    steps is the same whatever the units of the parameters, and under L -> a L + b. docs/auto.md has the mathematics.

    **Arguments:**

    - `quick`: the quick steps, `riesz.QuickSteps()` by default.
    - `long`: the long steps, `riesz.LongSteps()` by default; False for none, where there is time for a hundred steps or
      two, and not for several hundred.
    - `factorisation`: `QRSVD()` by default. With any other there are no long steps, which need the smallest singular
      values.

    ```python
    solution = riesz.minimise(loss, D, theta0, riesz.auto())
    ```
    """
    quick, long = QuickSteps() if quick is None else quick, LongSteps() if long is True or long is None else long
    _check.kind("quick", quick, QuickSteps, "riesz.QuickSteps(), or None")
    if long is not False:
        _check.kind("long", long, LongSteps, "riesz.LongSteps(), or False")
    return Auto(quick, long or None, factorisation)  # type: ignore[arg-type]


CAREFUL = 0.01
"""The radius of quick steps where a validation chooses among the iterates."""


def careful() -> AbstractMethod:
    r"""The default where a validation chooses among iterates: quick steps of `auto`, damped strongly, that never climb.

    What is wanted then is not the minimiser but the best point on the way to it. Longer steps pass it by: they fit
    what is particular to the data before the validation is looked at. Of points to which the loss has climbed, many
    are no use, and on few data one of them looks best by chance.
    """
    return auto(QuickSteps(radius=CAREFUL, climbs=False), long=False)


METHODS: dict[str, Callable[..., AbstractMethod]] = {"auto": auto}
"""Every named method."""

# fmt: off
ngd = _natural("ngd", HeavyBall, Quasi(), _NONE,
    "Natural gradient descent: theta - alpha G^+ grad L.")
nhb = _natural("nhb", HeavyBall, Projected(), _HALF,
    "Natural heavy ball: momentum projected from the last tangent space.")
nhb_fd = _natural("nhb_fd", HeavyBall, Difference(), _HALF,
    "Natural heavy ball with the functional difference v_k - v_{k-1}.")
qnhb = _natural("qnhb", HeavyBall, Quasi(), _HALF,
    "Quasi-natural heavy ball: momentum kept in parameters.")
nn1 = _natural("nn1", NesterovOne, Projected(), _RISING,
    "Natural Nesterov I: the gradient in the tangent space at w_k.")
nn1_fd = _natural("nn1_fd", NesterovOne, Difference(), _RISING,
    "Natural Nesterov I with the functional difference.")
qnn1 = _natural("qnn1", NesterovOne, Quasi(), _RISING,
    "Quasi-natural Nesterov I: momentum kept in parameters.")
nn2 = _natural("nn2", NesterovTwo, Projected(), _RISING,
    "Natural Nesterov II: the differential at w_k in the tangent space at v_k.")
nn2_fd = _natural("nn2_fd", NesterovTwo, Difference(), _RISING,
    "Natural Nesterov II with the functional difference.")
qnn2 = _natural("qnn2", NesterovTwo, Quasi(), _RISING,
    "Quasi-natural Nesterov II: momentum kept in parameters.")
spring = _natural("spring", HeavyBall, Unresolved(), _LONG,
    "SPRING: momentum kept where the tangent system does not resolve it, (I - G^+ G) delta.", _SHIFT)
# fmt: on


def gd(step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Gradient descent: theta - alpha grad L.

    **Arguments:**

    - `step_size`: Default: `Clipped(0.1)`.
    """
    return qnhb(0.0, Euclidean(), step_size=step_size)


def heavy_ball(beta: Any = 0.5, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Classical heavy ball: theta + (h_k/h_{k-1}) beta (theta - theta_{k-1}) - alpha grad L.

    **Arguments:**

    - `beta`: as for the natural methods. Default: 0.5.
    - `step_size`: Default: `Clipped(0.1)`.
    """
    return qnhb(beta, Euclidean(), step_size=step_size)


def nesterov(beta: Any = None, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Classical Nesterov: y - alpha grad L(y) with y = theta + beta (theta - theta_{k-1}).

    **Arguments:**

    - `beta`: as for the natural methods. Default: `NesterovMomentum()`.
    - `step_size`: Default: `Clipped(0.1)`.
    """
    return qnn1(beta, Euclidean(), step_size=step_size)


def newton(filter: AbstractFilter | None = None, step_size: AbstractStepSize | None = None) -> AbstractMethod:
    """Newton's method with the d x d Hessian G + K; for small d.

    As Newton's method does, it seeks any stationary point: the sign of an eigenvalue survives the filter.

    **Arguments:**

    - `filter`: acts on the absolute values of the eigenvalues. Default: `Floor(1e-8)`.
    - `step_size`: Default: `Constant(1.0)`.
    """
    return qnhb(0.0, Hessian(), filter=filter, step_size=Constant(1.0) if step_size is None else step_size)


METHODS.update(gd=gd, heavy_ball=heavy_ball, nesterov=nesterov, newton=newton)


def as_method(method: Any) -> AbstractMethod:
    """A method, or the named method with its defaults; None is `auto()`."""
    if method is None:
        return auto()
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(sorted(METHODS))}, not {method!r}.")
        return METHODS[method]()
    return _check.kind("method", method, AbstractMethod, "a method, such as riesz.nhb(), or its name")
