"""Parametrisations D : R^d -> V out of modules and apply functions: the only place that flattens pytrees."""

import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function, Vector


class Layout(eqx.Module):
    """How a pytree of arrays lies in one vector.

    Unlike the closure of `ravel_pytree`, two layouts of the same structure are equal, so that parametrising
    a model again compiles nothing again.
    """

    treedef: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def unravel(self, theta: Vector) -> Any:
        """The pytree whose entries are those of theta."""
        sizes = [math.prod(shape) for shape in self.shapes]
        if theta.shape != (sum(sizes),):
            raise _check.Mismatch(f"theta must have shape ({sum(sizes)},) for this model, but it is {theta.shape}.")
        # One split, not slices: in reverse mode it is one concatenation, where slices are a sum of padded arrays.
        leaves = [part.reshape(shape) for part, shape in zip(jax.lax.split(theta, sizes), self.shapes, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)


def ravel(name: str, params: Any) -> tuple[Layout, jax.Array]:
    """A pytree of arrays as one vector, and how it lies in it."""
    leaves, treedef = jax.tree.flatten(params)
    if not leaves:
        raise ValueError(f"{name} must hold at least one floating-point array, but it holds none.")
    leaves = [_check.array(name, leaf) for leaf in leaves]
    dtypes = sorted({str(leaf.dtype) for leaf in leaves})
    if len(dtypes) > 1:
        raise TypeError(f"{name} must have one dtype, but it mixes {' and '.join(dtypes)}.")
    if not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        raise TypeError(f"{name} must be floating-point, but its dtype is {dtypes[0]}.")
    layout = Layout(treedef, tuple(leaf.shape for leaf in leaves))
    return layout, jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])


class ModuleParametrisation(eqx.Module):
    """D(theta) is the equinox module whose inexact arrays are the entries of theta."""

    static: Any
    layout: Layout

    def params(self, theta: Vector) -> Any:
        """The module's inexact arrays, as a pytree of the module's structure."""
        return self.layout.unravel(theta)

    def __call__(self, theta: Vector) -> Any:
        return eqx.combine(self.params(theta), self.static)


class ApplyParametrisation(eqx.Module):
    """D(theta) is the function x -> apply(params, x)."""

    apply: Callable[[Any, Any], Any]
    layout: Layout

    def params(self, theta: Vector) -> Any:
        """The pytree of parameters that `apply` takes."""
        return self.layout.unravel(theta)

    def __call__(self, theta: Vector) -> Function:
        return functools.partial(self.apply, self.params(theta))


def parametrise(model: Any, params: Any = None) -> tuple[Any, jax.Array]:
    r"""A parametrisation $D : \mathbb{R}^d \to V$ and its starting point.

    `parametrise(module)` takes an equinox module: its inexact arrays become theta, and `D(theta)` is the
    module itself. `parametrise(apply, params)` takes any function `apply(params, x)` with any pytree of
    parameters: flax, haiku, plain JAX.

    **Arguments:**

    - `model`: an `equinox.Module` that can be called at a point, or a function `apply(params, x)`.
    - `params`: the parameters of `apply`; leave it out for a module.

    **Returns:** `(D, theta0)`, where `D(theta)` is a function of a point and `D.params(theta)` gives the
    pytree back.

    ```python
    D, theta0 = riesz.parametrise(lambda p, x: p["a"] * jnp.exp(-p["b"] * x), {"a": 1.0, "b": 0.5})
    D(theta0)(2.0), D.params(theta0)
    ```
    """
    if not callable(model):
        raise TypeError(f"model must be an equinox module or a function apply(params, x), not {_check.shown(model)}.")
    if params is not None:
        layout, theta0 = ravel("params", params)
        return ApplyParametrisation(model, layout), theta0
    if not isinstance(model, eqx.Module):
        raise TypeError("params must be given when model is a function apply(params, x).")
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    layout, theta0 = ravel("model", arrays)
    return ModuleParametrisation(static, layout), theta0
