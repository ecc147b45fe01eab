"""`riesz.fit` in the shape of SciPy's `least_squares`, and the plugin that hands it to SciPy's own tests.

    python -m pytest -p scipy_shape --pyargs scipy.optimize.tests.test_least_squares

The suite's residuals are written in NumPy. Most run in JAX as they are once `np` is `jax.numpy`; those that write into
arrays are called back, with Jacobians of the suite's own or by finite differences, and finite differences of these
where a second derivative is asked for.
"""

import dataclasses
import functools
import inspect
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from scipy.optimize._numdiff import approx_derivative

import riesz

jax.config.update("jax_enable_x64", True)
# Callbacks wait for arrays that the thread which calls them may yet have to make.
jax.config.update("jax_cpu_enable_async_dispatch", False)
OF_STATUS = {"CONVERGED_GRADIENT": 1, "CONVERGED_LOSS": 2, "CONVERGED_STEP": 3, "TARGET_REACHED": 2}
OF_STATUS |= {"STEP_LIMIT": 0, "STOPPED_BY_CALLBACK": -2}
"""SciPy's numbers for the ends of a run; -1 for what riesz calls neither converged nor a limit."""
DEFAULT = 1e-8
"""Of SciPy's tolerances; where they are left at that, riesz stops when it would."""
SCHEMES = ("2-point", "3-point", "cs")


@functools.cache
def _names(module):
    """The names of a module, with jax.numpy in the place of NumPy, for its functions to be read in."""
    names = dict(vars(sys.modules[module]), np=jnp)
    for name, value in list(names.items()):
        if isinstance(value, types.FunctionType) and value.__module__ == module:
            names[name] = _reread(value, names)
    return names


def _reread(f, names):
    return types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)


@functools.cache
def in_jax(f, kwargs=()):
    """A function of the suite as JAX reads it, the same one each time, so that it is compiled once."""
    if kwargs:
        plain = in_jax(f)
        return lambda x, *args: plain(x, *args, **dict(kwargs))
    if isinstance(f, types.FunctionType):
        return _reread(f, _names(f.__module__))
    if isinstance(f, types.MethodType):
        return types.MethodType(_reread(f.__func__, _names(f.__func__.__module__)), f.__self__)
    called = type(f).__call__
    return types.MethodType(_reread(called, _names(called.__module__)), f)


def _dense(J):
    return J.toarray() if hasattr(J, "toarray") else J @ np.identity(J.shape[1]) if hasattr(J, "matvec") else J


def _outside(f, like, *arguments):
    """What a function gives that is called outside of JAX, of the shape and precision of `like`."""
    inside = lambda *a: np.asarray(f(*map(np.asarray, a)), float)
    shape = jax.ShapeDtypeStruct(np.shape(like), arguments[0].dtype)
    return jax.pure_callback(inside, shape, *arguments, vmap_method="sequential")


def called_back(f, slope=None):
    """A function of a vector that is called outside of JAX; its derivative is `slope`, or by central differences."""

    @jax.custom_jvp
    def call(x):
        return _outside(f, f(np.ones(x.shape)), x)

    def differences(x, t):
        h = 1e-5 * max(1, np.max(np.abs(x))) / max(np.max(np.abs(t)), 1e-300)
        return (np.asarray(f(x + h * t)) - np.asarray(f(x - h * t))) / (2 * h)

    @call.defjvp
    def along(primals, tangents):
        (x,), (t,) = primals, tangents
        here = call(x)
        return here, _outside(differences, here, x, t) if slope is None else slope(x) @ t

    return call


@functools.cache
def traceable(fun, jac, kwargs, args, size):
    """The residual, and the Jacobian or the name of a mode, as `riesz.fit` takes them."""
    start, given = jax.ShapeDtypeStruct((size,), float), dict(kwargs)
    args = [np.reshape(np.frombuffer(raw, dtype), shape) for raw, dtype, shape in args]

    def traces(f):
        try:
            jax.eval_shape(f, start, *args)
        except (jax.errors.JAXTypeError, TypeError, AttributeError, ValueError):
            return False
        return True

    residual = in_jax(fun, kwargs)
    is_traced = traces(residual)
    if jac in SCHEMES and is_traced:
        return residual, "auto"
    if callable(jac):
        own = in_jax(jac, kwargs)
        if is_traced and traces(own):
            return residual, own
        slope = lambda x: _dense(jac(x, *args, **given))
    else:
        slope = lambda x: approx_derivative(lambda x: fun(x, *args, **given), x, jac)
    back = called_back(slope)
    if is_traced:
        return residual, lambda x, *args: back(x)
    outside = called_back(lambda x: fun(x, *args, **given), back)
    return (lambda x, *args: outside(x)), "auto"


