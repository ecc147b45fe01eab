"""Momentum coefficients beta_k, with k counted from 1."""

import abc
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check


class AbstractMomentum(eqx.Module):
    """k -> beta_k."""

    @abc.abstractmethod
    def __call__(self, k: jax.Array) -> jax.Array:
        """beta_k."""


class ConstantMomentum(AbstractMomentum):
    """beta_k = beta; the heavy-ball methods take 0.5."""

    beta: jax.Array = eqx.field(converter=_check.parameter("beta"), default=0.5)

    def __call__(self, k: jax.Array) -> jax.Array:
        return self.beta


class NoMomentum(AbstractMomentum):
    """beta_k = 0, known before anything runs: there is nothing to transport."""

    def __call__(self, k: jax.Array) -> jax.Array:
        """Zero, weakly typed."""
        return jnp.asarray(0.0)


class NesterovMomentum(AbstractMomentum):
    r"""$\beta_k = \text{scale}\,\frac{k-1}{k+\text{offset}}$.

    offset=1 is the paper's printed choice; offset=2 is the one that behaves as 1 - 3/k.
    """

    offset: jax.Array = eqx.field(converter=_check.parameter("offset", above=-1.0), default=1)
    scale: jax.Array = eqx.field(converter=_check.parameter("scale"), default=1.0)

    def __call__(self, k: jax.Array) -> jax.Array:
        return self.scale * (k - 1) / (k + self.offset)


class ScheduledMomentum(AbstractMomentum):
    """beta_k = schedule(k - shift)."""

    schedule: Callable[[Any], Any]
    shift: int = eqx.field(static=True)

    def __call__(self, k: jax.Array) -> jax.Array:
        return jnp.asarray(self.schedule(k - self.shift))


def _is_optax(schedule: Any) -> bool:
    while isinstance(schedule, functools.partial):
        schedule = schedule.func
    return (getattr(schedule, "__module__", None) or "").split(".")[0] == "optax"


def as_momentum(beta: Any) -> AbstractMomentum:
    """A number, a rule, any k -> beta, or an optax schedule (which counts from 0) as a momentum rule."""
    if isinstance(beta, AbstractMomentum):
        return beta
    if callable(beta):
        with _check.explained("beta must be a function of k that JAX can trace, but it fails"):
            value = jax.eval_shape(beta, jax.ShapeDtypeStruct((), jnp.result_type(int)))
        if getattr(value, "shape", None) != ():
            raise ValueError(f"beta must return a number for every k, but it returns {_check.shown(value)}.")
        return ScheduledMomentum(beta, shift=1 if _is_optax(beta) else 0)
    return ConstantMomentum(beta)
