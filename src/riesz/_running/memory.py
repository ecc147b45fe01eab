"""Memory: what a step will need, what there is, and which solver fits into it.

With N rows of p per point, d parameters, k = min(N, d), b bytes per number and e numbers that a model computes at one
point, a step takes about

- `QRSVD()`, in chunks too: b (2 N d + 4 k^2), which are the rows and the reflectors; R, its SVD and a workspace;
- `Gram()`, `Cholesky()`: b (3 N d + 3 k^2), and in chunks of c points b (c p d + 3 k^2);

to which come 2 b e for each point whose rows are assembled at a time, and b e for each point of a forward pass. `auto`
holds two copies of the rows, or of a chunk, more, in scaled coordinates and for the speeds of its parameters.
"""

import logging
import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _check
from .._geometry.layered import NUMBERS, rows_held
from .._geometry.layers import Plan, plan
from .._geometry.parameter_metrics import Hessian
from .._linalg.filters import Shift
from .._linalg.solvers import QRSVD, AbstractSolver, Cholesky, ConjugateGradients, Gram
from .._methods.auto import Auto
from .._methods.schemes import AbstractMethod, AbstractScheme
from .._problem.features import Whole, traced
from .._problem.integral import AbstractLoss
from .._problem.measures import Christoffel
from .._problem.programs import LAPACK, equations, reached
from .._types import Operator, Parametrisation, Vector

log = logging.getLogger("riesz")

SHARE = 0.6
"""Of the memory that is available now, what a prediction may reach: the compiler may take 1.6 times as much."""
CHUNKS = (4096, 1024, 256, 64, 16)
"""Points at a time, the most first: larger chunks are hardly faster, smaller ones hardly smaller."""

SMALL = 20_000
"""With at most this many numbers in its rows, a step takes about a tenth of a millisecond."""
MAKERS = LAPACK | frozenset("concatenate conv_general_dilated dot_general gather pad scan sort".split())
"""Steps whose results are arrays in memory; what other steps compute is mostly fused into these."""


def available() -> float:
    """The bytes that a new array could take: what device, system and control groups leave; infinite where unknown."""
    return min(_free_on_the_device(), _free_on_the_system(), _free_in_the_groups())


def _free_on_the_device() -> float:
    device = jax.devices()[0]
    stats = None if device.platform == "cpu" else device.memory_stats()
    return math.inf if not stats else float(stats.get("bytes_limit", math.inf) - stats.get("bytes_in_use", 0))


