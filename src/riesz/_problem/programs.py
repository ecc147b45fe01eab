"""Traced programs: what a function does at a point, as a list of elementary steps that can be walked through.

A walk carries something else than plain arrays through the steps: derivatives in the point, or what is zero. It knows
better rules for the steps that matter and leaves every other one to JAX, so that any function is served.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.extend.core as jex
import numpy as np

ENTRYWISE = frozenset(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos "
    "cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p "
    "logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign sin sinh sqrt square sub tan tanh "
    "xor".split()
)
"""Steps that act entry by entry."""

INLINED = frozenset(("jit", "pjit", "closed_call", "core_call"))
"""Calls that are only a wrapper round their own steps."""


def inner(equation: Any) -> Any:
    """The program that a call runs."""
    return equation.params["jaxpr"] if "jaxpr" in equation.params else equation.params["call_jaxpr"]


def bind(equation: Any, *arguments: Any) -> list[Any]:
    """The outputs of one equation, as JAX computes them."""
    outputs = equation.primitive.bind(*arguments, **equation.primitive.get_bind_params(equation.params))
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def walk(
    program: Any, consts: Sequence[Any], arguments: Sequence[Any], advance: Callable[[Any, list[Any]], list[Any]]
) -> list[Any]:
    """The outputs of a traced program, where `advance(equation, arguments)` gives those of each equation."""
    found = dict(zip((*program.constvars, *program.invars), (*consts, *arguments), strict=True))
    read = lambda v: np.asarray(v.val, v.aval.dtype) if isinstance(v, jex.Literal) else found[v]  # type: ignore[attr-defined]
    for equation in program.eqns:
        given = [read(v) for v in equation.invars]
        if equation.primitive.name in INLINED:
            called = inner(equation)
            outputs = walk(called.jaxpr, called.consts, given, advance)
        else:
            outputs = advance(equation, given)
        found.update(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in program.outvars]


def equations(program: Any) -> Iterator[Any]:
    """Every equation of a traced program, each followed by those of the functions, branches and loops that it calls."""
    for equation in program.eqns:
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                if hasattr(part, "eqns"):
                    yield from equations(part)


def has_loop(program: Any) -> bool:
    """Whether a program, or one that it calls, has a loop of unknown length: those have no reverse mode."""
    return any(equation.primitive.name == "while" for equation in equations(program))


LAPACK = frozenset(
    "cholesky eig eigh geqp3 geqrf hessenberg householder_product lu ormqr qr schur svd triangular_solve tridiagonal "
    "tridiagonal_solve".split()
)
"""Steps that call LAPACK on the CPU."""


def calls_lapack(program: Any) -> bool:
    """Whether a program, or one that it calls, factorises a matrix or solves with one."""
    return any(equation.primitive.name in LAPACK for equation in equations(program))


def reached(program: Any, given: Any) -> set[Any]:
    """The variables of a program that depend on the given inputs; a call depends on all that it is given."""
    found = set(given)
    for equation in program.eqns:
        if any(not isinstance(v, jex.Literal) and v in found for v in equation.invars):
            found.update(equation.outvars)
    return found


RESHAPING = frozenset(("broadcast_in_dim", "expand_dims", "reshape", "squeeze"))
"""Steps that keep the order of the entries, where they keep their number."""


def _keeps_order(equation: Any) -> bool:
    name = equation.primitive.name
    return name in RESHAPING and (name != "reshape" or equation.params["dimensions"] is None)


def is_entrywise(program: Any, given: list[bool]) -> bool:
    """Whether each entry of the output depends on no entries of the given inputs, of one size, but its own.

    Each equation that leads to the output and sees a given input then acts entry by entry on arrays of its size.
    """
    size = next(v.aval.size for v, depends in zip(program.invars, given, strict=True) if depends)
    depends = {v for v, known in zip(program.invars, given, strict=True) if known}
    sees = lambda equation: [not isinstance(v, jex.Literal) and v in depends for v in equation.invars]
    for equation in needed(program):
        if not any(seen := sees(equation)):
            continue
        name = equation.primitive.name
        keeps = all(v.aval.size == size for v in equation.outvars)
        if name in INLINED:
            keeps &= all(v.aval.size == size for v, s in zip(equation.invars, seen, strict=True) if s)
            if not keeps or not is_entrywise(inner(equation).jaxpr, seen):
                return False
        elif not (keeps and (name in ENTRYWISE or _keeps_order(equation))):
            return False
        depends.update(equation.outvars)
    return True


def needed(program: Any) -> list[Any]:
    """The steps that lead to the outputs."""
    wanted, steps = {v for v in program.outvars if not isinstance(v, jex.Literal)}, []
    for equation in reversed(program.eqns):
        if wanted.intersection(equation.outvars):
            wanted.update(v for v in equation.invars if not isinstance(v, jex.Literal))
            steps.append(equation)
    return steps[::-1]


def without_unused(closed: Any) -> Any:
    """The same program with its constants, less the steps that lead to no output, as derivatives leave them behind."""
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=needed(closed.jaxpr)))
