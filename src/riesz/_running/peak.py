"""The peak memory of a traced program: what its arrays take while they live, without running or compiling it.

The model is XLA's in outline. Element-wise work and changes of shape are fused into whoever reads them, so they take
nothing until an operation needs them as an array; every array lives from the operation that makes it to the last one
that reads it; a loop takes the peak of one turn. Factorisations add the workspace that LAPACK asks for.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from jax.extend.core import Literal

CALLS = {"jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call"}
"""Calls of other programs, which are looked into."""
LOOPS = {"scan", "while", "cond"}
SOLVERS = {"qr", "svd", "eigh", "geqrf", "householder_product", "lu", "cholesky"}
MAKERS = {"dot_general", "pad", "concatenate", "gather", "sort", "dynamic_update_slice", "conv_general_dilated"}
"""Besides loops and solvers, the operations that need their operands and their results as arrays."""
VIEWS = {"reshape", "squeeze", "expand_dims", "transpose"}


def _bytes(variable: Any) -> int:
    aval = variable.aval
    size = math.prod(getattr(aval, "shape", ()))
    return size * getattr(getattr(aval, "dtype", None), "itemsize", 8)


def _programs(equation: Any) -> list[Any]:
    """The programs that an equation calls."""
    parts = [p for value in equation.params.values() for p in (value if isinstance(value, tuple | list) else (value,))]
    parts = [getattr(part, "jaxpr", part) for part in parts]
    return [part for part in parts if hasattr(part, "eqns")]


def workspace(name: str, shape: tuple[int, ...], itemsize: int) -> int:
    """What LAPACK asks for on top of the factors of one matrix of this shape."""
    k = min(shape)
    if name == "svd":
        return itemsize * (4 * k**2 + 7 * k) + 4 * 8 * k  # gesdd
    if name == "eigh":
        return itemsize * (2 * k**2 + 6 * k + 1) + 4 * (5 * k + 3)  # syevd
    rows = math.prod(shape) if name in ("qr", "householder_product") else 0  # LAPACK's Q is by columns, ours by rows
    return itemsize * (64 * max(shape) + rows)  # blocked QR, LU


@dataclasses.dataclass
class _Operation:
    name: str
    reads: list[int]
    makes: list[int]
    extra: int


class _Flat:
    """A program as a list of operations on numbered values, the programs that it calls written out."""

    def __init__(self, jaxpr: Any):
        self.sizes: list[int] = []
        self.operations: list[_Operation] = []
        scope = {v: self._value(v) for v in [*jaxpr.constvars, *jaxpr.invars]}
        self.given = set(scope.values())
        self._write(jaxpr, scope)
        self.results = [scope[v] for v in jaxpr.outvars if not isinstance(v, Literal)]
        self._drop_what_nobody_reads()

    def _value(self, variable: Any) -> int:
        self.sizes.append(_bytes(variable))
        return len(self.sizes) - 1

    def _write(self, jaxpr: Any, scope: dict[Any, int]) -> None:
        for equation in jaxpr.eqns:
            name, programs = equation.primitive.name, _programs(equation)
            if name in CALLS and programs:
                inner = programs[0]
                known = zip([*inner.constvars, *inner.invars], equation.invars[-len(inner.invars) :], strict=False)
                called = {v: scope[w] if not isinstance(w, Literal) else self._value(w) for v, w in known}
                self._write(inner, called)
                for outer, v in zip(equation.outvars, inner.outvars, strict=True):
                    scope[outer] = self._value(outer) if isinstance(v, Literal) else called[v]
                continue
            reads = [scope[v] for v in equation.invars if not isinstance(v, Literal)]
            scope.update({v: self._value(v) for v in equation.outvars})
            makes = [scope[v] for v in equation.outvars]
            self.operations.append(_Operation(name, reads, makes, self._extra(equation, programs)))

    def _extra(self, equation: Any, programs: list[Any]) -> int:
        """What an operation takes beyond its operands and results."""
        name = equation.primitive.name
        if name in SOLVERS:
            operand = equation.invars[0].aval
            return workspace(name, operand.shape[-2:], operand.dtype.itemsize)
        if not programs:
            return 0
        slices = 0
        if name == "scan":  # one turn reads one slice of each of the last operands
            body, fixed = programs[0], equation.params["num_consts"] + equation.params["num_carry"]
            slices = sum(_bytes(v) for v in body.invars[fixed:])
        return slices + max(peak(program, inputs=False) for program in programs)

    def _drop_what_nobody_reads(self) -> None:
        needed, kept = set(self.results), []
        for operation in reversed(self.operations):
            if needed.intersection(operation.makes):
                needed.update(operation.reads)
                kept.append(operation)
        self.operations = kept[::-1]


class _Lives:
    """When each array is made and last read: operation i at 2 i + 1, operands that were fused before it at 2 i."""

    def __init__(self, flat: _Flat):
        self.size: dict[int, int] = {v: flat.sizes[v] for v in flat.given}
        self.birth: dict[int, int] = dict.fromkeys(flat.given, -1)
        self.death: dict[int, int] = {}
        self._behind = {v: {v} for v in flat.given}  # the arrays that stand behind a value
        self._fused: set[int] = set()  # values that are no arrays yet
        for index, operation in enumerate(flat.operations):
            self._follow(flat, 2 * index + 1, operation)
        end = 2 * len(flat.operations)
        self._use(end, self._made(flat, end, flat.results))

    def _follow(self, flat: _Flat, index: int, operation: _Operation) -> None:
        name, reads = operation.name, operation.reads
        arrays = name in MAKERS | LOOPS | SOLVERS
        behind = (
            self._made(flat, index - 1, reads) if arrays else set().union(*(self._behind.get(v, set()) for v in reads))
        )
        self._use(index, behind)
        for value in operation.makes:
            if arrays or name.startswith("reduce") or not behind:
                self._make(flat, index, value)
                continue
            self._behind[value] = behind
            if name not in VIEWS or self._fused.intersection(reads):
                self._fused.add(value)

    def _make(self, flat: _Flat, index: int, value: int) -> None:
        self.size[value], self.birth[value] = flat.sizes[value], index
        self._behind[value] = {value}
        self._fused.discard(value)

    def _made(self, flat: _Flat, index: int, values: Iterable[int]) -> set[int]:
        """The arrays behind values that must now be arrays."""
        for value in values:
            if value in self._fused:
                self._use(index, self._behind[value])
                self._make(flat, index, value)
        return set().union(*(self._behind.get(v, set()) for v in values))

    def _use(self, index: int, arrays: Iterable[int]) -> None:
        self.death.update(dict.fromkeys(arrays, index))


def everything(jaxpr: Any) -> int:
    """How many numbers a program computes in all, those of the programs that it calls included."""
    return sum(
        sum(math.prod(getattr(v.aval, "shape", ())) for v in equation.outvars)
        + sum(map(everything, _programs(equation)))
        for equation in jaxpr.eqns
    )


def peak(jaxpr: Any, inputs: bool = True) -> int:
    """The most bytes that the arrays of a program take at one time, with or without its inputs."""
    flat = _Flat(jaxpr)
    lives = _Lives(flat)
    change = [0] * (2 * len(flat.operations) + 3)
    for array, size in lives.size.items():
        if array in flat.given:
            continue
        change[lives.birth[array]] += size
        change[lives.death.get(array, lives.birth[array]) + 1] -= size
    most = now = 0
    for time in range(2 * len(flat.operations) + 1):
        now += change[time]
        most = max(most, now + (flat.operations[time // 2].extra if time % 2 else 0))
    return most + (sum(flat.sizes[v] for v in flat.given) if inputs else 0)
