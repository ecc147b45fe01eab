"""`fit` and `curve_fit`: a residual function, or a curve through data, with bounds, robust losses and error bars."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.names import as_method
from .._methods.schemes import AbstractMethod
from .._problem.features import MODES, Whole, derivative, traced
from .._problem.losses import density_by_name
from .._problem.parametrise import parametrise
from .._problem.residual_vector import ResidualVector
from .._running.compiled import Compiled
from .._running.solution import Solution
from .bounds import as_box, bounded
from .minimise import minimise
from .residuals import Whitened, WithJacobian, deviation


def fit(
    residual: Callable[..., Any],
    params: Any,
    args: tuple[Any, ...] = (),
    *,
    loss: str | Callable[[Any], Any] = "linear",
    scale: Any = 1.0,
    sigma: Any = None,
    bounds: Any = None,
    jac: str | Callable[..., Any] = "auto",
    method: AbstractMethod | str | None = None,
    **options: Any,
) -> Solution:
    r"""Fit parameters to residuals, $\min_p \sum_i \frac{C^2}{2} \rho\big((r_i(p)/C)^2\big)$.

    **Arguments:**

    - `residual`: a function `residual(params, *args)` of JAX's arrays; it returns an array, or a pytree of arrays.
    - `params`: where to start: an array, a number, or any pytree of them.
    - `args`: what else `residual` takes; other arrays of the same shapes compile nothing.
    - `loss`, `scale`: `"linear"` for least squares; one of SciPy's robust losses, `"huber"`, `"soft_l1"`, `"cauchy"`
      and `"arctan"`; or a function rho of a number. C is the residual around which outliers begin.
    - `sigma`: the standard deviations by which residuals are divided, one for all or one each; or their covariance
      matrix.
    - `bounds`: a pair (low, high) of numbers, arrays or pytrees like params; infinite or None for none. Also SciPy's
      `Bounds`. A run then converges where the gradient vanishes in all parameters but those that it would move
      out of bounds.
    - `jac`: `"auto"` for the shorter of `"forward"` and `"reverse"` mode, one of the two, or a function
      `jac(params, *args)` that returns the Jacobian, as a matrix or as `jax.jacobian(residual)` does.
    - `method`, `options`: as for `riesz.minimise`: `max_steps`, `target`, `tolerance`, `progress`, ...

    **Returns:** a `Solution`; `solution.params` has the shape of params, and `solution.loss` is the sum above.

    ```python
    x = jnp.linspace(0.0, 2.0, 30)
    residual = lambda p, x, y: p["a"] * jnp.exp(-p["b"] * x) - y
    solution = riesz.fit(residual, {"a": 1.0, "b": 1.0}, (x, 3 * jnp.exp(-0.5 * x)), bounds=(0.0, None))
    solution.params, solution.result
    ```
    """
    term, D, theta0, chosen = _problem(residual, params, args, loss, scale, sigma, bounds, jac, method)
    return minimise(term, D, theta0, chosen, **options)


def _problem(
    residual: Any,
    params: Any,
    args: Any,
    loss: Any,
    scale: Any,
    sigma: Any,
    bounds: Any,
    jac: Any,
    method: Any,
    names: tuple[str, str] = ("residual must be a function of (params, *args)", "params"),
) -> tuple[ResidualVector, Any, jax.Array, AbstractMethod]:
    """What `minimise` is to be told, from what `fit` was told; names are those of its first two arguments."""
    _check.function("residual", residual)
    args = args if isinstance(args, tuple) else (args,)
    params = jax.tree.map(lambda leaf: _check.floating(names[1], leaf), params)
    for leaf in jax.tree.leaves(params):
        _check.finite_rows(names[1], leaf.reshape(-1))
    if not (callable(jac) or jac in MODES):
        raise ValueError(f"jac must be a function or one of {', '.join(map(repr, MODES))}, not {_check.shown(jac)}.")
    model, mode = (WithJacobian(residual, jac), "auto") if callable(jac) else (residual, jac)
    D, theta0 = parametrise(model, params)
    args = _check.native(args)
    with _check.explained(f"{names[0]} that JAX can trace, but it fails"):
        plain: Any = Whole(Whitened(args, None, theta0.dtype), mode)
        count = traced(D, plain, theta0, jax.ShapeDtypeStruct((1,), theta0.dtype))[1].size
    whitened = Whitened(args, deviation(sigma, count), theta0.dtype)
    term = ResidualVector(whitened, density_by_name(loss, scale), mode=mode)
    chosen = bounded(as_method(method), as_box(bounds, D.layout, params, theta0, names[1]))
    return term, D, theta0, chosen


def _jacobian(operator: Whole, D: Any, theta: jax.Array) -> jax.Array:
    """The derivative of the residuals in theta."""
    return derivative(lambda theta: operator(D(theta)), theta, operator.mode)[1]


jacobian = Compiled(_jacobian)


class Curve(eqx.Module):
    """The residuals f(x, *p) - y of a curve."""

    f: Callable[..., Any]

    def __call__(self, p: jax.Array, x: Any, y: jax.Array) -> jax.Array:
        values = jnp.asarray(self.f(x, *p))
        if values.shape != y.shape:
            if values.size != y.size:
                raise _check.Mismatch(
                    f"f must return as many values as y has, {y.shape}, but it returns {values.shape}."
                )
            values = values.reshape(y.shape)
        return values - y


def curve_fit(
    f: Callable[..., Any],
    x: Any,
    y: Any,
    p0: Any,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = None,
    **options: Any,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Fit a curve to data, $y \approx f(x, p_1, \dots, p_d)$, as `scipy.optimize.curve_fit` does.

    **Arguments:**

    - `f`: a function `f(x, *p)` of JAX's arrays, of the whole x.
    - `x`: what f takes first: most often an array.
    - `y`: the data, of the shape of what f returns.
    - `p0`: where to start.
    - `sigma`: the standard deviations of the data, or their covariance matrix.
    - `absolute_sigma`: whether sigma is known in units of the data; if not, only its relative sizes matter, and its
      scale is estimated from the residuals.
    - `bounds`: a pair (low, high), as for `riesz.fit`.
    - `options`: as for `riesz.fit`.

    **Returns:** the parameters, and their covariance matrix $s^2 (J^T J)^{-1}$ in the linearisation of f there;
    infinite where the data do not decide it, with a warning. A fit that has not converged says so in a warning, and
    one that failed raises `riesz.SolveError`.

    ```python
    x = jnp.linspace(0.0, 2.0, 30)
    popt, pcov = riesz.curve_fit(lambda x, a, b: a * jnp.exp(-b * x), x, 3 * jnp.exp(-0.5 * x), (1.0, 1.0))
    ```
    """
    _check.function("f", f)
    y = _check.floating("y", y)
    if not y.size:
        raise ValueError("y must have at least one value, but it has none.")
    _check.finite_rows("y", y.reshape(-1))
    p0 = jnp.atleast_1d(_check.floating("p0", p0))
    if p0.ndim != 1:
        raise ValueError(f"p0 must have one axis of parameters, but its shape is {p0.shape}.")
    x = np.asarray(x, float) if isinstance(x, list) else x  # as SciPy takes it; other pytrees stay what they are
    x = jax.tree.map(jnp.asarray, _check.native(x))
    method = options.pop("method", None)
    told = options.pop("loss", "linear"), options.pop("scale", 1.0), sigma, bounds, options.pop("jac", "auto"), method
    names = "f must be a function of (x, *p)", "p0"
    term, D, theta0, chosen = _problem(Curve(f), p0, (x, y), *told, names=names)
    solution = minimise(term, D, theta0, chosen, **options)
    if not (solution.result.converged or solution.result.name == "TARGET_REACHED"):
        warnings.warn(f"curve_fit: {solution.result}", stacklevel=2)
    J = jacobian(term.operator, D, solution.theta, quick=True)
    return np.asarray(solution.theta), _covariance(np.asarray(J), float(solution.loss), absolute_sigma)


def _covariance(J: np.ndarray, cost: float, absolute: bool) -> np.ndarray:
    """(J^T J)^-1, times the mean square of the residuals unless sigma is absolute."""
    count, d = J.shape
    _, s, Vt = np.linalg.svd(J, full_matrices=False)
    decided = s.size == d and s[-1] > np.finfo(s.dtype).eps * max(count, d) * s[0]
    if not decided or (count <= d and not absolute):
        warnings.warn("curve_fit: the data do not decide the covariance of the parameters.", stacklevel=3)
        return np.full((d, d), np.inf)
    inverse = (Vt.T / s**2) @ Vt
    return inverse if absolute else inverse * (2 * cost / (count - d))
