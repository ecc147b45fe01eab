"""riesz for optax: a natural step as a gradient transformation, for who has a loop of one's own."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from . import _check
from ._geometry.linearise import Sample
from ._methods.auto import Auto
from ._methods.choose import choose
from ._methods.names import as_method, auto
from ._methods.safeguard import GuardedState, Safeguard
from ._methods.schemes import AbstractMethod
from ._problem.integral import AbstractLoss
from ._problem.parametrise import is_graph, is_module, parametrise
from ._problem.residual_vector import ResidualVector
from ._types import Function


class NaturalState(NamedTuple):
    """What `natural` carries from step to step; `optax.tree.get(state, "loss")` finds its parts in any chain."""

    inner: GuardedState
    """The method's own state."""
    expected: jax.Array
    """Where the last step led: parameters that are elsewhere were moved by somebody else, such as a scaled update."""
    key: Any
    """The random key of the coming step; None where nothing is drawn."""
    loss: jax.Array
    """The loss before the last step, on its own points; NaN before the first."""
    gradient_norm: jax.Array
    """The Euclidean norm of the gradient there; NaN before the first."""
    end: jax.Array
    """The code of the `riesz.Result` with which the method would end a run; 0 to go on."""


class Residuals(eqx.Module):
    """The residuals of v at the arguments, all in one vector."""

    args: tuple[Any, ...]

    def __call__(self, v: Function) -> jax.Array:
        """All entries, one after the other."""
        leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(v(*self.args))]
        if not leaves:
            raise _check.Mismatch("residual must return at least one number, but it returns none.")
        return jnp.concatenate(leaves)


