"""Functional tensor trains: functions of many variables as products of matrices of functions of one."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Key, Vector
from ..parametrise import Layout, ravel
from ._basis import AbstractBasis

SMOOTHNESS = 0.3
"""The size of a start's entries of one degree or frequency, relative to the one below.

Where high degrees start as large as low ones, runs in many dimensions do not get away from their start.
"""


class TensorTrain(eqx.Module):
    """The parametrisation of the functions A_1(x_1) ... A_n(x_n), where A_i(t) = sum_k phi_k(t) C_i[:, k, :]."""

    bases: tuple[AbstractBasis, ...]
    layout: Layout

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks r_1, ..., r_{n-1} between neighbouring dimensions."""
        return tuple(shape[2] for shape in self.layout.shapes[:-1])

    def params(self, theta: Vector) -> tuple[jax.Array, ...]:
        """The cores, of shapes (r_{i-1}, size_i, r_i) with r_0 = r_n = 1."""
        return self.layout.unravel(theta)

    def start(self, key: Key) -> jax.Array:
        """The start that `tensor_train` draws from a key."""
        _, scale = ravel("deviations", _deviations(self.bases, self.layout.shapes))
        drawn = scale * jax.random.normal(_check.key("key", key), scale.shape)
        return ravel("cores", _begun(self.params(drawn)))[1]

    def __call__(self, theta: Vector) -> "Train":
        return Train(self.bases, self.params(theta))