@dataclasses.dataclass
class Callback:
    """A callback as SciPy calls it, as riesz calls it."""

    f: object

    def __call__(self, steps, solution):
        found = scipy.optimize.OptimizeResult(x=np.asarray(solution.theta), nit=steps, fun=None)
        names = list(inspect.signature(self.f).parameters)
        try:
            return bool(self.f(found if names == ["intermediate_result"] else found.x))
        except StopIteration:
            return True


def least_squares(
    fun, x0, jac="2-point", bounds=(-np.inf, np.inf), method="trf", ftol=DEFAULT, xtol=DEFAULT, gtol=DEFAULT,
    x_scale=None, loss="linear", f_scale=1.0, diff_step=None, tr_solver=None, tr_options=None, jac_sparsity=None,
    max_nfev=None, verbose=0, args=(), kwargs=None, callback=None, workers=None,
):  # fmt: skip
    """`riesz.fit`, called and answering as SciPy's function of this name; options that riesz lacks are ignored."""
    x0 = np.atleast_1d(x0)
    x0 = x0 if np.iscomplexobj(x0) else x0.astype(float)
    fun(x0, *args, **(kwargs or {}))  # what it raises is the caller's to see
    given = tuple((np.asarray(a).tobytes(), np.asarray(a).dtype, np.shape(a)) for a in args)
    known = callable(jac) or jac in SCHEMES
    kwargs = {} if kwargs is None else kwargs
    residual, mode = traceable(fun, jac if known else "2-point", tuple(kwargs.items()), given, x0.size)
    wanted = {"loss": ftol, "step": xtol, "gradient": gtol}
    tolerance = {name: bound for name, bound in wanted.items() if bound not in (None, DEFAULT)}
    rho = loss if isinstance(loss, str) else robust(loss)
    solution = riesz.fit(
        residual, x0, tuple(map(np.asarray, args)), loss=rho, scale=f_scale, bounds=bounds, jac=mode if known else jac,
        max_steps=1000 if max_nfev is None else max_nfev - 1, progress=False, throw=False,
        tolerance=tolerance or None, callback=None if callback is None else Callback(callback),
    )  # fmt: skip
    return answer(solution, residual, mode, args, f_scale, bounds)


@functools.cache
def robust(rows, k=0):
    """Row k of a loss of the suite: rho, rho' or rho''."""

    @jax.custom_jvp
    def rho(z):
        row = lambda z: np.asarray(rows(np.ravel(z))[k]).reshape(np.shape(z))
        return jax.pure_callback(row, jax.ShapeDtypeStruct(z.shape, z.dtype), z, vmap_method="expand_dims")

    @rho.defjvp
    def along(primals, tangents):
        slope = robust(rows, k + 1)(*primals) if k < 2 else jnp.zeros_like(*primals)
        return rho(*primals), slope * tangents[0]

    return rho


def answer(solution, residual, mode, args, f_scale, bounds):
    """A solution as SciPy tells it."""
    x = solution.theta
    r = lambda x: jnp.ravel(residual(x, *args))
    J = jnp.reshape(mode(x, *args) if callable(mode) else jax.jacfwd(r)(x), (-1, x.size))
    density = solution.problem.loss.terms[0].density
    fun, x = r(x), np.asarray(x)
    grad = np.asarray(J.T @ jax.vmap(jax.grad(density))(fun))
    curvature = np.maximum(jax.vmap(jax.grad(jax.grad(density)))(fun), np.finfo(float).eps)
    low, high = (bounds.lb, bounds.ub) if isinstance(bounds, scipy.optimize.Bounds) else bounds
    mask = np.where(x <= low, -1, np.where(x >= high, 1, 0))
    status = OF_STATUS.get(solution.result.name, -1)
    return scipy.optimize.OptimizeResult(
        x=x, cost=float(solution.loss), fun=np.asarray(fun), jac=np.sqrt(curvature)[:, None] * np.asarray(J), grad=grad,
        optimality=float(np.max(np.abs(np.where(mask * grad < 0, 0, grad)))), active_mask=mask, status=status,
        success=status > 0, nfev=solution.steps + 1, njev=solution.steps + 1, message=str(solution.result),
    )  # fmt: skip


def pytest_configure(config):
    """Before the suite is imported, which takes `least_squares` from here."""
    scipy.optimize.least_squares = least_squares
