"""What `minimise` checks and puts together before anything is compiled."""

import dataclasses
import logging
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh

from .. import _check
from .._geometry.inner_products import AbstractMetric, GaussNewton, InnerProduct
from .._methods.auto import Auto
from .._methods.names import as_method
from .._methods.safeguard import Safeguard
from .._methods.schemes import AbstractScheme, Choices
from .._methods.state import STEP_COLUMNS
from .._methods.step_sizes import Search
from .._problem.checks import check_problem, check_term, kinked
from .._problem.curvature import Curvature
from .._problem.features import Whole, traced
from .._problem.integral import AbstractLoss, AbstractTerm, Integral
from .._problem.programs import calls_lapack
from .._problem.ridge import plain
from .._types import Vector
from .buckets import in_buckets
from .compiled import everywhere
from .loop import TOLERANCES
from .memory import fitted, is_small
from .problem import Problem
from .shape import by_shape

logger = logging.getLogger("riesz")
_warned = threading.Event()


def _check_precision(dtype: Any) -> None:
    if dtype == jnp.float32 and not jax.config.read("jax_enable_x64") and not _warned.is_set():
        _warned.set()
        warnings.warn(
            "theta0 is float32, which limits natural gradients to about three digits; for more, put this first: "
            'import jax; jax.config.update("jax_enable_x64", True)',
            stacklevel=4,
        )


def check_start(theta: Any, ndim: int, name: str) -> jax.Array:
    """One start (ndim 1) or a batch of them (ndim 2): finite floating-point numbers."""
    theta = _check.array(name, theta)
    shape = "one axis of parameters" if ndim == 1 else "two axes, starts and parameters"
    if theta.ndim != ndim or theta.size == 0:
        raise ValueError(f"{name} must have {shape}, but its shape is {theta.shape}.")
    if not jnp.issubdtype(theta.dtype, jnp.floating):
        raise TypeError(f"{name} must be floating-point, but its dtype is {theta.dtype}.")
    _check.finite_rows(name, theta)
    return theta


def _check_dependence(loss: AbstractLoss, idle: tuple[str, ...]) -> None:
    """Refuse a loss that does not depend on theta, and warn where only the terms named in `idle` do not."""
    why = (
        "the operator's values do not depend on the parameters: an activation with zero second derivative, such as "
        "relu, under a Laplacian does this; take a smooth one, such as tanh."
    )
    if len(idle) == len(loss.terms):
        raise ValueError(f"loss must depend on theta, but {why}")
    if idle:
        warnings.warn(f"In {' and '.join(idle)} {why}", stacklevel=4)


def _warn_of_kinks(hidden: tuple[str, ...]) -> None:
    """Say that second derivatives do not see the kinks of the model, in the terms that are named."""
    if hidden:
        warnings.warn(
            f"In {' and '.join(hidden)} the operator takes second derivatives, and the model has kinks that they do "
            "not see, as relu and abs make them: the loss may vanish where the equation does not hold; take a smooth "
            "activation, such as tanh.",
            stacklevel=4,
        )


