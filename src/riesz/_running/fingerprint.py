"""The fingerprint of a run: what two calls must share for one to go on where the other was."""

import dataclasses
import importlib.metadata
import platform
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax

from .._bytes.digest import anonymous, digest
from .._types import Vector
from .compiled import here
from .loop import Carry, look
from .problem import Problem

SHOWN = 60
"""The most characters of a part that a sentence quotes."""


def versions() -> dict[str, str]:
    """What decides, beside the machine, whether the same call gives the same bits."""
    return {"python": platform.python_version(), "jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}


def program(f: Callable[..., Any], *args: Any) -> str:
    """SHA-256 of what a function computes: its operations and all its constants, whatever its parts are called."""
    closed, _, _ = eqx.filter_make_jaxpr(f)(*args)
    return digest((closed, jax.tree.leaves(eqx.filter(args, eqx.is_array))))


def text(method: Any) -> str:
    """A method as it is printed, with numbers as numbers, and without places in memory and names of functions."""
    # On one line: where lines would break depends on the lengths of names.
    text = anonymous(" ".join(eqx.tree_pformat(method, width=1_000_000, short_arrays=False).split()))
    return re.sub(r"Array\(([^,()]*), dtype=[^()]*\)", r"\1", text)


def _strong(leaf: Any) -> Any:
    """An array of the type that it has, which Python's numbers would not decide; on a mesh all are so."""
    weak = isinstance(leaf, jax.Array) and getattr(leaf, "weak_type", False)
    return jax.lax.convert_element_type(leaf, leaf.dtype) if weak else leaf


def fingerprint(
    problem: Problem, theta0: Vector, key: Any, carry: Carry, metrics: Any, goes_on: bool = False
) -> dict[str, Any]:
    """The parts that must agree, from the plainest to the most hidden, so that the first difference tells most.

    A run that goes on from another one has its start in the carry.
    """
    problem, key, carry = jax.tree.map(_strong, here((problem, key, carry), problem.mesh))
    problem = dataclasses.replace(problem, mesh=None)  # a run may go on with other devices
    method = problem.method.method
    sample = problem.method.draw(problem.loss, problem.D, theta0, key if problem.drawn else None)
    sample = problem.keyed(sample, key, 0)
    step = lambda loss, D, method, theta, state: method.step(loss, D, theta, state, sample)[0]
    return {
        "shape of theta0": list(theta0.shape),
        "dtype of theta0": str(theta0.dtype),
        "metrics": sorted(metrics),
        "method": text(method),
        "theta0": digest(theta0),
        **({"start": digest(jax.tree.leaves((carry.state, carry.best, carry.best_loss)))} if goes_on else {}),
        "key": None if key is None else digest(key),
        "loss, data or parametrisation": program(look, dataclasses.replace(problem, validation=None), theta0, key, 0),
        **({} if problem.validation is None else {"validation": program(problem.validation, theta0)}),
        "function inside the method": program(step, problem.loss, problem.D, method, theta0, carry.state.inner),
    }


class Origin(NamedTuple):
    """What a solution was found with, as far as a file can say it."""

    method: str
    """The method as it is printed."""
    problem: str | None
    """The digest of the loss of D at `last`; None where points are drawn."""


def origin(problem: Problem, theta: Vector) -> Origin:
    """What a solution with these last parameters was found with."""
    problem, theta = jax.tree.map(_strong, here((problem, theta), problem.mesh))
    problem = dataclasses.replace(problem, mesh=None)
    plain = dataclasses.replace(problem, validation=None)
    seen = None if problem.drawn else program(look, plain, theta, None, 0)
    return Origin(text(problem.method.method), seen)


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str | None:
    """In a few words, the first part in which two runs differ."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if other == mine:
            continue
        if name == "method":
            fields = zip(str(other).split(", "), mine.split(", "), strict=False)
            other, mine = next((pair for pair in fields if pair[0] != pair[1]), (other, mine))
        elif isinstance(mine, str) and len(mine) == 64:
            return f"another {name}"
        return f"another {name}: {str(other)[:SHOWN]} there, {str(mine)[:SHOWN]} here"
    return None
