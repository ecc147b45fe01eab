"""A solution in one file, an archive of `_bytes.archive`: written by `solution.save`, read by `riesz.load`."""

import pathlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._bytes.archive import Damaged, pack, unpack
from .._bytes.files import replacing
from .._methods.result import Result
from .fingerprint import Origin, origin, versions
from .memory import SHARE, available

FORMAT = 1
KIND = "solution"
KINDS = {"format": int, "kind": str, "result": list, "notes": list, "origin": list, "starts": list, "many": bool}
"""What a manifest must have, and of which kind."""


def origin_of(solution: Any) -> Origin | None:
    """What a solution was found with; None where nobody knows."""
    if solution.origin is not None or solution.problem is None or solution.problem.method is None:
        return solution.origin
    return origin(solution.problem, solution.last if solution.last.ndim == 1 else solution.last[0])


def save(solution: Any, path: pathlib.Path) -> None:
    """Write a solution; the file is whole, or is not there."""
    many = solution.theta.ndim > 1
    known = origin_of(solution)
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "versions": versions(),
        "many": many,
        "result": [result.name for result in (solution.result if many else [solution.result])],
        "notes": list(solution.notes),
        "origin": [] if known is None else list(known),
        "state": None if solution.state is None else len(_leaves(solution.state)),
        "starts": [
            [start.number, start.result.name, start.steps, start.loss, start.seconds] for start in solution.starts
        ],
    }
    arrays = {name: np.asarray(getattr(solution, name)) for name in ("theta", "last", "loss", "steps")}
    arrays |= {} if solution.between is None else {"between": np.asarray(solution.between)}
    arrays |= {f"history/{name}": column for name, column in solution.history.items()}
    arrays |= {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(_leaves(solution.state))}
    arrays |= {f"start/{i}": np.asarray(start.theta0) for i, start in enumerate(solution.starts)}
    content = pack(manifest, arrays)
    with replacing(path) as file:
        file.write(content)


def _leaves(state: Any) -> list[Any]:
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def read(path: pathlib.Path) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The fields of a solution in a file but D, and its starts; `Damaged` where it is not whole, or no solution."""
    manifest, arrays = unpack(path, int(SHARE * available()))
    if manifest.get("kind") != KIND:
        raise Damaged("is no solution that riesz has saved")
    if manifest.get("format") != FORMAT:
        raise Damaged(f"has format {manifest.get('format')}, and this version of riesz reads format {FORMAT}")
    if not all(isinstance(manifest.get(name), kind) for name, kind in KINDS.items()):
        raise Damaged("is no solution that riesz has saved")
    try:
        return _fields(manifest, arrays)
    except (LookupError, TypeError, ValueError) as error:  # a good checksum does not say who wrote it
        raise Damaged("is no solution that riesz has saved") from error


def _fields(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The same, of a manifest and its arrays."""
    theta, last, loss, steps = (arrays[name] for name in ("theta", "last", "loss", "steps"))
    results = [Result[name] for name in manifest["result"]]
    many, count = manifest["many"], theta.shape[:1] if manifest["many"] else ()
    shapes = theta.ndim == 1 + len(count) and last.shape == theta.shape and loss.shape == steps.shape == count
    if not shapes or theta.dtype.kind != "f" or len(results) != (len(theta) if many else 1):
        raise ValueError
    between = arrays.get("between")
    if between is not None and (between.shape != count or between.dtype.kind != "f"):
        raise ValueError
    history = {name.removeprefix("history/"): array for name, array in arrays.items() if name.startswith("history/")}
    state = manifest["state"]
    fields = {
        "theta": _array(theta),
        "loss": _array(loss),
        "last": _array(last),
        "result": np.array(results, dtype=object) if many else results[0],
        "steps": steps if many else int(steps),
        "history": history,
        "between": between if between is None or many else float(between),
        "notes": tuple(map(str, manifest["notes"])),
        "state": None if state is None else tuple(_array(arrays[f"state/{i}"]) for i in range(state)),
        "origin": Origin(*manifest["origin"]) if manifest["origin"] else None,
    }
    starts = [
        (number, _array(arrays[f"start/{i}"]), Result[result], steps, loss, seconds)
        for i, (number, result, steps, loss, seconds) in enumerate(manifest["starts"])
    ]
    return fields, starts


def _array(array: np.ndarray) -> jax.Array:
    """An array of JAX, of the same type."""
    if array.dtype.itemsize == 8 and not jax.config.read("jax_enable_x64"):
        raise Damaged('is of double precision: put jax.config.update("jax_enable_x64", True) first')
    return jnp.asarray(array)
