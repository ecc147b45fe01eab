r"""The forward Laplacian: value, gradient and Laplacian carried through a function together, in one pass.

A function is a chain of elementary steps y = f(u). With the slopes $s_i = \partial_i u$ and the Laplacian l of u, the
slopes of y are $f'(u) s_i$ and its Laplacian is

$$f'(u)\, l + \sum_i f''(u)[s_i, s_i].$$

Two facts make this cheap where one nested JVP per dimension is not. The sum vanishes where f is linear. Where f acts
entry by entry on real numbers, as activations do, the sum is $f''(u) \sum_i s_i^2$: a whole chain of such steps is
differentiated as a function of one real variable, whatever the dimension. In the first layer of a network, whose slopes
are its weights, that sum of squares is the same for all points. Every other step takes the nested JVPs of
that step alone, so that any function is served. Steps on complex numbers are among them: the modulus, the conjugate
and the real part have no derivative that is one complex number, so the formula with $f''(u)$ does not hold for them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from .programs import ENTRYWISE, bind, inner, is_entrywise, reached, walk

LINEAR = frozenset(
    "add add_any broadcast_in_dim complex concatenate conj convert_element_type copy copy_p cumsum imag neg pad real "
    "reduce_sum reshape rev slice split squeeze sub transpose".split()
)
"""Steps that are linear in all their arguments together; for complex arguments, linear over the real numbers."""

LINEAR_IN_ONE = frozenset("dot_general mul".split())
"""Steps that are linear in each argument, so linear where only one depends on x."""

LINEAR_IN = {"div": {0}, "dynamic_slice": {0}, "dynamic_update_slice": {0, 1}, "gather": {0}, "select_n": {1, 2}}
"""Steps that are linear in these arguments, where no other depends on x."""


class Base(NamedTuple):
    """An array whose derivatives in x are known in full."""

    slopes: jax.Array
    """The directional derivatives, the axis of directions first."""
    laplacian: jax.Array | None
    """The Laplacian, None where it is zero."""
    start: int | None = None
    """Where the slopes are the unit vectors from this coordinate on, as those of the point itself are, else None."""


class Carried(NamedTuple):
    """An array that depends on x: entry by entry a function of its base, with that function's derivatives.

    The entries of the base are real unless the array is the base itself. The array may be complex.
    """

    value: jax.Array
    base: Base
    first: jax.Array | None = None
    """The derivative of each entry in the base's entry, None where the array is the base itself."""
    second: jax.Array | None = None
    """The second such derivative, None where it is zero."""


def unfold(u: Carried) -> Base:
    """The slopes and the Laplacian of a function of the base, by the chain rule entry by entry."""
    if u.first is None:
        return u.base
    laplacian = None if u.base.laplacian is None else u.first * u.base.laplacian
    if u.second is not None:
        curved = u.second * jnp.sum(jnp.square(u.base.slopes), axis=0)
        laplacian = curved if laplacian is None else laplacian + curved
    return Base(u.first[None] * u.base.slopes, laplacian)


def has_unit_slopes(u: Carried) -> bool:
    """Whether the array is a vector whose slopes are unit vectors."""
    return u.base.start is not None and u.first is None and u.value.ndim == 1


def is_linear(equation: Any, active: list[int]) -> bool:
    """Whether an equation is linear in those of its arguments that depend on x."""
    name = equation.primitive.name
    within = set(active) <= LINEAR_IN.get(name, set())
    return name in LINEAR or within or (name in LINEAR_IN_ONE and len(active) == 1)


def is_scalar_step(equation: Any, arguments: list[Any]) -> bool:
    """Whether an equation acts entry by entry, on functions of one and the same base, which is real."""
    carried = [u for u in arguments if isinstance(u, Carried)]
    shape, base = carried[0].value.shape, carried[0].base
    alike = all(u.base is base and u.value.shape == shape for u in carried)
    if not alike or jnp.iscomplexobj(base.slopes) or any(v.aval.shape != shape for v in equation.outvars):
        return False
    if equation.primitive.name == "custom_jvp_call":
        return is_entrywise(inner(equation).jaxpr, [isinstance(u, Carried) for u in arguments])
    return equation.primitive.name in ENTRYWISE


