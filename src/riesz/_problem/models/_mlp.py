"""Fully connected networks, shallow and deep."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Key, Vector
from ..parametrise import ModuleParametrisation, parametrise, ravel


def _identity(x: Any) -> Any:
    return x


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "identity": _identity,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "sin": jnp.sin,
    "softplus": jax.nn.softplus,
    "swish": jax.nn.swish,
    "tanh": jnp.tanh,
}

INITIALISATIONS: dict[str, Callable[[int, int], tuple[float, float]]] = {
    "normal": lambda n_in, n_out: (1.0, 1.0),
    "glorot": lambda n_in, n_out: (math.sqrt(2 / (n_in + n_out)), 0.0),
    "he": lambda n_in, n_out: (math.sqrt(2 / n_in), 0.0),
    "lecun": lambda n_in, n_out: (math.sqrt(1 / n_in), 0.0),
}
"""The standard deviations of the weights and of the biases of a layer."""


class MLP(eqx.Module):
    """The network A_L s(... s(A_1 x + b_1) ...) + b_L; one input may be a scalar, and one output is a scalar."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    activation: Callable[[Any], Any]

    def __reduce__(self) -> Any:
        # By its name: JAX's jitted functions cannot be pickled.
        named = (name for name, f in ACTIVATIONS.items() if f is self.activation)
        return _network, (self.weights, self.biases, next(named, self.activation))

    def __call__(self, x: Any) -> jax.Array:
        x = _check.point(x, self.weights[0].shape[1:], "this network")
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = self.activation(weight @ x + bias)
        x = self.weights[-1] @ x + self.biases[-1]
        return x[0] if x.shape == (1,) else x


def _network(weights: Any, biases: Any, activation: Any) -> MLP:
    """The network whose activation may be given by its name."""
    return MLP(weights, biases, ACTIVATIONS[activation] if isinstance(activation, str) else activation)


@dataclasses.dataclass(frozen=True)
class NormalStart:
    """A start with normal weights and biases.

    The initialisation is not compared: networks that differ in nothing else compute the same and share their programs.
    """

    sizes: tuple[int, ...]
    init: str = dataclasses.field(compare=False)

    def deviations(self) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """The standard deviations of all weights and of all biases."""
        layers = [(n_in, n_out, *INITIALISATIONS[self.init](n_in, n_out)) for n_in, n_out in pairwise(self.sizes)]
        weights = tuple(jnp.full((n_out, n_in), deviation) for n_in, n_out, deviation, _ in layers)
        biases = tuple(jnp.full(n_out, deviation) for _, n_out, _, deviation in layers)
        return weights, biases

    def __call__(self, key: Key) -> jax.Array:
        _, scale = ravel("deviations", self.deviations())
        return scale * jax.random.normal(_check.key("key", key), scale.shape)


class Networks(eqx.Module):
    """The parametrisation of the networks of some sizes; `start` draws their parameters from a key."""

    D: ModuleParametrisation
    start: Callable[[Key], Vector] = eqx.field(static=True)

    def params(self, theta: Vector) -> Any:
        return self.D.params(theta)

    def __call__(self, theta: Vector) -> Any:
        return self.D(theta)


def layer_sizes(sizes: Any) -> tuple[int, ...]:
    """The sizes of all layers, checked."""
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or len(sizes) < 2:
        raise ValueError(f"sizes must list at least an input and an output size, but it is {_check.shown(sizes)}.")
    return tuple(_check.count("sizes", size) for size in sizes)


def mlp(
    key: Key, sizes: Sequence[int], activation: str | Callable[[Any], Any] = "tanh", init: str = "normal"
) -> tuple[Networks, jax.Array]:
    r"""A fully connected network, $D(\theta)(x) = A_L\,\sigma(\dots\sigma(A_1 x + b_1)\dots) + b_L$.

    All weights and biases start standard normal, as in the paper. With the other choices of `init` the values of a deep
    network have about the same size in every layer. Second derivatives need an activation that has them: those of a
    network with `"relu"` or `"identity"` are zero.

    **Arguments:**

    - `key`: a JAX random key.
    - `sizes`: the layer sizes, input and output included: `(4, 10, 1)`.
    - `activation`: a name (`"tanh"`, `"sigmoid"`, ...) or a function.
    - `init`: `"normal"`; or weights of variance 2/(inputs + outputs) for `"glorot"`, 2/inputs for `"he"` (relu) or
      1/inputs for `"lecun"`, with biases zero.

    **Returns:** `(D, theta0)`. A first size of 1 accepts scalar points; a last size of 1 returns scalars.
    `D.start(key)` draws another theta0, for `riesz.Restarts`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (4, 10, 1), activation="sigmoid")
    D, theta0 = riesz.mlp(jax.random.key(0), (4, 20, 20, 20, 1), init="glorot")
    ```
    """
    _check.key("key", key)
    sizes = layer_sizes(sizes)
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}.")
        activation = ACTIVATIONS[activation]
    _check.function("activation", activation)
    if not isinstance(init, str) or init not in INITIALISATIONS:
        raise ValueError(f"init must be one of {', '.join(INITIALISATIONS)}, not {_check.shown(init)}.")
    start = NormalStart(sizes, init)
    D, _ = parametrise(MLP(*start.deviations(), activation))
    return Networks(D, start), start(key)
