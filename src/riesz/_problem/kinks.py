"""Kinks under second derivatives, seen in traced programs before anything is compiled.

A network of relus is piecewise linear. Its second derivatives are zero wherever there are points; they are infinite
where pieces meet, and no point lies there. In -u'' + u = f such a network is fitted to f, and the loss does not show
it. An answer "yes" is certain as far as the traced program shows. An answer "no" is not: max pooling, sorting, branches
and activations that are curved on their pieces, such as tanh(relu(t)), are not seen.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .._types import Function, Operator, Parametrisation
from .dependence import Known, known_outputs
from .features import Whole
from .forward_laplacian import Base, Carried, advance, is_scalar_step
from .programs import equations, walk

SWITCHES = frozenset("abs clamp eq ge gt le lt max min ne select_n sign".split())
"""Steps of which every kink has at least one."""


def has_hidden_kinks(program: Any, D: Parametrisation, operator: Operator, theta: Any, point: Any) -> bool:
    """Whether a model is linear between kinks that its parameters move, and the operator takes second derivatives.

    **Arguments:**

    - `program`: the traced program of the operator's values, which smooth models leave without a switch.
    - `D`, `operator`, `theta`: the model, the operator and the parameters.
    - `point`: the shape of a point.
    """
    if isinstance(operator, Whole) or not any(step.primitive.name in SWITCHES for step in equations(program.jaxpr)):
        return False
    z = jax.eval_shape(lambda theta, x: jnp.asarray(D(theta)(x)), theta, point)
    return order(operator, point, z) >= 2 and has_kinks(D, theta, point)


def order(operator: Operator, point: Any, z: Any) -> int:
    """How often an operator differentiates its function, whose values have the shape of z; 0 where it fails."""
    highest = 0

    def probe(k: int, shape: tuple[int, ...]) -> Function:
        """A function that stands for a k-th derivative, and notes whether it is differentiated itself."""

        @jax.custom_jvp
        def f(x: Any) -> jax.Array:
            return jnp.zeros(shape, z.dtype)

        @f.defjvp
        def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
            nonlocal highest
            highest = max(highest, k + 1)
            ((x,), (dx,)) = primals, tangents
            return f(x), jnp.tensordot(probe(k + 1, (*shape, *x.shape))(x), dx, axes=x.ndim)

        return f

    try:
        jax.eval_shape(lambda x: operator(probe(0, z.shape))(x), point)
    except Exception:  # an operator that asks its function for more than values: nothing is known, nothing is said
        return 0
    return highest


def has_kinks(D: Parametrisation, theta: Any, point: Any) -> bool:
    """Whether a step of the model is linear on pieces whose ends depend on the parameters."""

    def pieces(theta: Any, x: Any) -> list[Any]:
        """First and second derivatives of each chain of steps that act entry by entry, where the chain ends."""
        closed = jax.make_jaxpr(lambda x: D(theta)(x))(x)
        found: dict[int, Carried] = {}

        def note(u: Any) -> None:
            if isinstance(u, Carried) and u.first is not None:
                found[id(u)] = u

        def advance_and_note(step: Any, arguments: list[Any]) -> list[Any]:
            moving = [u for u in arguments if isinstance(u, Carried)]
            if moving and not is_scalar_step(step, arguments):
                for u in moving:
                    note(u)
            return advance(step, arguments)

        start = Carried(x, Base(jnp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape), None, 0))
        for u in walk(closed.jaxpr, closed.consts, [start], advance_and_note):
            note(u)
        return [(u.first, jnp.zeros(()) if u.second is None else u.second) for u in found.values()]

    program = jax.make_jaxpr(pieces)(theta, point)
    by_theta, by_x = (known_outputs(program, which) for which in (0, 1))
    chains = zip(by_theta[::2], by_x[::2], by_x[1::2], strict=True)
    return any(a is Known.FREE and b is Known.FREE and second is Known.ZERO for a, b, second in chains)
