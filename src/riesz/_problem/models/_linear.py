"""Linear models, whose functions form a vector space that is its own tangent space at every point."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check


class Linear(eqx.Module):
    """The parametrisation of the functions sum_j theta_j psi_j(x)."""

    features: Callable[[Any], Any]

    def params(self, theta: Any) -> Any:
        return theta

    def __call__(self, theta: Any) -> Callable[[Any], Any]:
        def combination(x: Any) -> Any:
            psi = jnp.asarray(self.features(x))
            if psi.ndim == 0 or psi.shape[-1] != theta.shape[0]:
                raise _check.Mismatch(
                    f"features must return {theta.shape[0]} entries along their last axis, "
                    f"but the shape is {psi.shape}."
                )
            return psi @ theta

        return combination


def linear(features: Callable[[Any], Any], size: int) -> tuple[Linear, jax.Array]:
    r"""A linear model class, $D(\theta)(x) = \sum_{j=1}^d \theta_j \psi_j(x)$.

    **Arguments:**

    - `features`: the function x -> (psi_1(x), ..., psi_d(x)); for a vector-valued model, of shape (p, d).
    - `size`: the number d of features.

    **Returns:** `(D, theta0)` with theta0 = 0.

    ```python
    D, theta0 = riesz.linear(lambda x: x ** jnp.arange(4), size=4)
    ```
    """
    _check.function("features", features)
    return Linear(features), jnp.zeros(_check.count("size", size))
