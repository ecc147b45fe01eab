"""What a march through time leaves: a solution for every slab, and one function of them all."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._methods.result import Result
from .._problem.bound import Bound
from .solution import Solution


class Piecewise(eqx.Module):
    """The function that is functions[k] between times[k] and times[k + 1], the earlier one at the time between two."""

    times: jax.Array
    functions: tuple[Callable[[Any], Any], ...]

    __eq__, __hash__ = object.__eq__, object.__hash__  # as functions have them, for `jax.jit`

    def __call__(self, x: Any) -> Any:
        x = _check.floating("x", x)
        slab = jnp.searchsorted(self.times[1:-1], x[-1] if x.ndim else x)
        if not _check.is_traced(slab):
            return self.functions[int(slab)](x)
        # Weak types differ between functions that nothing else tells apart.
        strong = lambda value: jax.lax.convert_element_type(value, value.dtype)
        return jax.lax.switch(slab, [lambda x, v=v: strong(jnp.asarray(v(x))) for v in self.functions], x)


class MarchSolution(eqx.Module):
    """What `march` returns."""

    slabs: tuple[Solution, ...]
    """The solution of every slab that was made, in order; a march that was stopped may end with one under way."""
    times: jax.Array
    """The times between which these slabs lie."""
    result: Result = eqx.field(static=True)
    """How the march ended, where it was stopped; else how the last slab ended that has neither converged nor reached
    its target; where all have, how the last one ended."""
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    """What a user should know beside the results, in sentences."""

    @property
    def function(self) -> Callable[[Any], Any]:
        """The function of (x, t): that of the slab in which t lies.

        It can be differentiated, vectorised and compiled. At the time between two slabs it is the function of the
        earlier one; before the first time and after the last it is that of the nearest slab.
        """
        return Piecewise(self.times, tuple(Bound(slab.D, slab.theta) for slab in self.slabs))

    @property
    def results(self) -> tuple[Result, ...]:
        """How each slab ended."""
        return tuple(slab.result for slab in self.slabs)

    @property
    def steps(self) -> int:
        """The number of steps of all slabs."""
        return sum(slab.steps for slab in self.slabs)

    @property
    def seconds(self) -> float:
        """The seconds of all slabs, as their histories count them."""
        return sum(seconds_of(slab) for slab in self.slabs)

    def table(self) -> dict[str, np.ndarray]:
        """The histories one below the other, as `Solution.table` has each, with a column `slab` first.

        ```python
        pandas.DataFrame(march.table())
        ```
        """
        tables = [slab.table() for slab in self.slabs]
        sizes = [table["step"].size for table in tables]
        names = dict.fromkeys(name for table in tables for name in table)
        missing = lambda size: np.full(size, np.nan)
        columns = {
            name: np.concatenate([table.get(name, missing(size)) for table, size in zip(tables, sizes, strict=True)])
            for name in names
        }
        return {"slab": np.repeat(np.arange(len(sizes)), sizes), **columns}

    def summary(self) -> str:
        """A line for every slab, with its times, result, loss, steps and seconds, and one for every note, as text."""
        rows = [
            f"slab {k}  {float(self.times[k]):.6g} to {float(self.times[k + 1]):.6g}  {slab.result.name}  "
            f"loss {float(slab.loss):.3e}  {slab.steps} steps  {seconds_of(slab):.1f} s"
            for k, slab in enumerate(self.slabs)
        ]
        return "\n".join([*rows, *(f"- {note}" for note in self.notes)])

    def __repr__(self) -> str:
        highest = max(float(slab.loss) for slab in self.slabs)
        return (
            f"MarchSolution({len(self.slabs)} slabs, t={float(self.times[0]):.6g} to {float(self.times[-1]):.6g}, "
            f"highest loss={highest:.6g}, steps={self.steps}, result={self.result.name})"
        )


def seconds_of(slab: Solution) -> float:
    """The seconds of a slab."""
    return float(slab.history["seconds"][-1])


def is_good(result: Result) -> bool:
    """Whether a slab with this result is one to build on."""
    return result.converged or result is Result.TARGET_REACHED


def verdict(results: tuple[Result, ...]) -> Result:
    """The result of a march whose slabs have these."""
    return next((result for result in reversed(results) if not is_good(result)), results[-1])


def notes_of(slabs: tuple[Solution, ...]) -> tuple[str, ...]:
    """The notes of all slabs, each with its slabs, and which of these have not converged."""
    owners: dict[str, list[int]] = {}
    for k, slab in enumerate(slabs):
        for note in slab.notes:
            owners.setdefault(note, []).append(k)
    notes = tuple(f"{_named(found)}: {note}" for note, found in owners.items())
    bad = [k for k, slab in enumerate(slabs) if not is_good(slab.result) and slab.result is not Result.RUNNING]
    if not bad:
        return notes
    names = ", ".join(dict.fromkeys(slabs[k].result.name for k in bad))
    return (*notes, f"{_named(bad)}: not converged ({names}); an error at the end of a slab goes on into the next.")


def _named(numbers: list[int]) -> str:
    return f"Slab{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def made_again(earlier: Solution, later: Solution) -> tuple[str, ...]:
    """The names of functions in the later slab's loss and D that are those of the earlier one by their code alone.

    Programs know a function by its identity, so that those of the later slab had to be compiled anew.
    """

    def functions(slab: Solution) -> list[Any]:
        problem = slab.problem
        leaves = [] if problem is None else jax.tree.leaves((problem.loss, problem.D))
        return [leaf for leaf in leaves if inspect.isfunction(leaf)]

    known = functions(earlier)
    codes, same = {f.__code__ for f in known}, set(map(id, known))
    found = [f.__qualname__ for f in functions(later) if id(f) not in same and f.__code__ in codes]
    return tuple(dict.fromkeys(found))
