"""The memory budget: what a step will need, what there is, and which factorisation fits into it.

A step's memory is read off its traced program before anything is compiled (`_peak.peak`). With N rows, d parameters,
k = min(N, d), p rows a point and b bytes a number, a natural method takes about

- `QRSVD()`: b (4 N d + 7 k^2), which are the rows, the weighted rows, Q by columns and by rows, and the SVD of R with
  its workspace;
- `QRSVD(chunk=c)`: b (3 N d + 7 k^2), without the rows before weighting;
- `Gram()`: b (3 N d + 5 k^2), and `Gram(chunk=c)`: b (3 c p d + 6 k^2).
"""

import functools
import logging
import math
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax

from .. import _check
from .._linalg.solvers import AbstractSolver, Gram
from .._methods.safeguard import Safeguard
from .._methods.schemes import AbstractMethod
from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector
from .peak import everything, peak

log = logging.getLogger("riesz")

SHARE = 0.6
"""Of the memory that is available now, what a prediction may reach: the compiler may take 1.6 times as much."""
CHUNKS = (4096, 1024, 256, 64, 16)
"""Points at a time, the most first: larger chunks are hardly faster, smaller ones hardly smaller."""
COPIES = 32
"""No step takes so many copies of its rows, so where they would fit there is nothing to trace."""

Change = Callable[[AbstractSolver], AbstractSolver]


def available() -> float:
    """The bytes that a new array could take: what the system and the control group leave; infinite where unknown."""
    return min(_free_on_the_system(), _free_in_the_group())


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


def _free_in_the_group(root: str = "/sys/fs/cgroup") -> float:
    try:
        limit, used = (pathlib.Path(root, name).read_text().strip() for name in ("memory.max", "memory.current"))
        return math.inf if limit == "max" else float(max(int(limit) - int(used), 0))
    except (OSError, ValueError):
        return math.inf


def predicted(loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any = None) -> int:
    """The bytes that one step of a method takes at most: traced, not compiled."""
    guarded = Safeguard(method)

    def step(loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any) -> Any:
        sample = guarded.draw(loss, D, theta, key)
        return guarded.step(loss, D, theta, guarded.init(theta), sample)

    return peak(eqx.filter_make_jaxpr(step)(loss, D, theta, key)[0].jaxpr)


@functools.partial(jax.jit, static_argnums=0)
def _at_a_point(rest: Any, arrays: Any, theta: Vector, x: jax.Array) -> Any:
    """(A D(theta))(x): only ever traced, and by `jit`, which remembers, so that a second run traces nothing here."""
    leaves, shape = rest
    operator, D = eqx.combine(arrays, jax.tree.unflatten(shape, leaves))
    return operator(D(theta))(x)


def _surely_fits(
    loss: AbstractLoss, D: Parametrisation, theta: Vector, method: AbstractMethod, key: Any, limit: float
) -> bool:
    """Whether many copies of everything fit, by one point's program: spares small problems a second tracing."""
    drawing, sample = jax.make_jaxpr(lambda: method.draw(loss, D, theta, key), return_shape=True)()
    if sample.W is not None or sample.X is not None:
        return False
    numbers = theta.size**2 + everything(drawing.jaxpr)
    for term, over in zip(loss.terms, sample.terms, strict=True):
        point = jax.ShapeDtypeStruct(over.x.shape[1:], over.x.dtype)
        arrays, rest = eqx.partition((term.operator, D), eqx.is_array)
        leaves, shape = jax.tree.flatten(rest)
        program = _at_a_point.trace((tuple(leaves), shape), arrays, theta, point).jaxpr
        p = sum(math.prod(v.aval.shape) for v in program.jaxpr.outvars)
        numbers += over.x.shape[0] * (p * theta.size + everything(program.jaxpr))
    return COPIES * numbers * theta.dtype.itemsize <= limit


def _rungs() -> Iterator[tuple[Callable[[int], Change], str]]:
    """Ways to need less, the best first, each as a function of the chunk, with what it costs."""
    yield (
        lambda chunk: lambda chosen: chosen.in_chunks(chunk),
        "rows are assembled {chunk} points at a time: this costs time, but no accuracy",
    )
    yield (
        lambda chunk: lambda _: Gram(chunk),
        "riesz.Gram(chunk={chunk}) is used, without storing rows: this squares the condition number, so that "
        "eigenvalues of G below {lost:.0e} of the largest are noise, where QRSVD resolves {kept:.0e}",
    )


def fitted(
    loss: AbstractLoss,
    D: Parametrisation,
    theta: Vector,
    method: AbstractMethod,
    key: Any,
    memory: Any,
    at_once: int = 1,
) -> AbstractMethod:
    """The method itself where a step fits into memory, else one that does, with a note in the log.

    **Arguments:**

    - `memory`: bytes for all runs together; None for a share of what is available.
    - `at_once`: how many runs share it.
    """
    if memory is not None:
        _check.scalar("memory", memory, above=0.0)
    limit = (SHARE * available() if memory is None else float(memory)) / at_once
    if limit == math.inf or _surely_fits(loss, D, theta, method, key, limit):
        return method
    need = lambda method: predicted(loss, D, theta, method, key)
    first = least = need(method)
    if first <= limit:
        return method
    most = max(over.x.shape[0] for over in jax.eval_shape(lambda: loss.draw(key, D, theta)))
    chunks = [chunk for chunk in CHUNKS if chunk < most] or [1]
    for change, cost in _rungs():
        in_chunks = lambda chunk, change=change: method.solving(change(chunk)(method.solver))
        smallest = need(in_chunks(chunks[-1]))
        least = min(least, smallest)
        if smallest > limit:
            continue
        chunk, now = next(
            (chunk, now) for chunk in chunks for now in [need(in_chunks(chunk))] if now <= limit or chunk == chunks[-1]
        )
        eps = float(jax.numpy.finfo(theta.dtype).eps)
        costs = cost.format(chunk=chunk, lost=eps, kept=eps**2)
        log.warning("A step would take %s of %s, so %s (%s).", _size(first), _size(limit), costs, _size(now))
        return in_chunks(chunk)
    raise MemoryError(
        f"A step takes {_size(first)}, and {_size(least)} at least, but memory is limited to {_size(limit)}"
        f"{f' for each of {at_once} runs' if at_once > 1 else ''}: use fewer points, riesz.minibatch, a smaller model, "
        "or a larger memory=."
    )


def _size(count: float) -> str:
    """Bytes for people."""
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {unit}"
    return f"{count:.0f} bytes"
