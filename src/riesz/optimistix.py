"""riesz for optimistix: its methods as a solver of `optimistix.least_squares`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix
from jax.custom_batching import sequential_vmap

from . import _check
from ._methods.names import as_method
from ._methods.result import Result, code
from ._methods.safeguard import GuardedState, Safeguard
from ._methods.schemes import AbstractMethod
from ._problem.parametrise import parametrise, ravel
from ._problem.residual_vector import ResidualVector
from ._running.loop import PATIENCE
from ._types import Function

MODES = {None: "auto", "fwd": "forward", "bwd": "reverse"}
"""How the Jacobian is computed, by what optimistix calls it."""
FAILURES = {
    Result.STAGNATED: optimistix.RESULTS.nonlinear_divergence,
    Result.UNBOUNDED: optimistix.RESULTS.nonlinear_divergence,
    Result.NONFINITE_STEPS: optimistix.RESULTS.nonfinite,
    Result.RANK_COLLAPSE: optimistix.RESULTS.singular,
}
"""What optimistix calls the ends that are no successes; for it, whatever does not converge diverges."""


class Residuals(eqx.Module):
    """The residuals of v at the arguments, all in one vector; auxiliary output is dropped."""

    args: Any

    def __call__(self, v: Function) -> jax.Array:
        """All entries, one after the other."""
        residuals, _ = v(self.args)
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(residuals)])


class SolverState(eqx.Module):
    """What the solver carries from step to step."""

    inner: GuardedState
    """The method's own state."""
    residuals: Any
    """The residuals where the last step led; infinite before the first."""
    best: Any
    """Where the loss is lowest, of losses that differ by rounding the latest; where the tolerances hold, if they do."""
    best_aux: Any
    lowest: jax.Array
    collapsed: jax.Array
    """How many steps in a row found no direction to move in."""
    end: jax.Array
    """The code of the `riesz.Result` with which the solve ends; that of RUNNING to go on."""