def natural(
    residual_or_loss: Callable[..., Any] | AbstractLoss,
    model: Any = None,
    method: AbstractMethod | str | None = None,
    key: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""A step of a natural method as a transformation of optax, $u_k = \theta_{k+1} - \theta_k$.

    For loops that are one's own; `riesz.minimise` has one that checks more, and stops by itself. `update` computes the
    derivatives that it needs, of every residual and not of their sum alone. *Gradients are ignored*, so that
    `update(None, state, params)` will do. Updates may be scaled or masked by what follows in an `optax.chain`. Under
    `jax.jit`, numbers and arrays in the loss are constants unless it is handed to `update`.

    **Arguments:**

    - `residual_or_loss`: a residual function `residual(params, *args)`, half of whose sum of squares is minimised, or a
      loss such as `riesz.least_squares(riesz.points(x, data=y))`.
    - `model`: with a loss, a function `apply(params, x)` or whatever else `riesz.parametrise` takes: an equinox module
      has parameters of its own structure, such as `eqx.filter(model, eqx.is_inexact_array)`. None with a residual
      function.
    - `method`: a method or its name. By default `riesz.auto(long=False)`: it looks at the loss where a step leads, and
      returns zero where that is too high. It expects the same loss in every step, or one that draws its points. Where
      `update` is given a new batch each time, take `riesz.spring(W=riesz.GaussNewton())` or `riesz.nhb()`.
    - `key`: a random key where the loss or the method draws points.

    `update(updates, state, params, *, args=(), loss=None)` takes what else the residual function takes as `args`, and
    in `loss` another loss for this step. Parameters that are not floating-point stay as they are.

    **Returns:** an `optax.GradientTransformationExtraArgs`.

    ```python
    x = jnp.linspace(0.0, 2.0, 30)
    residual = lambda p, x, y: p["a"] * jnp.exp(-p["b"] * x) - y
    params, transform = {"a": jnp.array(1.0), "b": jnp.array(1.0)}, riesz.optax.natural(residual)
    state = transform.init(params)
    for _ in range(20):
        updates, state = transform.update(None, state, params, args=(x, 3 * jnp.exp(-0.5 * x)))
        params = optax.apply_updates(params, updates)
    ```
    """
    given = residual_or_loss
    if isinstance(given, AbstractLoss):
        if model is None:
            raise TypeError("model must be given with a loss: a function apply(params, x), or an equinox module.")
    else:
        _check.function("residual_or_loss", given)
        if model is not None:
            raise TypeError("model must be None with a residual function, which takes the parameters itself.")
    guarded = Safeguard(auto(long=False) if method is None else as_method(method))
    mixes = guarded.method.solver is not None and guarded.method.solver.drawn
    drawn = isinstance(given, AbstractLoss) and given.drawn
    drawn = drawn or mixes or any(metric.drawn for metric in guarded.method.inner_products.values())
    if drawn and key is None:
        raise ValueError("key must be given, such as jax.random.key(0): the loss or the method draws random numbers.")
    key = _check.key("key", key) if drawn else None

    def init(params: Any) -> Any:
        trained = [jnp.ravel(leaf) for leaf in jax.tree.leaves(params) if eqx.is_inexact_array(leaf)]
        # Optax asks for the state of no parameters at all, to learn its structure.
        theta = jnp.concatenate(trained) if trained else jnp.zeros(0)
        if theta.dtype.itemsize < 4:
            raise TypeError(
                f"params must be float32 or float64, not {theta.dtype}: half precision has no factorisations."
            )
        unknown = jnp.full((), jnp.nan, theta.dtype)
        return _plain(NaturalState(guarded.init(theta), theta, key, unknown, unknown, jnp.zeros((), int)))

    def update(
        updates: Any, state: Any, params: Any = None, *, args: Any = (), loss: Any = None, **extra: Any
    ) -> tuple[Any, Any]:
        del updates, extra
        if params is None:
            raise ValueError("params must be given to update: a natural step depends on where it is made.")
        seen, D, theta = _problem(given, model, params, args, loss)
        if seen.drawn and state.key is None:
            raise ValueError("key must be given to natural, such as jax.random.key(0): the loss draws its points.")
        keys: Any = (None, None) if state.key is None else jax.random.split(state.key)
        now, later = keys
        sample = guarded.draw(seen, D, theta, now)
        if mixes:
            sample = Sample(sample.terms, sample.W_points, sample.X_points, jax.random.fold_in(now, 1))
        there, inner, told = guarded.step(seen, D, theta, _standing(guarded, theta, state), sample)
        delta = (there - theta).astype(theta.dtype)
        after = NaturalState(inner, theta + delta, later, told.info.loss, told.info.gradient_norm, told.info.end)
        return _displacement(D, delta, params), _plain(after, state)

    return optax.GradientTransformationExtraArgs(init, update)


def _problem(given: Any, model: Any, params: Any, args: Any, loss: Any) -> tuple[AbstractLoss, Any, jax.Array]:
    """The loss of a step, the parametrisation, and where the parameters are."""
    if isinstance(given, AbstractLoss):
        seen = given if loss is None else _check.kind("loss", loss, AbstractLoss, "a loss")
        if is_graph(model):
            raise TypeError(
                "model must be a function apply(params, x): write one with nnx.merge for a module of flax nnx."
            )
        if is_module(model):
            return seen, *parametrise(eqx.combine(params, model))
        return seen, *parametrise(model, params, eqx.is_inexact_array)
    if loss is not None:
        raise TypeError("loss must be None with a residual function; what changes from step to step is args.")
    seen = ResidualVector(Residuals(args if isinstance(args, tuple) else (args,)))
    return seen, *parametrise(given, params, eqx.is_inexact_array)


def _standing(guarded: Safeguard, theta: jax.Array, state: NaturalState) -> GuardedState:
    """The method's state at theta; what auto knows of losses is void where somebody has changed its last step."""
    if not isinstance(guarded.method, Auto):
        return state.inner
    rounding = 8 * jnp.finfo(theta.dtype).eps * (jnp.abs(theta) + jnp.abs(state.expected))
    followed = jnp.all(jnp.abs(theta - state.expected) <= rounding)
    moved = dataclasses.replace(state.inner, inner=guarded.method.elsewhere(theta, state.inner.inner))
    return choose((followed, state.inner), (True, moved))


def _displacement(D: Any, delta: jax.Array, params: Any) -> Any:
    """A displacement as a pytree of the structure of params, zero where nothing is trained."""
    parts = iter(jax.tree.leaves(D.layout.unravel(delta)))
    trained = lambda leaf: next(parts) if eqx.is_inexact_array(leaf) else jnp.zeros_like(leaf)
    return jax.tree.map(trained, params)


def _plain(state: NaturalState, like: NaturalState | None = None) -> NaturalState:
    """The state without weak types, which a loop would take for other types, in the types of an earlier one."""
    strong = lambda leaf, like: jax.lax.convert_element_type(leaf, like.dtype) if _is_number(leaf) else leaf
    return jax.tree.map(strong, state, state if like is None else like)


def _is_number(leaf: Any) -> bool:
    return eqx.is_array(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
