"""`fit` and `curve_fit`: a residual function, or a curve through data, with bounds, robust losses and error bars."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.auto import Auto, Box
from .._methods.names import as_method
from .._methods.schemes import AbstractMethod
from .._problem.features import MODES, derivative
from .._problem.losses import density_by_name
from .._problem.parametrise import Layout, parametrise
from .._problem.residual_vector import ResidualVector
from .._running.solution import Solution
from .._types import Function, Vector
from .minimise import minimise


def _flat(tree: Any) -> jax.Array:
    """All entries of a pytree of arrays, one after the other."""
    leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    if not leaves:
        raise _check.Mismatch("residual must return at least one number, but it returns none.")
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


class Whitened(eqx.Module):
    """The residuals of v at the arguments, in units of their standard deviations."""

    args: tuple[Any, ...]
    deviation: jax.Array | None
    """Standard deviations, one for all or one per residual; or the lower Cholesky factor of a covariance matrix."""

    def __call__(self, v: Function) -> jax.Array:
        r = _flat(v(*self.args))
        if self.deviation is None:
            return r
        if self.deviation.ndim < 2:
            return r / self.deviation.astype(r.dtype)
        return jax.scipy.linalg.solve_triangular(self.deviation.astype(r.dtype), r, lower=True)


class WithJacobian(eqx.Module):
    """A residual function whose derivative is given."""

    residual: Callable[..., Any]
    jacobian: Callable[..., Any]

    def __call__(self, params: Any, *args: Any) -> jax.Array:
        @jax.custom_jvp
        def flat(params: Any) -> jax.Array:
            return _flat(self.residual(params, *args))

        @flat.defjvp
        def along(primals: Any, tangents: Any) -> Any:
            r = flat(*primals)
            return r, self._product(self.jacobian(*primals, *args), *tangents, r)

        return flat(params)

    def _product(self, J: Any, tangent: Any, r: jax.Array) -> jax.Array:
        """J times a tangent: J as one matrix, or as `jax.jacobian` gives it for a residual that is one array."""
        direction = _flat(tangent)
        if getattr(J, "shape", None) == (r.size, direction.size):
            return jnp.asarray(J, r.dtype) @ direction
        parts, structure = jax.tree.flatten(J)
        wanted = [(r.size, leaf.size) for leaf in jax.tree.leaves(tangent)]
        if structure != jax.tree.structure(tangent) or any(
            np.size(part) != rows * columns for part, (rows, columns) in zip(parts, wanted, strict=True)
        ):
            raise _check.Mismatch(
                f"jac must return a matrix of shape {(r.size, direction.size)}, or what jax.jacobian(residual) would."
            )
        matrices = [jnp.reshape(part, shape).astype(r.dtype) for part, shape in zip(parts, wanted, strict=True)]
        return jnp.concatenate(matrices, axis=1) @ direction


def _deviation(sigma: Any, count: int) -> jax.Array | None:
    """What residuals are divided by: standard deviations, or the Cholesky factor of a covariance matrix."""
    if sigma is None:
        return None
    if isinstance(sigma, dict | list | tuple) or not hasattr(sigma, "ndim"):
        sigma = _flat(jax.tree.map(lambda leaf: _check.floating("sigma", leaf), sigma)) if np.ndim(sigma) else sigma
    sigma = _check.floating("sigma", sigma)
    if sigma.shape == (count, count) and sigma.ndim == 2 and count > 1:
        _check.finite_rows("sigma", sigma)
        factor = jnp.linalg.cholesky(sigma)
        if not bool(jnp.all(jnp.isfinite(factor))) or not bool(jnp.allclose(sigma, sigma.T, rtol=1e-8)):
            raise ValueError("sigma must be positive definite where it is a covariance matrix.")
        return factor
    _check.number("sigma", sigma, above=0.0)
    if sigma.size not in (1, count):
        raise ValueError(
            f"sigma must be one number, one per residual ({count}), or a covariance matrix of shape "
            f"{(count, count)}, but its shape is {sigma.shape}."
        )
    return sigma.reshape(()) if sigma.size == 1 else sigma.reshape(-1)


def _bound(name: str, bound: Any, layout: Layout, params: Any, dtype: Any, default: float) -> jax.Array:
    """One side of the bounds as a vector, from a number, an array, or a pytree of the structure of params."""
    if bound is None:
        bound = default
    if jax.tree.structure(bound) != layout.treedef:
        if jax.tree.structure(bound) != jax.tree.structure(0.0) and not isinstance(bound, list | tuple):
            raise ValueError(f"{name} of bounds must be a number, or have the structure of params.")
        bound = np.asarray(bound, float)
        sizes = sum(np.size(leaf) for leaf in jax.tree.leaves(params))
        if bound.ndim and bound.size != sizes:
            raise ValueError(f"{name} of bounds must be one number, or one per parameter ({sizes}), not {bound.shape}.")
        vector = np.broadcast_to(np.ravel(bound), sizes) if bound.ndim else np.full(sizes, bound)
    else:
        pairs = zip(jax.tree.leaves(bound), layout.shapes, strict=True)
        vector = np.concatenate([np.broadcast_to(np.asarray(side, float), shape).ravel() for side, shape in pairs])
    if np.isnan(vector).any():
        raise ValueError(f"{name} of bounds must not be NaN.")
    return jnp.asarray(vector, dtype)


def _box(bounds: Any, layout: Layout, params: Any, theta0: Vector) -> Box | None:
    """The box that bounds describe, with the start in it; None where there are no bounds."""
    if bounds is None:
        return None
    sides = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") and hasattr(bounds, "ub") else bounds
    if not isinstance(sides, tuple | list) or len(sides) != 2:
        raise ValueError(f"bounds must be a pair (low, high), not {_check.shown(bounds)}.")
    low = _bound("low", sides[0], layout, params, theta0.dtype, -np.inf)
    high = _bound("high", sides[1], layout, params, theta0.dtype, np.inf)
    if not bool(jnp.all(low < high)):
        at = int(jnp.argmin(low < high))
        raise ValueError(f"low must lie below high in bounds, but for parameter {at} they are {low[at]} and {high[at]}.")
    inside = (low <= theta0) & (theta0 <= high)
    if not bool(jnp.all(inside)):
        at = int(jnp.argmin(inside))
        raise ValueError(f"params must lie within bounds, but parameter {at} is {theta0[at]}, not in "
                         f"[{low[at]}, {high[at]}].")  # fmt: skip
    return None if bool(jnp.all(jnp.isinf(low) & jnp.isinf(high))) else Box(low, high)


def _bounded(method: AbstractMethod, box: Box | None) -> AbstractMethod:
    if box is None:
        return method
    if not isinstance(method, Auto):
        raise ValueError("method must be riesz.auto() where there are bounds: other methods know none.")
    return dataclasses.replace(method, box=box)


def fit(
    residual: Callable[..., Any],
    params: Any,
    args: tuple[Any, ...] = (),
    *,
    loss: str = "linear",
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
    - `loss`, `scale`: `"linear"` for least squares, or one of SciPy's robust losses, `"huber"`, `"soft_l1"`, `"cauchy"`
      and `"arctan"`, with the residual C around which outliers begin.
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
    _check.function("residual", residual)
    args = args if isinstance(args, tuple) else (args,)
    params = jax.tree.map(lambda leaf: _check.floating("params", leaf), params)
    if not (callable(jac) or jac in MODES):
        raise ValueError(f"jac must be a function or one of {', '.join(map(repr, MODES))}, not {_check.shown(jac)}.")
    model, mode = (WithJacobian(residual, jac), "auto") if callable(jac) else (residual, jac)
    D, theta0 = parametrise(model, params)
    args = _check.native(args)
    with _check.explained("residual must be a function of (params, *args) that JAX can trace, but it fails"):
        count = jax.eval_shape(lambda theta: Whitened(args, None)(D(theta)), theta0).size
    whitened = Whitened(args, _deviation(sigma, count))
    term = ResidualVector(whitened, density_by_name(loss, scale), mode=mode)
    chosen = _bounded(as_method(method), _box(bounds, D.layout, params, theta0))
    return minimise(term, D, theta0, chosen, **options)


class Curve(eqx.Module):
    """The residuals f(x, *p) - y of a curve."""

    f: Callable[..., Any]

    def __call__(self, p: jax.Array, x: Any, y: jax.Array) -> jax.Array:
        values = jnp.asarray(self.f(x, *p))
        if values.shape != y.shape:
            if values.size != y.size:
                raise _check.Mismatch(f"f must return as many values as y has, {y.shape}, but it returns {values.shape}.")
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

    **Returns:** the parameters, and their covariance matrix $s^2 (J^T J)^{-1}$ in the linearisation of f there; infinite
    where the data do not decide it, with a warning. A fit that has not converged says so in a warning, and one that
    failed raises `riesz.SolveError`.

    ```python
    x = jnp.linspace(0.0, 2.0, 30)
    popt, pcov = riesz.curve_fit(lambda x, a, b: a * jnp.exp(-b * x), x, 3 * jnp.exp(-0.5 * x), (1.0, 1.0))
    ```
    """
    _check.function("f", f)
    y = _check.floating("y", y)
    _check.finite_rows("y", y.reshape(-1))
    p0 = jnp.atleast_1d(_check.floating("p0", p0))
    if p0.ndim != 1:
        raise ValueError(f"p0 must have one axis of parameters, but its shape is {p0.shape}.")
    x = jax.tree.map(jnp.asarray, _check.native(x))
    solution = fit(Curve(f), p0, (x, y), sigma=sigma, bounds=bounds, **options)
    if not (solution.result.converged or solution.result.name == "TARGET_REACHED"):
        warnings.warn(f"curve_fit: {solution.result}", stacklevel=2)
    covariance = _covariance(solution, y.size, float(solution.loss), absolute_sigma)
    return np.asarray(solution.theta), covariance


def _covariance(solution: Solution, count: int, cost: float, absolute: bool) -> np.ndarray:
    """(J^T J)^-1, times the mean square of the residuals unless sigma is absolute."""
    term = solution.problem.loss.terms[0]
    _, J = derivative(lambda theta: term.operator(solution.D(theta)), solution.theta)
    _, s, Vt = np.linalg.svd(np.asarray(J), full_matrices=False)
    d = solution.theta.size
    decided = s.size == d and s[-1] > np.finfo(s.dtype).eps * max(count, d) * s[0]
    if not decided or (count <= d and not absolute):
        warnings.warn("curve_fit: the data do not decide the covariance of the parameters.", stacklevel=3)
        return np.full((d, d), np.inf)
    inverse = (Vt.T / s**2) @ Vt
    return inverse if absolute else inverse * (2 * cost / (count - d))