def derivatives(
    f: Callable[..., Any],
    values: Sequence[Any],
    slopes: Sequence[Any],
    laplacians: Sequence[Any],
    linear: bool,
    bilinear: bool = False,
) -> tuple[list[jax.Array], list[jax.Array | None]]:
    """The slopes f'(u) s_i and the Laplacian f'(u) l + sum_i f''(u)[s_i, s_i] of every output of f.

    A Laplacian l that is None is zero. Those returned are None where f is linear and every l is None.
    """
    values = tuple(values)
    push = lambda tangents: lambda *values: jax.jvp(f, values, tangents)[1]
    pushed = jax.vmap(lambda *s: push(s)(*values))(*slopes)
    found: list[jax.Array | None] = [None] * len(pushed)
    if any(known is not None for known in laplacians):
        filled = [jnp.zeros_like(u) if known is None else known for u, known in zip(values, laplacians, strict=True)]
        found = push(tuple(filled))(*values)
    if not linear:
        # Where f is linear in each of two arguments, f''(u)[s, s] is 2 f(s): no second derivative of it is needed.
        second = lambda *s: [2 * y for y in f(*s)] if bilinear else jax.jvp(push(s), values, s)[1]
        curved = [jnp.sum(c, axis=0) for c in jax.vmap(second)(*slopes)]
        found = [c if known is None else known + c for known, c in zip(found, curved, strict=True)]
    return pushed, found


def columns(equation: Any, arguments: list[Any], i: int) -> jax.Array | None:
    """The slopes of W u where those of u are unit vectors: columns of W, which a product would only copy."""
    start, width = arguments[i].base.start, arguments[i].base.slopes.shape[0]
    contracted, batched = equation.params["dimension_numbers"]
    if any(batched) or not contracted[0]:
        return None
    weight = jnp.moveaxis(arguments[1 - i], contracted[1 - i][0], 0)
    return weight[start : start + width].astype(equation.outvars[0].aval.dtype)


def advance(equation: Any, arguments: list[Any]) -> list[Any]:
    """The outputs of one equation, carried where they depend on x."""
    if equation.primitive.name == "scan" and any(isinstance(u, Carried) for u in arguments):
        return scanned(equation, arguments)
    active = [i for i, u in enumerate(arguments) if isinstance(u, Carried)]
    carried = [arguments[i] for i in active]

    def evaluate(*values: Any) -> list[Any]:
        full = list(arguments)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        return bind(equation, *full)

    values = [u.value for u in carried]
    outputs = evaluate(*values)
    smooth = [i for i, y in enumerate(outputs) if jnp.issubdtype(y.dtype, jnp.inexact)]
    if not carried or not smooth:
        return outputs
    f = lambda *values: [evaluate(*values)[i] for i in smooth]
    linear = is_linear(equation, active)
    start = None
    if len(active) == 1 and has_unit_slopes(*carried):
        if equation.primitive.name == "dot_general" and (slopes := columns(equation, arguments, *active)) is not None:
            return [Carried(outputs[0], Base(slopes, None))]
        if equation.primitive.name == "concatenate":  # those of (a, u, b) are unit vectors where those of u are
            start = carried[0].base.start + sum(before.shape[0] for before in arguments[: active[0]])
    scalar = is_scalar_step(equation, arguments)
    if scalar:
        # In one real variable the slope is the first derivative, and the Laplacian is the second.
        firsts = [jnp.ones_like(u.value) if u.first is None else u.first for u in carried]
        given = [Base(first[None], u.second) for first, u in zip(firsts, carried, strict=True)]
    else:
        given = [unfold(u) for u in carried]
    bilinear = equation.primitive.name in LINEAR_IN_ONE and len(active) == 2 and not scalar
    found = derivatives(f, values, [u.slopes for u in given], [u.laplacian for u in given], linear, bilinear)
    for i, slopes, laplacian in zip(smooth, *found, strict=True):
        if scalar:
            outputs[i] = Carried(outputs[i], carried[0].base, slopes[0], laplacian)
        else:
            outputs[i] = Carried(outputs[i], Base(slopes, laplacian, start))
    return outputs


