r"""A function at all points at once, with the points as the last axis of every array.

`jax.vmap` puts the points first. Rows $\partial z_j/\partial\theta$ are outer products, one per layer and point: with
the points first their innermost loops run over the few entries of one layer's input, and LAPACK, which reads by
columns, has the whole matrix transposed for it. With the points last, innermost loops run over the points, the rows of
all layers are written once, side by side, and that one array is a matrix stored by columns.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .programs import ENTRYWISE, bind, walk

FEW = 8
"""Sums of at most so many products, as over directions, are written out: each product is then one loop over points."""


class Spread(NamedTuple):
    """An array that differs from point to point, the points' axis last."""

    value: jax.Array


def spread(u: Any, m: int, shape: tuple[int, ...]) -> jax.Array:
    """An array of that shape, or a number, at each of m points."""
    value = u.value if isinstance(u, Spread) else u[..., None]
    return jnp.broadcast_to(value.reshape(*[1] * (len(shape) + 1 - value.ndim), *value.shape), (*shape, m))


def lengthened(step: Any, m: int) -> dict[str, Any] | None:
    """The parameters of a step on one array that change when that array has a last axis more; None if not known."""
    params, rank = step.params, step.outvars[0].aval.ndim
    match step.primitive.name:
        case "cumsum" | "reduce_max" | "reduce_min" | "reduce_sum" | "rev" | "split" | "squeeze":
            return {}
        case "broadcast_in_dim":
            return {
                "shape": (*params["shape"], m),
                "broadcast_dimensions": (*params["broadcast_dimensions"], rank),
            }
        case "reshape" if params["dimensions"] is None:
            return {"new_sizes": (*params["new_sizes"], m)}
        case "transpose":
            return {"permutation": (*params["permutation"], rank)}
        case "pad":
            return {"padding_config": (*params["padding_config"], (0, 0, 0))}
        case "slice":
            strides = params["strides"] and (*params["strides"], 1)
            limits = (*params["limit_indices"], m)
            return {"start_indices": (*params["start_indices"], 0), "limit_indices": limits, "strides": strides}
    return None


def written_out(step: Any, u: jax.Array) -> jax.Array | None:
    """A sum over axes with few entries in all, term by term; None where they are many."""
    axes = step.params["axes"]
    terms = math.prod(u.shape[i] for i in axes)
    if not 0 < terms <= FEW:
        return None
    u = jnp.moveaxis(u, axes, range(len(axes)))
    u = u.reshape(terms, *u.shape[len(axes) :])
    return functools.reduce(jnp.add, [u[i] for i in range(terms)])


def product(step: Any, a: Any, b: Any) -> jax.Array | None:
    """A product of arrays, summed over the axes that it contracts; None where JAX does it as well.

    Outer products are multiplications, which are computed where they are written; so are sums of few of them. Where one
    factor is the same at all points, the points are columns more of the other: one product of matrices for all.
    """
    contracted, batched = step.params["dimension_numbers"]
    values = [u.value if isinstance(u, Spread) else u for u in (a, b)]
    points = [[u.value.ndim - 1] if isinstance(u, Spread) else [] for u in (a, b)]
    free = [[i for i in range(values[k].ndim) if i not in (*contracted[k], *batched[k], *points[k])] for k in (0, 1)]
    terms = math.prod(values[0].shape[i] for i in contracted[0])
    if not contracted[0] or (0 < terms <= FEW and all(points)):
        left, right = (jnp.transpose(values[k], [*contracted[k], *batched[k], *free[k], *points[k]]) for k in (0, 1))
        summed, shared = len(contracted[0]), len(batched[0])
        # A factor has an axis of length one for each free axis of the other, and for the points where it has none.
        after = range(summed + shared + len(free[0]), summed + shared + len(free[0]) + len(free[1]))
        left = jnp.expand_dims(left, [*after] if points[0] else [*after, after.stop])
        before = range(summed + shared, summed + shared + len(free[0]))
        right = jnp.expand_dims(right, [*before] if points[1] else [*before, after.stop])
        left, right = (u.reshape(terms, *u.shape[summed:]) for u in (left, right))
        found = functools.reduce(jnp.add, [left[i] * right[i] for i in range(terms)])
        return found.astype(step.outvars[0].aval.dtype)
    if all(points):
        return None
    k = 0 if points[1] else 1  # The factor without points goes first, so that points come last.
    keep = {name: step.params[name] for name in ("precision", "preferred_element_type")}
    axes = ((contracted[k], contracted[1 - k]), (batched[k], batched[1 - k]))
    found = jax.lax.dot_general(values[k], values[1 - k], axes, **keep)
    ends = len(batched[0]), len(batched[0]) + len(free[k]), found.ndim - 1
    return found if k == 0 else jnp.transpose(found, [*range(ends[0]), *range(*ends[1:]), *range(*ends[:2]), ends[2]])


def advance(m: int, step: Any, arguments: list[Any]) -> list[Any]:
    """The outputs of one step at all points."""
    where = [isinstance(u, Spread) for u in arguments]
    if not any(where):
        return bind(step, *arguments)
    name, shape = step.primitive.name, step.outvars[0].aval.shape
    if name in ENTRYWISE:
        return [Spread(step.primitive.bind(*[spread(u, m, shape) for u in arguments], **step.params))]
    if name == "concatenate":
        parts = [spread(u, m, v.aval.shape) for u, v in zip(arguments, step.invars, strict=True)]
        return [Spread(step.primitive.bind(*parts, **step.params))]
    if name == "dot_general" and (found := product(step, *arguments)) is not None:
        return [Spread(found)]
    values = [u.value if isinstance(u, Spread) else u for u in arguments]
    if name == "reduce_sum" and (found := written_out(step, values[0])) is not None:
        return [Spread(found)]
    if where[0] and sum(where) == 1 and (changed := lengthened(step, m)) is not None:
        outputs = step.primitive.bind(*values, **{**step.params, **changed})
        return [Spread(y) for y in (outputs if step.primitive.multiple_results else [outputs])]
    axes = [-1 if differs else None for differs in where]
    return [Spread(y) for y in jax.vmap(functools.partial(bind, step), in_axes=axes, out_axes=-1)(*values)]


def points_last(f: Callable[[Any], Any], x: jax.Array) -> Any:
    """f at every point, as `jax.vmap(f)(x)` gives it, but stored with the points last.

    The shapes are those of `jax.vmap`, the points' axis first: what reads the result next reads it as it is stored.
    """
    m = x.shape[0]
    closed, shapes = jax.make_jaxpr(f, return_shape=True)(jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    outputs = walk(closed.jaxpr, closed.consts, [Spread(jnp.moveaxis(x, 0, -1))], functools.partial(advance, m))
    leaves, tree = jax.tree.flatten(shapes)
    stored = [spread(y, m, leaf.shape) for y, leaf in zip(outputs, leaves, strict=True)]
    return jax.tree.unflatten(tree, [jnp.moveaxis(y, -1, 0) for y in stored])