def _check_metrics(metrics: Any, theta: jax.Array) -> dict[str, Callable[[Any], Any]]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dictionary of functions of theta, not {_check.shown(metrics)}.")
    for name in metrics:
        _check.kind("every name in metrics", name, str, "text")
    taken = {"loss", "seconds", "step", "start", "validation", "between", "redrawn", *STEP_COLUMNS} & set(metrics)
    if taken:
        raise ValueError(f"metrics must not be named {', '.join(sorted(taken))}: the history has that column.")
    for name, f in metrics.items():
        _check.function(f"metrics[{name!r}]", f)
        with _check.explained(f"metrics[{name!r}] must be a function of theta that JAX can trace, but it fails"):
            value = jax.eval_shape(f, theta)
        if getattr(value, "shape", None) != ():
            raise ValueError(f"metrics[{name!r}] must return a scalar, but it returns {_check.shown(value)}.")
        if not any(jnp.issubdtype(value.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
            raise TypeError(f"metrics[{name!r}] must return a real number, but its dtype is {value.dtype}.")
    return dict(metrics)


class LossOf(eqx.Module):
    """A loss on fixed points as a function of theta."""

    loss: AbstractLoss
    D: Any

    def __call__(self, theta: Vector) -> jax.Array:
        return self.loss(self.D(theta))


def _check_validation(validation: Any, D: Any, theta: jax.Array) -> Any:
    """The validation as a function of theta, or None."""
    if validation is None:
        return None
    if isinstance(validation, AbstractLoss):
        if validation.drawn:
            raise ValueError("validation must be a loss on fixed points: one that draws them compares nothing.")
        check_problem(validation, D, theta, None)
        return LossOf(validation, plain(D))
    _check.function("validation", validation)
    with _check.explained("validation must be a loss or a function of theta that JAX can trace, but it fails"):
        value = jax.eval_shape(validation, theta)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, jnp.floating):
        raise ValueError(f"validation must return a real scalar, but it returns {_check.shown(value)}.")
    return Number(validation)


class Number(eqx.Module):
    """A function of theta, its value in the precision of theta."""

    f: Callable[[Any], Any]

    def __call__(self, theta: Vector) -> jax.Array:
        return jnp.asarray(self.f(theta), theta.dtype)


def _check_target(target: Any, metrics: dict[str, Any]) -> Any:
    if isinstance(target, dict):
        unknown = set(target) - set(metrics)
        if unknown or not target:
            names = ", ".join(sorted(map(str, unknown))) or "in it"
            raise ValueError(f"target must name metrics; there is no metric {names}.")
        return {name: float(_check.scalar(f"target[{name!r}]", value)) for name, value in target.items()}
    return None if target is None else float(_check.scalar("target", target))


def _check_tolerance(tolerance: Any) -> dict[str, float]:
    """By what it is for; a number is for steps."""
    if tolerance is None:
        return {}
    if not isinstance(tolerance, dict):
        return {"step": float(_check.scalar("tolerance", tolerance, least=0.0))}
    if not tolerance or not set(tolerance) <= set(TOLERANCES):
        raise ValueError(
            f"tolerance must be a number, or a dictionary with {', '.join(map(repr, TOLERANCES))}, "
            f"not {_check.shown(tolerance)}."
        )
    return {name: float(_check.scalar(f"tolerance[{name!r}]", bound, least=0.0)) for name, bound in tolerance.items()}


def _check_choices(choices: Choices, theta: jax.Array) -> None:
    """Refuse parts whose numbers are not single ones in the precision of theta."""
    number = jax.ShapeDtypeStruct((), theta.dtype)
    parts: dict[str, tuple[Callable[..., Any], Any, Any]] = {
        "filter": (choices.filter, theta, theta),
        "beta": (choices.momentum, jnp.zeros((), int), number),
        "step_size": (lambda g: choices.step_size(Search(g, lambda alpha: alpha, g[0], g[0])), theta, number),
    }
    for name, (part, argument, expected) in parts.items():
        with _check.explained(f"{name} must be made of single numbers, but it fails"):
            found = jax.eval_shape(part, argument)
        if found.shape != expected.shape:
            raise ValueError(f"{name} must be made of single numbers, but it gives shape {found.shape}.")
        if not found.weak_type and jnp.promote_types(found.dtype, theta.dtype) != theta.dtype:
            raise TypeError(f"theta and {name} must have one dtype, but they are {theta.dtype} and {found.dtype}.")


def _terms(loss: AbstractLoss, D: Any, theta: jax.Array, key: Any) -> list[tuple[AbstractTerm, Any, Any, Any]]:
    """Every term with the shapes of its points, the traced program of its values, and the shape of these."""
    pairs = zip(loss.terms, jax.eval_shape(lambda: loss.draw(key, D, theta)), strict=True)
    return [(term, over, *traced(D, term.operator, theta, over.x)) for term, over in pairs]


def _check_metric(name: str, metric: AbstractMetric, loss: AbstractLoss, D: Any, theta: Any, key: Any) -> None:
    """Refuse an inner product, known to users by its name, that does not fit the problem."""
    if metric.drawn and key is None:
        raise ValueError(f"key must be given, such as jax.random.key(0): {name} draws its points each step.")
    if isinstance(metric, GaussNewton):
        parts = _terms(loss, D, theta, key)
        if all(term.curvature(z, over) is Curvature.ZERO for term, over, _, z in parts):
            raise ValueError(f"{name}=GaussNewton() has no metric here: every density of the loss is linear.")
    if isinstance(metric, InnerProduct):
        density = (lambda z: jnp.sum(z**2)) if metric.density is None else metric.density
        if metric.over is None and any(isinstance(term.operator, Whole) for term in loss.terms):
            raise ValueError(f"over must be given to {name}: a ResidualVector of the loss has no points of its own.")
        for over in [term.over for term in loss.terms] if metric.over is None else [metric.over]:
            term = Integral(density, over, metric.operator)
            check_term(name, term, jax.eval_shape(lambda term=term: term.draw_points(key, D, theta)), D, theta)


def checked_mesh(mesh: Any) -> Mesh | None:
    """The devices of a mesh of any shape and kind of axes, in a row; None where there is nothing to spread over."""
    if mesh is None:
        return None
    _check.kind("mesh", mesh, Mesh, 'a mesh, such as jax.make_mesh((8,), ("points",)), or None')
    return Mesh(np.asarray(mesh.devices).reshape(-1), ("points",), axis_types=(AxisType.Auto,))


@dataclasses.dataclass(frozen=True)
class Options:
    """What `minimise` and `minimise_many` are told beside the problem, checked."""

    max_steps: int
    target: float | dict[str, float] | None
    tolerance: dict[str, float]
    max_seconds: float | None
    metrics: dict[str, Callable[[Any], Any]]
    progress: bool | str
    patience: int = 0
    """For how many steps a validation may not improve."""

    @classmethod
    def checked(
        cls, theta: Vector, max_steps: Any, target: Any, tolerance: Any, max_seconds: Any, metrics: Any, progress: Any
    ) -> "Options":
        """The options for runs from starts like theta."""
        if max_seconds is not None:
            _check.scalar("max_seconds", max_seconds, above=0.0)
        if progress not in (True, False, "auto"):
            raise ValueError(f'progress must be True, False or "auto", not {_check.shown(progress)}.')
        metrics = _check_metrics(metrics, theta)
        steps = _check.count("max_steps", max_steps, least=0)
        checked = steps, _check_target(target, metrics), _check_tolerance(tolerance)
        return cls(*checked, max_seconds, metrics, progress)

    @property
    def tests(self) -> dict[str, Any]:
        """What a single run is told."""
        return {name: getattr(self, name) for name in ("max_steps", "target", "tolerance", "metrics", "patience")}


def prepare(
    loss: Any,
    D: Any,
    theta: jax.Array,
    method: Any,
    key: Any,
    options: Options,
    memory: Any,
    runs: int = 1,
    mesh: Mesh | None = None,
    validation: Any = None,
) -> tuple[Problem, Any, tuple[str, ...]]:
    """The problem, the key where one is needed, and notes; everything is checked before anything is compiled.

    `theta` is one start, and `memory` is shared by as many `runs` as are made at a time.
    """
    validation = _check_validation(validation, D, theta)
    chosen = as_method(method)
    _check_dependence(loss, idle := check_problem(loss, D, theta, key))
    _warn_of_kinks(tuple(name for name in kinked(loss, D, theta, key) if name not in idle))
    if isinstance(chosen, AbstractScheme):
        _check_choices(chosen.choices, theta)
    for name, metric in chosen.inner_products.items():
        shown = f"method=riesz.auto(), with {name}" if isinstance(chosen, Auto) else name
        _check_metric(shown, metric, loss, D, theta, key)
    if loss.adapts and validation is not None:
        raise ValueError("validation must be None where points adapt: both choose which parameters are returned.")
    drawn = loss.drawn or any(metric.drawn for metric in chosen.inner_products.values())
    _check_precision(theta.dtype)
    wanted = by_shape(loss, D, theta, chosen, key)
    notes = (
        ()
        if wanted is chosen
        else (f"Rows are many numbers, so {wanted.solver} solves with them: see factorisation=.",)
    )
    chosen = fitted(loss, D, theta, wanted, key, memory, runs)
    notes += () if chosen is wanted else (f"Memory is short, so rows are solved by {chosen.solver}: see memory=.",)
    small = is_small(loss, D, theta, chosen, key)
    silent = {"solver_residual"} if chosen.solver is None or chosen.solver.has_spectrum else set()
    silent |= set() if isinstance(chosen, Auto) and chosen.goes_on(loss) else {"phase"}
    looks = "gradient" in options.tolerance
    # Rows that are fewer than parameters are solved on their own side, which more rows would change.
    rows = sum(math.prod((over.x.shape[0], *z.shape[1:])) for _, over, _, z in _terms(loss, D, theta, key))
    if rows < theta.size and not drawn:
        notes += (
            f"There are {rows} rows (values at points) for {theta.size} parameters, so that the loss can vanish at the "
            "points and say nothing of what is between them: take more points or fewer parameters.",
        )
        logger.warning(notes[-1])
    if small and rows >= theta.size:
        loss = in_buckets(loss)
    mixes = chosen.solver is not None and chosen.solver.drawn
    if mixes and key is None:
        raise ValueError("key must be given for factorisation=riesz.Sketched(...), which mixes rows anew each step.")
    told = drawn, bool(options.metrics), small, frozenset(silent), looks, mixes, mesh, validation
    problem, key = everywhere((Problem(loss, D, Safeguard(chosen), *told), key if drawn or mixes else None), mesh)
    return problem, key, notes


def has_lapack_at_points(loss: AbstractLoss, D: Any, theta: jax.Array, key: Any) -> bool:
    """Whether the model calls LAPACK at a point, so that a step hands batches of matrices to it."""
    for term, over, program, z in _terms(loss, D, theta, key):
        few = jax.tree.map(lambda a, z=z: jax.ShapeDtypeStruct((z.shape[0], *a.shape[1:]), a.dtype), over)
        density = jax.make_jaxpr(lambda z, over, term=term: term.densities(z, over))(z, few)
        if calls_lapack(program) or calls_lapack(density):
            return True
    return False
