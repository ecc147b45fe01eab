"""The operator v -> (v, grad v), which H1 and energies are made of."""

from typing import Any

import jax
import jax.numpy as jnp

from ._types import Function


def value_and_gradient(v: Function) -> Function:
    """A function and its gradient: (A v)(x) = (v(x), grad v(x)), one axis of 1 + n entries, the last one.

    One pass gives both. For points of n coordinates the shape is (1 + n,), and (p, 1 + n) where v has values in R^p.

    ```python
    H1 = riesz.InnerProduct(riesz.value_and_gradient)
    ```
    """
    both = jax.jacfwd(lambda x: (v(x),) * 2, has_aux=True)

    def pair(x: Any) -> jax.Array:
        slope, value = both(x)
        return jnp.concatenate([value[..., None], slope.reshape(*value.shape, -1)], axis=-1)

    return pair
