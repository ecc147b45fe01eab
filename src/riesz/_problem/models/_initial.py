"""Hard initial conditions: models that begin, in time, as another function does."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._types import Function, Parametrisation, Vector
from ..bound import Bound
from ._around import AbstractAround

PLACES = 8
"""The networks of earlier slabs have so many places, or a multiple of them: one slab more compiles nothing."""


def _time(x: jax.Array) -> jax.Array:
    return x[-1] if x.ndim else x


def _at(x: jax.Array, t: jax.Array) -> jax.Array:
    """The point with its time replaced; a scalar point is nothing but a time."""
    t = jnp.asarray(t, x.dtype)
    return jnp.concatenate([x[:-1], t[None]]) if x.ndim else t


def _value_and_rate(v: Function, x: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The value of v and its derivative in time, at another time."""
    t = jnp.asarray(t, x.dtype)
    return jax.jvp(lambda t: jnp.asarray(v(_at(x, t))), (t,), (jnp.ones_like(t),))


class Past(eqx.Module):
    """What earlier slabs have added to the initial function, their networks evaluated side by side.

    From s to e a slab of first order is g(x) + (t - s) N(x, t), which adds (e - s) N(x, e) to the g of the next one. A
    slab of second order is g(x) + (t - s) h(x) + (t - s)^2 N(x, t), which adds to the rate h too.
    """

    D: Parametrisation
    """The parametrisation of the networks N, with all its arrays stacked."""
    thetas: jax.Array
    begins: jax.Array
    ends: jax.Array
    """Where a place is not taken, its end is its beginning, so that it adds nothing."""

    def __call__(self, x: jax.Array, order: int) -> jax.Array:
        arrays, rest = eqx.partition(self.D, eqx.is_array)

        def added(arrays: Any, theta: jax.Array, begin: jax.Array, end: jax.Array) -> jax.Array:
            network, length, since = eqx.combine(arrays, rest)(theta), end - begin, _time(x) - end
            if order == 1:
                return length * network(_at(x, end))
            value, rate = _value_and_rate(network, x, end)
            return length * (length + 2 * since) * value + length**2 * since * rate

        return jnp.sum(jax.vmap(added)(arrays, self.thetas, self.begins, self.ends), axis=0)

    def longer(self, latest: "Past") -> "Past":
        """The past with one slab more, in the first place that is free."""
        taken = int(np.count_nonzero(np.asarray(self.begins) != np.asarray(self.ends)))
        free = latest if taken % PLACES else latest.in_places()
        # By NumPy, which compiles nothing.
        join = lambda a, b: jnp.asarray(np.concatenate([a[:taken], b, a[taken + 1 :]]))
        return eqx.combine(jax.tree.map(join, *map(_as_numpy, (self, free))), self)

    def in_places(self) -> "Past":
        """A single slab, and places that are free, with copies of its network: its values are finite."""
        repeated = jax.tree.map(lambda a: np.repeat(a, PLACES, axis=0), _as_numpy(self))
        repeated.begins[1:] = repeated.ends[1:]
        return eqx.combine(jax.tree.map(jnp.asarray, repeated), self)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _as_numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, eqx.filter(tree, _is_array))


class HardInitial(AbstractAround):
    """The parametrisation of the functions g(x) + (t - t0) D(theta)(x, t), or those of second order."""

    D: Parametrisation
    initial: Any
    """A function or a number."""
    since: jax.Array
    """The time at which the initial function is taken."""
    t0: jax.Array
    past: Past | None
    """What has been added between these times; None for nothing."""
    order: int = eqx.field(static=True)

    def __call__(self, theta: Vector) -> Function:
        network = self.D(theta)

        def v(x: Any) -> jax.Array:
            x = _check.floating("x", x)
            z = (_time(x) - self.t0) ** self.order * network(x)
            z = self._initial(x, z) + z
            return z if self.past is None else self.past(x, self.order) + z

        return v

    def _initial(self, x: jax.Array, z: jax.Array) -> jax.Array:
        """The initial function, of second order with its rate."""
        rate: Any = 0
        if not callable(self.initial):
            value = jnp.asarray(self.initial, z.dtype)
        elif self.order == 1:
            value = jnp.asarray(self.initial(_at(x, self.since)), z.dtype)
        else:
            value, rate = _value_and_rate(self.initial, x, self.since)
        if value.shape not in ((), z.shape):
            raise _check.Mismatch(f"before must match D, but a point gives shapes {value.shape} and {z.shape}.")
        return value if self.order == 1 else value + (_time(x) - self.since) * rate


def hard_initial(D: Parametrisation, before: Any, t0: Any = 0.0, order: int = 1) -> HardInitial:
    r"""A model that satisfies an initial condition exactly, $(x, t) \mapsto g(x, t_0) + (t - t_0)\, D(\theta)(x, t)$.

    Of second order it is $g(x, t_0) + (t - t_0)\, \partial_t g(x, t_0) + (t - t_0)^2\, D(\theta)(x, t)$, with the value
    and the derivative in time of g. Time is the last coordinate of a point; a scalar point is a time.

    **Arguments:**

    - `D`: a parametrisation. Put `riesz.periodic` and `riesz.hard_boundary` inside: D has zero boundary values where
      those of g are to stay.
    - `before`: g, a function of points (x, t) that is asked at time t0, or a number. In `riesz.march` it is `before`.
    - `t0`: the time at which it begins.
    - `order`: 1 or 2, the order in time of the equation.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 20, 1))
    heat = riesz.hard_initial(D, lambda x: jnp.sin(jnp.pi * x[0]))
    wave = riesz.hard_initial(D, lambda x: (1 + 3 * x[1]) * jnp.sin(jnp.pi * x[0]), order=2)  # the rate is 3 sin(pi x)
    ```
    """
    _check.function("D", D)
    if not callable(before):
        before = _check.leaf(_check.number("before", before))
    t0 = _check.leaf(_check.scalar("t0", t0))
    _check.order(order)
    model = HardInitial(D, before, t0, t0, None, order)
    if isinstance(before, Bound) and isinstance(before.D, HardInitial):
        return _unrolled(model, before.D, before.theta)
    return model


def _unrolled(model: HardInitial, earlier: HardInitial, theta: Vector) -> HardInitial:
    """The same model, which begins as an earlier one with these parameters does: a sum of what all slabs have added.

    As it is, each slab would evaluate the one before, that one the one before it, and so on, in ever larger programs.
    """
    traced = any(map(_check.is_traced, jax.tree.leaves((model, earlier, theta))))
    if traced or earlier.order != model.order or not _alike(earlier.D, model.D):
        return model
    t0 = jnp.asarray(model.t0, theta.dtype)
    single = Past(earlier.D, theta, jnp.asarray(earlier.t0, theta.dtype), t0)
    latest = eqx.combine(jax.tree.map(lambda a: jnp.asarray(a[None]), _as_numpy(single)), single)
    past = latest.in_places() if earlier.past is None else earlier.past.longer(latest)
    return HardInitial(model.D, earlier.initial, earlier.since, t0, past, model.order)


def _alike(one: Any, other: Any) -> bool:
    """Whether two parametrisations differ in the values of arrays alone."""
    (a, as_a), (b, as_b) = (eqx.partition(tree, _is_array) for tree in (one, other))
    shapes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(arrays)] for arrays in (a, b)]
    same = jax.tree.structure(as_a) == jax.tree.structure(as_b) and jax.tree.structure(a) == jax.tree.structure(b)
    return bool(same and shapes[0] == shapes[1] and jax.tree.leaves(as_a) == jax.tree.leaves(as_b))
