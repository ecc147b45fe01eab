"""Parametrisations D : R^d -> V out of modules and apply functions: the only place that flattens pytrees."""

import functools
import inspect
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

    def __reduce__(self) -> Any:
        # JAX pickles no structure that has modules in it: the pytree itself, with numbers for its arrays, can be.
        tree = jax.tree.unflatten(self.treedef, range(len(self.shapes)))
        return _layout_of, (tree, self.shapes)

    def unravel(self, theta: Vector) -> Any:
        """The pytree whose entries are those of theta."""
        sizes = [math.prod(shape) for shape in self.shapes]
        if theta.shape != (sum(sizes),):
            raise _check.Mismatch(f"theta must have shape ({sum(sizes)},) for this model, but it is {theta.shape}.")
        # One split, not slices: in reverse mode it is one concatenation, where slices are a sum of padded arrays.
        leaves = [part.reshape(shape) for part, shape in zip(jax.lax.split(theta, sizes), self.shapes, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)


def _layout_of(tree: Any, shapes: tuple[tuple[int, ...], ...]) -> Layout:
    """The layout of a pytree of arrays of these shapes."""
    return Layout(jax.tree.structure(tree), shapes)


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
    """D(theta) is the equinox module whose trained arrays are the entries of theta."""

    static: Any
    """The module without its trained arrays."""
    layout: Layout

    def params(self, theta: Vector) -> Any:
        """The module's inexact arrays, as a pytree of the module's structure."""
        return eqx.filter(self(theta), eqx.is_inexact_array)

    def __call__(self, theta: Vector) -> Any:
        return eqx.combine(self.layout.unravel(theta), self.static)


class ApplyParametrisation(eqx.Module):
    """D(theta) is the function x -> apply(params, x)."""

    apply: Callable[..., Any]
    layout: Layout
    frozen: Any
    """The parameters that are not trained, None in the place of those that are."""

    def params(self, theta: Vector) -> Any:
        """The pytree of parameters that `apply` takes."""
        return eqx.combine(self.layout.unravel(theta), self.frozen)

    def __call__(self, theta: Vector) -> Function:
        return functools.partial(self.apply, self.params(theta))


class GraphParametrisation(eqx.Module):
    """D(theta) is the flax nnx module whose trained variables are the entries of theta."""

    definition: Any = eqx.field(static=True)
    layout: Layout
    rest: Any
    """The variables that are not trained."""

    def params(self, theta: Vector) -> Any:
        """The module's state: all its variables."""
        from flax import nnx

        return nnx.state(self(theta))

    def __call__(self, theta: Vector) -> Any:
        from flax import nnx

        return nnx.merge(self.definition, self.layout.unravel(theta), self.rest)


class WithoutRandomness(eqx.Module):
    """The function apply(params, x) of a haiku transform whose own takes a random key second."""

    apply: Callable[..., Any]

    def __call__(self, params: Any, x: Any) -> Any:
        return self.apply(params, None, x)


def is_graph(model: Any) -> bool:
    """Whether a model is a module of flax nnx; flax is not imported for it."""
    return any(cls.__module__.startswith("flax.nnx") for cls in type(model).__mro__)


def is_module(model: Any) -> bool:
    """Whether a model carries its own parameters: a module of equinox or flax nnx that is no parametrisation."""
    return is_graph(model) or (isinstance(model, eqx.Module) and not is_parametrisation(model))


def is_parametrisation(D: Any) -> bool:
    """Whether D is one of riesz's own parametrisations, which give a user's pytree back."""
    return isinstance(D, eqx.Module) and hasattr(type(D), "params")


def _applied(model: Any) -> Callable[..., Any]:
    """The function apply(params, x) of a function, a flax linen module, or a pair (init, apply) as haiku has it."""
    apply: Any = getattr(model, "apply", None) if hasattr(model, "init") else None
    if apply is None and isinstance(model, tuple) and len(model) == 2 and all(map(callable, model)):
        apply = model[1]
    if apply is None:
        return model  # type: ignore[return-value]
    try:
        second = list(inspect.signature(apply).parameters.values())[1]
    except (TypeError, ValueError, IndexError):
        return apply
    return WithoutRandomness(apply) if second.name == "rng" and second.default is second.empty else apply


def parametrise(model: Any, params: Any = None, trainable: Any = None) -> tuple[Any, jax.Array]:
    r"""A parametrisation $D : \mathbb{R}^d \to V$ and its starting point.

    `parametrise(module)` takes a module of equinox or flax nnx: its inexact arrays, or its `nnx.Param`s, become theta,
    and `D(theta)` is the module itself. `parametrise(apply, params)` takes any function `apply(params, x)` with any
    pytree of parameters; a flax linen module and a pair `(init, apply)`, as haiku's transforms are, stand for their
    `apply`.

    **Arguments:**

    - `model`: an `equinox.Module` or `nnx.Module` that can be called at a point, or a function `apply(params, x)`.
    - `params`: the parameters of `apply`; leave it out for a module that carries its own.
    - `trainable`: which parameters theta holds; the others stay as they are. A pytree of True and False, of the
      structure of the parameters or the beginning of it, or a function of an array; for nnx a filter of its own, such
      as a type of variables. By default everything that is floating-point.

    **Returns:** `(D, theta0)`, where `D(theta)` is a function of a point and `D.params(theta)` gives the
    pytree back, with what was not trained.

    ```python
    decay = lambda p, x: p["a"] * jnp.exp(-p["b"] * x)
    D, theta0 = riesz.parametrise(decay, {"a": 1.0, "b": 0.5})
    D(theta0)(2.0), D.params(theta0)
    D, theta0 = riesz.parametrise(decay, {"a": 1.0, "b": 0.5}, trainable={"a": True, "b": False})
    ```
    """
    if is_graph(model) and params is None:
        return _of_graph(model, trainable)
    if not callable(model) and _applied(model) is model:
        raise TypeError(f"model must be an equinox module or a function apply(params, x), not {_check.shown(model)}.")
    if params is not None:
        trained, frozen = _partitioned("params", params, trainable, lambda leaf: True)
        layout, theta0 = ravel("params", trained)
        return ApplyParametrisation(_applied(model), layout, frozen), theta0
    if not isinstance(model, eqx.Module):
        raise TypeError("params must be given when model is a function apply(params, x).")
    trained, static = _partitioned("model", model, trainable, eqx.is_inexact_array)
    layout, theta0 = ravel("model", trained)
    return ModuleParametrisation(static, layout), theta0


def _partitioned(name: str, tree: Any, trainable: Any, otherwise: Callable[[Any], bool]) -> tuple[Any, Any]:
    """What is trained of a pytree, and the rest."""
    if trainable is None:
        return eqx.partition(tree, otherwise)
    with _check.explained(f"trainable must be a function of an array, or True and False in the structure of {name}"):
        trained, rest = eqx.partition(tree, trainable)
    if not jax.tree.leaves(trained):
        raise ValueError(f"trainable must leave something of {name} to train, but it leaves nothing.")
    # Arrays are asked first: equinox does not take a traced one for like an array.
    fits = lambda leaf: eqx.is_inexact_array(leaf) or eqx.is_inexact_array_like(leaf)
    whole = [leaf for leaf in jax.tree.leaves(trained) if not fits(leaf)]
    if whole:
        raise TypeError(
            f"trainable must choose floating-point arrays of {name}, but it chooses {_check.shown(whole[0])}."
        )
    return trained, rest


def _of_graph(model: Any, trainable: Any) -> tuple[GraphParametrisation, jax.Array]:
    """The parametrisation of a module of flax nnx."""
    from flax import nnx

    definition, trained, rest = nnx.split(model, nnx.Param if trainable is None else trainable, ...)
    layout, theta0 = ravel("model", trained)
    return GraphParametrisation(definition, layout, rest), theta0
