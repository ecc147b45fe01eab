"""Networks of sines, which start with the frequencies that they are asked for."""

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._types import Key
from ..parametrise import parametrise, ravel
from ._mlp import ACTIVATIONS, MLP, Networks, layer_sizes


@dataclasses.dataclass(frozen=True)
class SineStart:
    """A start with uniform weights: waves of some frequencies in the first layer, angles of one size after it.

    The frequencies are not compared: networks that differ in nothing else compute the same and share their programs.
    """

    sizes: tuple[int, ...]
    frequencies: tuple[float, ...] = dataclasses.field(compare=False)
    """The largest weight of each input in the first layer."""

    def bounds(self) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """The largest weights and the largest biases of all layers."""
        later = list(pairwise(self.sizes))[1:]
        first = jnp.broadcast_to(jnp.array(self.frequencies), (self.sizes[1], self.sizes[0]))
        weights = (first, *(jnp.full((n_out, n_in), math.sqrt(6 / n_in)) for n_in, n_out in later))
        hidden = (jnp.full(n_out, 1 / math.sqrt(n_in)) for n_in, n_out in later[:-1])
        return weights, (jnp.full(self.sizes[1], math.pi), *hidden, jnp.zeros(self.sizes[-1]))

    def __call__(self, key: Key) -> jax.Array:
        _, bound = ravel("bounds", self.bounds())
        return bound * jax.random.uniform(_check.key("key", key), bound.shape, minval=-1.0, maxval=1.0)


def sine_mlp(key: Key, sizes: Sequence[int], frequency: Any) -> tuple[Networks, jax.Array]:
    r"""A network of sines, $D(\theta)(x) = A_L \sin(\dots\sin(A_1 x + b_1)\dots) + b_L$, that starts with fast waves.

    The weights of the first layer start uniform in (-frequency, frequency) with random phases; those of a later layer
    with n inputs in $\pm\sqrt{6/n}$, so that angles are about 1 in every layer. This is the start of SIREN with the
    frequency multiplied into the weights: as a parameter of its own it would add nothing to the tangent space.

    **Arguments:**

    - `key`: a JAX random key.
    - `sizes`: the layer sizes, input and output included, with at least one layer between them: `(2, 20, 20, 1)`.
    - `frequency`: a number, or one for each input: a tenth to a third of the largest angular frequency of the solution,
      in radians per unit of x. Later layers make faster waves of the first ones, and too large a frequency costs more
      than too small a one.

    **Returns:** `(D, theta0)`. A first size of 1 accepts scalar points; a last size of 1 returns scalars.
    `D.start(key)` draws another theta0, for `riesz.Restarts`.

    ```python
    D, theta0 = riesz.sine_mlp(jax.random.key(0), (2, 20, 20, 1), frequency=4.0)
    ```
    """
    _check.key("key", key)
    sizes = layer_sizes(sizes)
    if len(sizes) < 3:
        raise ValueError(f"sizes must list a layer of sines between input and output, but it is {sizes}.")
    frequencies = np.asarray(_check.number("frequency", _check.native(frequency), above=0.0), float)
    if frequencies.shape not in ((), (sizes[0],)):
        raise ValueError(
            f"frequency must be a number or one for each of {sizes[0]} inputs, but its shape is {frequencies.shape}."
        )
    start = SineStart(sizes, tuple(map(float, np.broadcast_to(frequencies, sizes[0]))))
    D, _ = parametrise(MLP(*start.bounds(), ACTIVATIONS["sin"]))
    return Networks(D, start), start(key)
