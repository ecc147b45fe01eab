"""What a run is: what two calls must share for one to go on where the other was."""

import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._running.loop import Carry, Problem, look
from .._types import Vector

SHOWN = 60
"""How much of a part a sentence quotes."""


def versions() -> dict[str, str]:
    """What decides, beside the machine, whether the same call gives the same bits."""
    return {"python": platform.python_version(), "jax": jax.__version__, "jaxlib": importlib.metadata.version("jaxlib")}


def digest(*arrays: Any) -> str:
    """SHA-256 of arrays: of their bytes, shapes and dtypes."""
    result = hashlib.sha256()
    for array in arrays:
        if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        array = np.asarray(array)
        result.update(f"{array.dtype}{array.shape}".encode())
        result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()


def program(f: Callable[..., Any], *args: Any) -> str:
    """SHA-256 of what a function computes: its operations and its constants, whatever its parts are called."""
    arrays, rest = eqx.partition(args, eqx.is_array)
    closed = jax.make_jaxpr(lambda arrays: eqx.filter(f(*eqx.combine(arrays, rest)), eqx.is_array))(arrays)
    text = re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr))
    return digest(np.frombuffer(text.encode(), np.uint8), *closed.consts, *jax.tree.leaves(arrays))


def _text(method: Any) -> str:
    """A method as it is printed, without what changes from process to process, and numbers as numbers."""
    text = re.sub(r"0x[0-9a-f]+", "", eqx.tree_pformat(method, short_arrays=False))
    return re.sub(r"Array\(([^,()]*), dtype=[^()]*\)", r"\1", text)


def identify(problem: Problem, theta0: Vector, key: Any, carry: Carry, metrics: Any) -> dict[str, Any]:
    """The parts that must agree, from the plainest to the most hidden, so that the first difference tells most."""
    method = problem.method.method
    sample = problem.method.draw(problem.loss, problem.D, theta0, key if problem.drawn else None)
    step = lambda loss, D, method, theta, state: method.step(loss, D, theta, state, sample)[0]
    return {
        "shape of theta0": list(theta0.shape),
        "dtype of theta0": str(theta0.dtype),
        "metrics": sorted(metrics),
        "method": _text(method),
        "theta0": digest(theta0),
        "key": None if key is None else digest(key),
        "loss, data or parametrisation": program(look, problem, theta0, key, 0),
        "function inside the method": program(step, problem.loss, problem.D, method, theta0, carry.state.inner),
    }


def difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str | None:
    """In a few words, the first part in which two runs differ."""
    for name, mine in ours.items():
        other = theirs.get(name)
        if other == mine:
            continue
        if name == "method":
            lines = zip(str(other).splitlines() or [""], mine.splitlines(), strict=False)
            other, mine = next(((a.strip(), b.strip()) for a, b in lines if a != b), (other, mine))
        elif isinstance(mine, str) and len(mine) == 64:
            return f"another {name}"
        return f"another {name}: {str(other)[:SHOWN]} there, {str(mine)[:SHOWN]} here"
    return None
