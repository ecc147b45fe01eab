"""Checks of what users hand in: each failure is one sentence that names the argument."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def is_traced(value: Any) -> bool:
    """Whether the value is abstract, so that it has a shape but no numbers to check."""
    return isinstance(value, Tracer)


def array(name: str, value: Any) -> jax.Array:
    """The value as a JAX array of real numbers."""
    try:
        result = jnp.asarray(value)
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


def number(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> Any:
    """A finite real number within its bounds, returned unchanged; arrays are checked entry by entry."""
    if isinstance(value, bool | str) or value is None:
        raise TypeError(f"{name} must be a number, not {value!r}.")
    result = array(name, value)
    if is_traced(result):
        return value
    entries = np.asarray(result)
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} must be finite, but it is {value}.")
    if above is not None and not (entries > above).all():
        raise ValueError(f"{name} must be greater than {above:g}, but it is {value}.")
    if least is not None and not (entries >= least).all():
        raise ValueError(f"{name} must be at least {least:g}, but it is {value}.")
    return value


def count(name: str, value: Any, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, not {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def function(name: str, value: Any) -> Any:
    """A callable, returned unchanged."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}.")
    return value


def kind(name: str, value: Any, cls: type, examples: str) -> Any:
    """An instance of `cls`, returned unchanged; `examples` says what would have been right."""
    if not isinstance(value, cls):
        raise TypeError(f"{name} must be {examples}, not {value!r}.")
    return value
