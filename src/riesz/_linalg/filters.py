"""Spectral filters: the regularised inverse of the Gram matrix, as a function of its eigenvalues."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check


class AbstractFilter(eqx.Module):
    """lambda -> the regularised 1/lambda. eps is absolute, on the eigenvalues of G."""

    eps: eqx.AbstractVar[jax.Array]

    @abc.abstractmethod
    def __call__(self, eigenvalues: jax.Array) -> jax.Array:
        """The regularised inverse of every eigenvalue; at zero, what the filter does to the null space."""

    def rank(self, eigenvalues: jax.Array) -> jax.Array:
        """How many eigenvalues lie above eps."""
        return jnp.sum(eigenvalues > self.eps)


class Cutoff(AbstractFilter):
    r"""Spectral cutoff: $1/\lambda$ above eps, 0 below.

    ```python
    riesz.ngd(filter=riesz.Cutoff(1e-10))
    ```
    """

    eps: jax.Array = eqx.field(converter=_check.parameter("eps", least=0.0))

    def __call__(self, eigenvalues: jax.Array) -> jax.Array:
        kept = eigenvalues > self.eps
        return jnp.where(kept, 1 / jnp.where(kept, eigenvalues, 1), 0)


class Shift(AbstractFilter):
    r"""Spectral shift, or Tikhonov regularisation: $1/(\lambda + \varepsilon)$.

    ```python
    riesz.ngd(filter=riesz.Shift(1e-6))
    ```
    """

    eps: jax.Array = eqx.field(converter=_check.parameter("eps", above=0.0))

    def __call__(self, eigenvalues: jax.Array) -> jax.Array:
        return 1 / (eigenvalues + self.eps)


class Floor(AbstractFilter):
    r"""Spectral flooring: $1/\max(\lambda, \varepsilon)$, the paper's choice.

    Natural gradient where the tangent space is resolved, plain gradient (times 1/eps) where it is not.

    ```python
    riesz.nhb(filter=riesz.Floor(1e-8))
    ```
    """

    eps: jax.Array = eqx.field(converter=_check.parameter("eps", above=0.0))

    def __call__(self, eigenvalues: jax.Array) -> jax.Array:
        return 1 / jnp.maximum(eigenvalues, self.eps)