def _free_on_the_system() -> float:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _free_in_the_groups(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> float:
    """What the control group of this process and those around it leave."""
    try:
        inside = next(line[3:] for line in pathlib.Path(own).read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        inside = ""
    nested = pathlib.PurePosixPath(inside.strip().lstrip("/"))
    return min(_free_in_the_group(pathlib.Path(root, group)) for group in (nested, *nested.parents, ""))


def _free_in_the_group(folder: pathlib.Path) -> float:
    try:
        limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return math.inf if limit == "max" else float(max(int(limit) - int(used), 0))
    except (OSError, ValueError):
        return math.inf


class Size(NamedTuple):
    """The shapes of an operator's values on one measure."""

    points: int
    values: int
    """Values per point, p."""
    numbers: int
    """Numbers that the model holds on the way to the values at one point."""
    shared: int
    """Numbers that it holds once for all points, such as those of an integral of the model."""

    @property
    def rows(self) -> int:
        return self.points * self.values


def _size(operator: Operator, D: Parametrisation, theta: Vector, x: Any) -> Size:
    program = traced(D, operator, theta, x)[0].jaxpr
    at_points = reached(program, program.invars[1:2])
    numbers = {True: 0, False: 0}
    for step in program.eqns:
        made = [e for e in equations(program.replace(eqns=[step])) if e.primitive.name in MAKERS]
        numbers[not at_points.isdisjoint(step.outvars)] += sum(math.prod(v.aval.shape) for e in made for v in e.outvars)
    values = sum(math.prod(v.aval.shape) for v in program.outvars)
    return Size(1 if isinstance(operator, Whole) else x.shape[0], values, numbers[True], numbers[False])


def _solving(solver: AbstractSolver, sizes: list[Size], d: int, copies: int = 0, how: Plan | None = None) -> int:
    """Numbers for the rows of some blocks and their factors; `copies` more of the rows; `how` they have layers."""
    N = sum(size.rows for size in sizes)
    k, chunk = min(N, d), solver.points_at_once
    if isinstance(solver, ConjugateGradients):
        some = min(solver.points, sum(size.points for size in sizes)) * max(size.values for size in sizes)
        passed = sum(min(chunk or s.points, s.points) * 2 * s.numbers + s.points * s.numbers for s in sizes)
        return 2 * some * d + 3 * some**2 + 8 * d + passed
    squares, kept = (3, 3) if isinstance(solver, Gram | Cholesky) else (4, 2)
    held = kept + copies if chunk is None or isinstance(solver, QRSVD) else 0
    if how is not None and chunk is not None and N < d and held == 0:
        whole = (1 + copies) * rows_held(how, [s.rows if s.points <= chunk else 0 for s in sizes])
        return squares * k**2 + 2 * min(NUMBERS, N * d) + whole + sum(6 * s.points * s.numbers for s in sizes) + 8 * d
    # All rows before weighting are one of the copies that are held; those of a chunk come on top.
    more = 0 if chunk is None else (1 + copies) * d
    assembled = sum(min(chunk or s.points, s.points) * (more * s.values + 2 * s.numbers) for s in sizes)
    return held * N * d + squares * k**2 + assembled


def _layers(loss: AbstractLoss, D: Parametrisation, theta: Vector, sample: Any) -> Plan | None:
    """How rows are known by layers, for the operators of the loss; None where they are not."""
    values = [(term.operator, over.x) for term, over in zip(loss.terms, sample.terms, strict=True)]
    return plan(D, theta, values) if sample.W_points is None else None


def predicted(loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any = None) -> int:
    """The bytes that one step of a method takes, in closed form: nothing is compiled."""
    sample = jax.eval_shape(lambda: method.draw(loss, D, theta, key))
    terms = [_size(term.operator, D, theta, over.x) for term, over in zip(loss.terms, sample.terms, strict=True)]
    d, numbers = theta.size, sum(size.points * size.numbers + size.shared for size in terms) + 8 * theta.size
    if method.solver is not None:
        spaces = [_sizes(metric, own, terms, sample, D, theta) for metric, own in _spaces(method, sample)]
        copies = 2 if isinstance(method, Auto) else 0
        layered = method.solver.points_at_once is not None and len(spaces) == 1
        how = _layers(loss, D, theta, sample) if layered else None
        numbers += max(_solving(method.solver, space, d, copies, how) for space in spaces)
        numbers += sum(2 * sum(size.rows for size in space) * d for space in spaces[1:])
    elif isinstance(method, AbstractScheme) and isinstance(method.choices.W, Hessian):
        numbers += 5 * d**2 + d * sum(size.points * size.numbers for size in terms)
    for term, over in zip(loss.terms, sample.terms, strict=True):
        is_pool = lambda part: isinstance(part, Christoffel)
        for part in filter(is_pool, jax.tree.leaves(term.over, is_leaf=is_pool)):
            pool = _size(term.operator, D, theta, part.pool.x)
            numbers += _solving(QRSVD(), [pool], d, copies=1)
        numbers += 2 * over.x.size
    return numbers * theta.dtype.itemsize


def is_small(loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any) -> bool:
    """Whether rows and models are so small that compiling a step takes longer than a thousand of them."""
    sample = jax.eval_shape(lambda: method.draw(loss, D, theta, key))
    sizes = [_size(term.operator, D, theta, over.x) for term, over in zip(loss.terms, sample.terms, strict=True)]
    return sum(size.points * (size.values * theta.size + size.numbers) + size.shared for size in sizes) <= SMALL


def _spaces(method: AbstractMethod, sample: Any) -> list[tuple[Any, Any]]:
    """The inner products whose spaces a step has, with the points of their own; X only where it is projected onto."""
    found = [(method.inner_products["W"], sample.W_points)]
    if isinstance(method, AbstractScheme) and method.choices.X is not None:
        found += [(method.choices.X, sample.X_points)] if method.choices.transport.inner_product == "X" else []
    return found


def _sizes(metric: Any, own: Any, terms: list[Size], sample: Any, D: Parametrisation, theta: Vector) -> list[Size]:
    """The sizes of the blocks of an inner product."""
    operator = getattr(metric, "operator", None)
    if operator is None:
        return terms
    return [_size(operator, D, theta, over.x) for over in (sample.terms if own is None else (own,))]


def _rungs(method: AbstractMethod) -> Iterator[tuple[Any, str]]:
    """Ways to need less, the best first, each as a function of the chunk, with what it costs."""
    assert method.solver is not None
    yield method.solver.in_chunks, "rows are assembled {chunk} points at a time: this costs time, but no accuracy"
    filter = method.choices.filter if isinstance(method, AbstractScheme) else None
    shifts = isinstance(method, Auto) or isinstance(filter, Shift)
    solver, why = (Cholesky, "") if shifts else (Gram, "this squares the condition number, so that ")
    used = f"riesz.{solver.__name__}(chunk={{chunk}}) is used, without storing rows: {why}"
    yield solver, used + "eigenvalues of G below {lost:.0e} of the largest are noise, where QRSVD resolves {kept:.0e}"


def fitted(
    loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any, memory: Any, runs: int = 1
) -> AbstractMethod:
    """The method itself where a step fits into memory, else one that does, with a note in the log.

    **Arguments:**

    - `memory`: bytes for all runs together; None for a share of what is available.
    - `runs`: how many runs share it.
    """
    if memory is not None:
        _check.scalar("memory", memory, above=0.0)
    limit = (SHARE * available() if memory is None else float(memory)) / runs
    if limit == math.inf:
        return method
    need = lambda method: predicted(loss, D, theta, method, key)
    first = least = need(method)
    if first <= limit:
        return method
    most = max(over.x.shape[0] for over in jax.eval_shape(lambda: loss.draw(key, D, theta)))
    chunks = [chunk for chunk in CHUNKS if chunk < most] or [1]
    for solver, cost in _rungs(method) if method.solver is not None else ():
        smallest = need(method.solving(solver(chunks[-1])))
        least = min(least, smallest)
        if smallest > limit:
            continue
        chunk = next(c for c in chunks if c == chunks[-1] or need(method.solving(solver(c))) <= limit)
        changed, eps = method.solving(solver(chunk)), float(jnp.finfo(theta.dtype).eps)
        takes, costs = _shown(need(changed)), cost.format(chunk=chunk, lost=eps, kept=eps**2)
        log.warning("A step would take %s of %s, so %s (%s).", _shown(first), _shown(limit), costs, takes)
        return changed
    raise MemoryError(
        f"A step takes {_shown(first)}, and {_shown(least)} at least, but memory is limited to {_shown(limit)}"
        f"{f' for each of {runs} runs' if runs > 1 else ''}: use fewer points, riesz.minibatch, a smaller model, "
        "or a larger memory=."
    )


def _shown(count: float) -> str:
    """Bytes for people."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {unit}"
    return f"{count:.0f} bytes"