def scanned(equation: Any, arguments: list[Any]) -> list[Any]:
    """The outputs of a scan, which carries slopes and Laplacians through its own loop."""
    program, consts, carry = equation.params["jaxpr"], equation.params["num_consts"], equation.params["num_carry"]
    width = next(u.base.slopes.shape[0] for u in arguments if isinstance(u, Carried))
    smooth = [jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in program.jaxpr.invars]
    moving = [isinstance(u, Carried) for u in arguments]
    while True:  # what is carried depends on x if anything does that it is made of
        inside = reached(program.jaxpr, [v for v, moves in zip(program.jaxpr.invars, moving, strict=True) if moves])
        ends = [v in inside if not isinstance(v, Literal) else False for v in program.jaxpr.outvars]
        more = [*moving[:consts], *ends[:carry], *moving[consts + carry :]]
        more = [(old or new) and real for old, new, real in zip(moving, more, smooth, strict=True)]
        if more == moving:
            break
        moving = more
    ends = [
        moves and jnp.issubdtype(v.aval.dtype, jnp.inexact)
        for v, moves in zip(program.jaxpr.outvars, ends, strict=True)
    ]

    def apart(u: Any, moves: bool, axis: int = 0) -> Any:
        """What is scanned over: a value, or a value with its slopes along an axis and its Laplacian."""
        if not moves:
            return u
        if not isinstance(u, Carried):
            return u, jnp.zeros((width, *jnp.shape(u)), u.dtype), jnp.zeros_like(u)
        base = unfold(u)
        laplacian = jnp.zeros_like(u.value) if base.laplacian is None else base.laplacian
        return u.value, jnp.moveaxis(base.slopes, 0, axis), laplacian

    def together(parts: Any, moves: bool, axis: int = 0) -> Any:
        return Carried(parts[0], Base(jnp.moveaxis(parts[1], axis, 0), parts[2])) if moves else parts

    first, last = slice(consts, consts + carry), slice(consts + carry, None)
    match = lambda f, parts, moves, axis=0: [f(*pair, axis) for pair in zip(parts, moves, strict=True)]

    def body(carried: Any, given: Any) -> Any:
        inputs = [*arguments[:consts], *match(together, carried, moving[first]), *match(together, given, moving[last])]
        found = walk(program.jaxpr, program.consts, inputs, advance)
        return match(apart, found[:carry], moving[first]), match(apart, found[carry:], ends[carry:])

    start, given = match(apart, arguments[first], moving[first]), match(apart, arguments[last], moving[last], 1)
    options = {name: equation.params[name] for name in ("length", "reverse", "unroll")}
    left, made = jax.lax.scan(body, start, given, **options)
    return [*match(together, left, moving[first]), *match(together, made, ends[carry:], 1)]


def forward_laplacian(v: Callable[[Any], Any], x: jax.Array) -> Any:
    """The Laplacian of v at x."""
    closed, shapes = jax.make_jaxpr(v, return_shape=True)(x)
    directions = jnp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    outputs = walk(closed.jaxpr, closed.consts, [Carried(x, Base(directions, None, 0))], advance)

    def read(y: Any, shape: Any) -> jax.Array:
        found = unfold(y).laplacian if isinstance(y, Carried) else None
        return jnp.zeros(shape.shape, shape.dtype) if found is None else found

    leaves, tree = jax.tree.flatten(shapes)
    return jax.tree.unflatten(tree, [read(y, shape) for y, shape in zip(outputs, leaves, strict=True)])