class Train(eqx.Module):
    """The function A_1(x_1) ... A_n(x_n) of given cores, which knows its own Laplacian."""

    bases: tuple[AbstractBasis, ...]
    cores: tuple[jax.Array, ...]

    def __call__(self, x: Any) -> jax.Array:
        def multiply(row: jax.Array, carriage: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            features, core = carriage
            return features @ jnp.tensordot(row, core, 1), None

        return self._multiplied(x, _features, multiply, jnp.ones(1, self.cores[0].dtype))[0]

    def own_laplacian(self, x: Any) -> jax.Array:
        r"""$\sum_i A_1(x_1) \cdots A_i''(x_i) \cdots A_n(x_n)$, in one pass with the value.

        No two factors share a coordinate, so mixed derivatives do not enter, and no gradient is carried: with a the
        product so far and b its Laplacian, the next ones are $a A_i$ and $b A_i + a A_i''$.
        """

        def multiply(rows: jax.Array, carriage: tuple[Any, jax.Array]) -> tuple[jax.Array, None]:
            (features, curved), core = carriage
            a, b = jnp.tensordot(rows, core, 1)
            return jnp.stack([features @ a, features @ b + curved @ a]), None

        start = jnp.array([[1.0], [0.0]], self.cores[0].dtype)
        return self._multiplied(x, _features_and_second_derivatives, multiply, start)[1, 0]

    def _multiplied(self, x: Any, features: Callable[..., Any], multiply: Callable[..., Any], rows: Any) -> jax.Array:
        """The rows times all factors, like dimensions in a loop: the program does not grow with their number."""
        x = _check.point(x, (len(self.bases),), "this train")
        kinds = [(jax.tree.structure(basis), core.shape) for basis, core in zip(self.bases, self.cores, strict=True)]
        for where in _alike(kinds):
            carriages = features(_stacked(self.bases[where]), x[where]), _stacked(self.cores[where])
            if where.stop - where.start == 1:
                rows, _ = multiply(rows, jax.tree.map(lambda part: part[0], carriages))
            else:
                rows, _ = jax.lax.scan(multiply, rows, carriages)
        return rows


def _features(bases: Any, t: jax.Array) -> jax.Array:
    """The features of several dimensions, each at its own coordinate."""
    return jax.vmap(lambda basis, t: basis(t))(bases, t)


def _features_and_second_derivatives(bases: Any, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The features and their second derivatives: each depends on its own coordinate alone, so one JVP serves all."""
    ones = jnp.ones_like(t)
    slopes = lambda t: jax.jvp(lambda t: _features(bases, t), (t,), (ones,))
    (features, _), (_, curved) = jax.jvp(slopes, (t,), (ones,))
    return features, curved


def _stacked(parts: Sequence[Any]) -> Any:
    """Arrays, or trees of them, side by side."""
    return jax.tree.map(lambda *arrays: jnp.stack(arrays), *parts)


def _alike(kinds: Sequence[Any]) -> list[slice]:
    """The runs of neighbours that are equal."""
    ends = [0, *(i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]), len(kinds)]
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def _shapes(ranks: Sequence[int], bases: Sequence[AbstractBasis]) -> list[tuple[int, int, int]]:
    """The shapes of the cores; refuse ranks that no tensor of these sizes can have."""
    bonds = [1, *(_check.count("ranks", rank) for rank in ranks), 1]
    shapes = [(left, basis.size, right) for left, basis, right in zip(bonds[:-1], bases, bonds[1:], strict=True)]
    for i, (before, after) in enumerate(itertools.pairwise(shapes)):
        largest = min(before[0] * before[1], after[1] * after[2])
        if bonds[i + 1] > largest:
            raise ValueError(
                f"ranks must be possible with these features and neighbours, "
                f"but entry {i} is {bonds[i + 1]} and the most it can be is {largest}."
            )
    return shapes


def _deviations(bases: Sequence[AbstractBasis], shapes: Sequence[tuple[int, ...]]) -> tuple[jax.Array, ...]:
    """The standard deviations of normal cores; with orthonormal features the mean of v^2 is then 1 on average."""

    def deviation(basis: AbstractBasis, shape: tuple[int, ...]) -> jax.Array:
        falling = SMOOTHNESS**basis.orders
        falling = falling / jnp.sqrt(shape[2] * jnp.sum(falling**2))
        return jnp.broadcast_to(falling[None, :, None], shape)

    return tuple(map(deviation, bases, shapes))


def _begun(drawn: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    r"""The cores of a start: of normal ones $C_i$, the square ones become $\sqrt{1 - 1/n}\, I + \sqrt{1/n}\, C_i$.

    The identity stands at phi_1 = 1, and the last core stays as it is. A product of n normal matrices has mean square 1
    on average only: nearly all are smaller, by a factor that falls exponentially with n, and few are huge. Here the
    mean square is the same, and the logarithm of a single one varies by about as much for every n.
    """
    n = len(drawn)

    def begun(core: jax.Array) -> jax.Array:
        if core.shape[0] != core.shape[2]:
            return core
        identity = jnp.zeros_like(core).at[:, 0, :].set(jnp.eye(core.shape[0], dtype=core.dtype))
        return (1 - 1 / n) ** 0.5 * identity + (1 / n) ** 0.5 * core

    return (*map(begun, drawn[:-1]), drawn[-1])


def tensor_train(
    key: Key, ranks: Sequence[int], features: AbstractBasis | Sequence[AbstractBasis]
) -> tuple[TensorTrain, jax.Array]:
    r"""A functional tensor train, $D(\theta)(x) = A_1(x_1) \cdots A_n(x_n)$.

    $A_i(t) = \sum_k \phi^i_k(t)\, C_i[:, k, :]$ is a matrix of functions of one variable, and theta holds the cores
    $C_i \in \mathbb{R}^{r_{i-1} \times K_i \times r_i}$ one after another. An invertible matrix multiplied into one
    core and its inverse into the next leave the function as it is, so its tangent system never has full rank.
    `riesz.Truncation(D)` is a retraction that does not depend on this freedom.

    **Arguments:**

    - `key`: a JAX random key.
    - `ranks`: the ranks $r_1, \dots, r_{n-1}$; there is one more dimension than ranks.
    - `features`: `Legendre(low, high, size)` or `Fourier(low, high, size)`, one for all dimensions or one each.

    **Returns:** `(D, theta0)`. The cores start normal, smaller by 0.3 from one degree or frequency to the next, and
    scaled so that the mean of $v^2$ over the box is 1 on average; square ones are mixed with the identity, so that
    $v$ neither vanishes nor explodes in many dimensions. `D.start(key)` draws another theta0.

    ```python
    D, theta0 = riesz.tensor_train(jax.random.key(0), (3, 3), riesz.Legendre(-1.0, 1.0, 8))
    ```
    """
    _check.key("key", key)
    if not isinstance(ranks, Sequence) or isinstance(ranks, str):
        raise TypeError(f"ranks must list the ranks between neighbouring dimensions, not {_check.shown(ranks)}.")
    bases = tuple(features) if isinstance(features, Sequence) else (features,) * (len(ranks) + 1)
    for basis in bases:
        _check.kind("features", basis, AbstractBasis, "a basis, such as riesz.Legendre(-1.0, 1.0, 8), or one each")
    if len(bases) != len(ranks) + 1:
        raise ValueError(f"ranks must be one fewer than features, but they are {len(ranks)} and {len(bases)}.")
    layout, _ = ravel("cores", _deviations(bases, _shapes(ranks, bases)))
    D = TensorTrain(bases, layout)
    return D, D.start(key)
