"""Checks of what users hand in; each failure is one sentence that names the argument."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


class Mismatch(ValueError):
    """Parts that do not fit together, found while a user's function is traced, in a sentence that says so."""


def is_traced(value: Any) -> bool:
    """Whether the value is traced, so that it has a shape but no numbers to check."""
    return isinstance(value, Tracer)


def shown(value: Any) -> str:
    """A value as a message shows it: itself where that is short, else what it is."""
    if getattr(value, "shape", ()) != () or isinstance(value, jax.ShapeDtypeStruct):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"an object of type {type(value).__name__}"


@contextlib.contextmanager
def explained(sentence: str) -> Iterator[None]:
    """Put a sentence in front of whatever a user's function raises while it is traced."""
    try:
        yield
    except Mismatch:
        raise
    except (TypeError, ValueError, IndexError) as error:
        cause = (str(error).splitlines() or [""])[0].rstrip(".")
        raise ValueError(f"{sentence}: {cause if len(cause) <= 120 else cause[:118] + '..'}.") from error


def native(value: Any) -> Any:
    """The value with every NumPy array in it in the byte order of this machine, the only one that JAX takes.

    Files written elsewhere are often in the other order. Their numbers are the same, so they are converted silently.
    """

    def convert(entry: Any) -> Any:
        foreign = isinstance(entry, np.ndarray) and not entry.dtype.isnative
        return entry.astype(entry.dtype.newbyteorder("=")) if foreign else entry

    return jax.tree.map(convert, value)


def leaf(value: Any) -> Any:
    """A number as a pytree leaf: traced, so that changing it compiles nothing.

    It stays weakly typed, so that it never promotes float32 parameters. What is not a number is returned unchanged,
    because this function does not know the argument's name; the check that follows refuses it.
    """
    if isinstance(value, str):
        return value
    try:
        is_number = isinstance(value, int | np.integer | np.floating) and not isinstance(value, bool)
        return jnp.asarray(float(value) if is_number else native(value))
    except (TypeError, ValueError):
        return value


def array(name: str, value: Any) -> jax.Array:
    """The value as a JAX array of real numbers."""
    try:
        if any(isinstance(entry, str | bytes) for entry in jax.tree.leaves(value)):
            raise TypeError("text")
        result = jnp.asarray(native(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, not {type(value).__name__}.") from error
    if jnp.issubdtype(result.dtype, jnp.complexfloating):
        raise TypeError(f"{name} must be real, but its dtype is {result.dtype}.")
    return result


def floating(name: str, value: Any) -> jax.Array:
    """The value as a JAX array of floating-point numbers (integers are converted)."""
    result = array(name, value)
    return result if jnp.issubdtype(result.dtype, jnp.floating) else result.astype(jnp.result_type(float))


def finite_rows(name: str, value: jax.Array) -> None:
    """Refuse NaN and infinity, naming the first bad row."""
    if is_traced(value) or not jnp.issubdtype(value.dtype, jnp.inexact):
        return
    good = np.isfinite(np.asarray(value)).reshape(value.shape[0], -1).all(axis=1)
    if not good.all():
        raise ValueError(f"{name} must be finite, but row {int(np.argmin(good))} is not.")


def number(
    name: str, value: Any, *, above: float | None = None, least: float | None = None, below: float | None = None
) -> Any:
    """A finite real number within its bounds, returned unchanged; arrays are checked entry by entry."""
    if isinstance(value, str) or value is None:
        raise TypeError(f"{name} must be a number, not {value!r}.")
    result = array(name, value)
    if result.dtype == bool:
        raise TypeError(f"{name} must be a number, not {shown(value)}.")
    if is_traced(result):
        return value
    entries = np.asarray(result)

    def demand(kept: Any, rule: str) -> None:
        if not kept.all():
            found = f"it is {entries}" if entries.ndim == 0 else f"it holds {entries[~kept][0]}"
            raise ValueError(f"{name} must be {rule}, but {found}.")

    demand(np.isfinite(entries), "finite")
    if above is not None:
        demand(entries > above, f"greater than {above:g}")
    if least is not None:
        demand(entries >= least, f"at least {least:g}")
    if below is not None:
        demand(entries < below, f"less than {below:g}")
    return value


def parameter(name: str, **bounds: float) -> Callable[[Any], Any]:
    """The converter of a field that holds a number as a pytree leaf, within its bounds."""
    return lambda value: number(name, leaf(value), **bounds)


def ordered(low: Any, high: Any) -> None:
    """Refuse an interval whose ends are not in order."""
    if not (is_traced(low) or is_traced(high) or low < high):
        raise ValueError(f"low must lie below high, but they are {low} and {high}.")


def point(x: Any, shape: tuple[int, ...], owner: str) -> jax.Array:
    """A point as a vector; () and (1,) are one shape, and any other that is not the owner's is refused."""
    if jnp.shape(x) != shape and not {jnp.shape(x), shape} <= {(), (1,)}:
        raise Mismatch(f"x must hold points of shape {shape} for {owner}, not {jnp.shape(x)}.")
    return jnp.reshape(x, (-1,))


def scalar(name: str, value: Any, **bounds: float) -> Any:
    """A single number within its bounds, returned unchanged."""
    shape = array(name, number(name, value, **bounds)).shape
    if shape != ():
        raise ValueError(f"{name} must be a single number, but its shape is {shape}.")
    return value


def count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, not {shown(value)}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def order(value: Any) -> int:
    """The order in time of an equation, 1 or 2, returned unchanged."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in (1, 2):
        raise ValueError(f"order must be 1 or 2, the order of the equation in time, not {shown(value)}.")
    return value


def function(name: str, value: Any) -> Any:
    """A callable, returned unchanged."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, not {shown(value)}.")
    return value


def kind(name: str, value: Any, cls: Any, examples: str) -> Any:
    """An instance of `cls`, returned unchanged; `examples` says what would have been right."""
    if not isinstance(value, cls):
        raise TypeError(f"{name} must be {examples}, not {shown(value)}.")
    return value


def key(name: str, value: Any) -> Any:
    """One random key of either style, returned unchanged."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (shape == () if typed else dtype == np.uint32 and len(shape or ()) == 1):
        raise TypeError(f"{name} must be one random key, such as jax.random.key(0), not {shown(value)}.")
    return value