class LeastSquares(optimistix.AbstractLeastSquaresSolver):
    r"""A solver of nonlinear least squares, $\min_y \frac12 \sum_i \mathrm{fn}(y, \mathrm{args})_i^2$.

    The residuals are a function of y, their Jacobian spans the tangent space, and a step is one step of the method. It
    ends where a step that nothing has shortened changes y and all residuals by less than the tolerances, as
    optimistix's own solvers do, or where the method itself finds that nothing is left to gain. Under `jax.vmap` each
    problem is factorised on its own. The solution is differentiated by optimistix, by the implicit function theorem.

    **Arguments:**

    - `rtol`, `atol`: relative and absolute tolerance.
    - `method`: a method such as `riesz.auto()`, the default, or its name. It must not draw random numbers.
    - `norm`: the norm in which changes are measured, `optimistix.max_norm` by default.

    The options of `optimistix.least_squares` may hold `jac`, `"fwd"` or `"bwd"`, the mode in which the Jacobian is
    computed; by default it is the one with the fewer passes. `solution.stats` has the loss as `"loss"`. A method that
    stagnates, or whose parameters run to infinity, ends as `RESULTS.nonlinear_divergence`.

    ```python
    x = jnp.linspace(0.0, 2.0, 30)
    fn = lambda y, b: y["a"] * jnp.exp(-y["b"] * x) - 3 * jnp.exp(-b * x)
    solution = optimistix.least_squares(fn, riesz.optimistix.LeastSquares(1e-8, 1e-8), {"a": 1.0, "b": 1.0}, 0.5)
    solution.value
    ```
    """

    rtol: float
    atol: float
    method: AbstractMethod
    norm: Callable[[Any], Any]

    def __init__(
        self,
        rtol: float,
        atol: float,
        method: AbstractMethod | str | None = None,
        norm: Callable[[Any], Any] = optimistix.max_norm,
    ):
        self.rtol, self.atol = _check.scalar("rtol", rtol, least=0.0), _check.scalar("atol", atol, least=0.0)
        self.method, self.norm = as_method(method), _check.function("norm", norm)
        draws = any(metric.drawn for metric in self.method.inner_products.values())
        if draws or (self.method.solver is not None and self.method.solver.drawn):
            raise ValueError("method must not draw random numbers here: optimistix hands it no key.")

    def init(
        self, fn: Any, y: Any, args: Any, options: dict[str, Any], f_struct: Any, aux_struct: Any, tags: Any
    ) -> SolverState:
        """The method's start."""
        del fn, args, tags
        if options.get("jac") not in MODES:
            raise ValueError(f'jac in options must be "fwd" or "bwd", not {_check.shown(options["jac"])}.')
        _, theta = ravel("y0", y)
        if not jax.tree.leaves(f_struct):
            raise ValueError("fn must return at least one residual, but it returns none.")
        with jax.numpy_dtype_promotion("standard"):
            inner = Safeguard(self.method).init(theta)
        unknown = lambda value: lambda leaf: jnp.full(leaf.shape, value, leaf.dtype) if _is_array(leaf) else leaf
        none, infinity = jnp.zeros((), int), jnp.full((), jnp.inf, theta.dtype)
        residuals, aux = jax.tree.map(unknown(jnp.inf), f_struct), jax.tree.map(unknown(0), aux_struct)
        return _plain(SolverState(inner, residuals, y, aux, infinity, none, none + code(Result.RUNNING)))

    def step(
        self, fn: Any, y: Any, args: Any, options: dict[str, Any], state: SolverState, tags: Any
    ) -> tuple[Any, SolverState, Any]:
        """One step of the method."""
        del tags
        arrays, static = eqx.partition((self, fn, y, args, state), eqx.is_array)
        kept = {}

        # LAPACK must see one matrix at a time: batches of matrices may wait for each other for ever.
        @sequential_vmap
        def one(arrays: Any) -> Any:
            with jax.numpy_dtype_promotion("standard"):  # fn was traced under the setting of its user
                solver, fn, y, args, state = eqx.combine(arrays, static)
                output = solver._step(fn, y, args, state, MODES[options.get("jac")])
            found, kept["static"] = eqx.partition(output, eqx.is_array)
            return found

        return eqx.combine(one(arrays), kept["static"])

    def _step(self, fn: Any, y: Any, args: Any, state: SolverState, mode: str) -> tuple[Any, SolverState, Any]:
        D, theta = parametrise(fn, y)
        loss = ResidualVector(Residuals(args), mode=mode)
        guarded = Safeguard(self.method)
        sample = guarded.draw(loss, D, theta)
        there, inner, told = guarded.step(loss, D, theta, state.inner, sample)
        info, there = told.info, there.astype(theta.dtype)
        after = D.params(there)
        residuals, aux = fn(after, args)
        small = self._is_small(after, y) & self._is_small(residuals, state.residuals)
        close = small & info.accepted & ~info.shortened
        collapsed = jnp.where(info.rank == 0, state.collapsed + 1, 0)
        end = jnp.select(
            [close, info.end != code(Result.RUNNING), inner.failures >= PATIENCE, collapsed >= PATIENCE],
            [code(Result.CONVERGED_STEP), info.end, code(Result.NONFINITE_STEPS), code(Result.RANK_COLLAPSE)],
            code(Result.RUNNING),
        )
        reached = jnp.where(info.accepted, told.trial_loss, info.loss).astype(theta.dtype)
        lowest = jnp.minimum(reached, state.lowest)
        best = close | (reached <= lowest + 4 * jnp.finfo(theta.dtype).eps * jnp.abs(lowest))
        choose = lambda new, old: jnp.where(best, new, old) if eqx.is_array(new) else new
        # What the tolerances hold of is returned, though another point may have a lower loss.
        lowest = jnp.where(close, reached, lowest)
        kept, kept_aux = jax.tree.map(choose, (after, aux), (state.best, state.best_aux))
        return after, _plain(SolverState(inner, residuals, kept, kept_aux, lowest, collapsed, end)), aux

    def _is_small(self, new: Any, old: Any) -> jax.Array:
        """Whether a change is below the tolerances, entry by entry, in the norm."""
        scaled = lambda new, old: jnp.abs(new - old) / (self.atol + self.rtol * jnp.abs(new))
        return self.norm(jax.tree.map(scaled, new, old)) < 1

    def terminate(
        self, fn: Any, y: Any, args: Any, options: dict[str, Any], state: SolverState, tags: Any
    ) -> tuple[jax.Array, optimistix.RESULTS]:
        """Whether the tolerances hold or the method has ended, and what optimistix calls that."""
        del fn, y, args, options, tags
        result = optimistix.RESULTS.successful
        for end, failure in FAILURES.items():
            result = optimistix.RESULTS.where(state.end == code(end), failure, result)
        return state.end != code(Result.RUNNING), result

    def postprocess(
        self, fn: Any, y: Any, aux: Any, args: Any, options: dict[str, Any], state: SolverState, tags: Any, result: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The best that was found, and its loss."""
        del fn, args, options, tags, result
        stepped = jnp.isfinite(state.lowest)
        choose = lambda best, last: jnp.where(stepped, best, last) if eqx.is_array(best) else best
        best, aux = jax.tree.map(choose, (state.best, state.best_aux), (y, aux))
        return best, aux, {"loss": state.lowest}


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)


def _plain(state: SolverState) -> SolverState:
    """The state without weak types, which a loop would take for other types."""
    strong = lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype) if eqx.is_array(leaf) else leaf
    return jax.tree.map(strong, state)
