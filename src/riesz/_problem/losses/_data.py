"""Checks of the data of a loss: that they are there, that they fit the model, that their values make sense."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..measures import AbstractMeasure, Points


def matched(loss: str, z: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
    """The value and the data in one shape; (1,) and () are equal, any other difference is an error."""
    data = jnp.asarray(present(loss, data), z.dtype)
    if z.shape == data.shape:
        return z, data
    if z.size == data.size == 1:
        return z.reshape(()), data.reshape(())
    raise _check.Mismatch(f"data must match the model in {loss}: values are {z.shape}, data is {data.shape} per point.")


def present(loss: str, data: Any) -> Any:
    """The data, returned unchanged; their absence is an error."""
    if data is None:
        raise _check.Mismatch(f"over must carry data for {loss}, such as riesz.points(x, data=y).")
    return data


def known(over: AbstractMeasure) -> np.ndarray | None:
    """All the data that a measure can ever give; None where they cannot be seen before the run."""
    fixed = getattr(over, "points", getattr(over, "pool", over))  # of mini-batches, of Christoffel points
    if not isinstance(fixed, Points) or fixed.data is None or _check.is_traced(fixed.data):
        return None
    return np.asarray(fixed.data)
