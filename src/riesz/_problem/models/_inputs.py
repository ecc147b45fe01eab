"""Models behind a fixed map: x goes to D(theta)(phi(x)), and phi has no parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Function, Parametrisation, Vector
from ._around import AbstractAround


class Composed(AbstractAround):
    """The parametrisation of the functions D(theta)(inputs(x))."""

    D: Parametrisation
    inputs: Callable[[Any], Any]

    def __call__(self, theta: Vector) -> Function:
        v = self.D(theta)
        return lambda x: v(self.inputs(x))


class FourierFeatures(eqx.Module):
    """The map from x to (cos(B x), sin(B x)), where B is the matrix of frequencies."""

    frequencies: jax.Array

    def __call__(self, x: Any) -> jax.Array:
        angle = self.frequencies @ _check.point(x, self.frequencies.shape[1:], "these features")
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])


def fourier_features(D: Parametrisation, frequencies: Any) -> Composed:
    r"""A model behind a fixed Fourier feature map, $x \mapsto D(\theta)(\cos Bx, \sin Bx)$.

    High frequencies in B let a network of moderate weights follow rapid oscillations.

    **Arguments:**

    - `D`: a parametrisation whose functions take points of 2m entries.
    - `frequencies`: the matrix B of shape (m, n), most often random; n = 1 accepts scalar points. It is not fitted.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (40, 20, 1))
    D = riesz.fourier_features(D, 5.0 * jax.random.normal(jax.random.key(1), (20, 2)))
    ```
    """
    _check.function("D", D)
    matrix = _check.floating("frequencies", frequencies)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"frequencies must have two axes, waves and dimensions, but the shape is {matrix.shape}.")
    _check.finite_rows("frequencies", matrix)
    return Composed(D, FourierFeatures(matrix))


class Circles(eqx.Module):
    """The map from x to (cos(2 pi k x_i / p_i), sin(2 pi k x_i / p_i), x_j): i are the periodic dimensions, not j."""

    periods: jax.Array
    periodic: tuple[int, ...] = eqx.field(static=True)
    others: tuple[int, ...] = eqx.field(static=True)
    scalar: bool = eqx.field(static=True)
    harmonics: int = eqx.field(static=True, default=1)
    """The largest k."""

    def __call__(self, x: Any) -> jax.Array:
        shape = () if self.scalar else (len(self.periodic) + len(self.others),)
        x = _check.point(x, shape, "these periods")
        angle = 2 * jnp.pi * x[jnp.array(self.periodic)] / self.periods
        angle = jnp.concatenate([k * angle for k in range(1, self.harmonics + 1)])
        kept = [x[jnp.array(self.others)]] if self.others else []
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle), *kept])


def periodic(D: Parametrisation, period: Any, harmonics: int = 1) -> Composed:
    r"""A periodic model, $x \mapsto D(\theta)(\cos\tfrac{2\pi x}{p}, \sin\tfrac{2\pi x}{p})$.

    All its derivatives are periodic too.

    **Arguments:**

    - `D`: a parametrisation whose functions take the cosines of the periodic dimensions, then their sines, then the
      other dimensions: 2 entries for a scalar point.
    - `period`: a number for scalar points; for vector points one for each dimension, None where it is not periodic.
    - `harmonics`: how many multiples of each angle `D` takes: the cosines of all angles, of twice all angles and so on,
      then the sines, so 2 `harmonics` entries for a scalar point. One is enough to represent every periodic function,
      and more have made errors larger as often as smaller.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (3, 20, 1))
    D = riesz.periodic(D, (2.0, None))  # points (x, t): periodic in x
    ```
    """
    _check.function("D", D)
    scalar = not isinstance(period, Sequence) and jnp.ndim(_check.number("period", period)) == 0
    entries = [period] if scalar else list(period)
    held = tuple(i for i, entry in enumerate(entries) if entry is not None)
    if not held:
        raise ValueError("period must hold at least one number, but it holds none.")
    periods = _check.floating("period", [_check.scalar("period", entries[i], above=0.0) for i in held])
    others = tuple(i for i in range(len(entries)) if i not in held)
    return Composed(D, Circles(periods, held, others, scalar, _check.count("harmonics", harmonics)))


class Since(eqx.Module):
    """The map from (x, t) to (x, t - t0)."""

    t0: jax.Array

    def __call__(self, x: Any) -> jax.Array:
        x = _check.floating("x", x)
        return jnp.concatenate([x[:-1], x[-1:] - self.t0]) if x.ndim else x - self.t0


def local_time(D: Parametrisation, t0: Any) -> Composed:
    r"""A model whose clock starts at t0, $(x, t) \mapsto D(\theta)(x, t - t_0)$.

    In a slab of `riesz.march`, the same parameters are then the same motion, later: networks see times of one size
    however long the march is.

    **Arguments:**

    - `D`: a parametrisation of functions of (x, t), or of a time alone.
    - `t0`: a number.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 20, 1))
    D = riesz.local_time(D, 5.0)
    ```
    """
    return Composed(_check.function("D", D), Since(_check.leaf(_check.scalar("t0", t0))))
