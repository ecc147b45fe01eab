"""Density estimation: the density of a law with respect to a reference measure, from samples of the law."""

import jax
import jax.numpy as jnp

from ... import _check
from ..integral import AbstractLoss, Integral
from ..measures import AbstractMeasure


def _single(z: jax.Array) -> jax.Array:
    if z.size != 1:
        raise _check.Mismatch(f"D must have scalar values to be a density, but values are {z.shape}.")
    return z.reshape(())


def _half_square(z: jax.Array) -> jax.Array:
    return 0.5 * _single(z) ** 2


def _minus(z: jax.Array) -> jax.Array:
    return -_single(z)


def _minus_log(z: jax.Array) -> jax.Array:
    return -jnp.log(_single(z))


def _check_measures(samples: AbstractMeasure, reference: AbstractMeasure) -> None:
    _check.kind("samples", samples, AbstractMeasure, "a measure, such as riesz.points(x)")
    _check.kind("reference", reference, AbstractMeasure, "a measure, such as riesz.gauss_legendre(0.0, 1.0, 50)")


def density_l2(samples: AbstractMeasure, reference: AbstractMeasure) -> AbstractLoss:
    r"""Least-squares density estimation, $\frac12 \int v^2 \, d\nu - \int v \, d\mu$.

    Up to a constant it is half the squared distance in $L^2_\nu$ to the density u of $\mu$ with respect to $\nu$. It
    may be negative, and so may the estimate.

    **Arguments:**

    - `samples`: mu, the sample; every point weighs 1/m in `riesz.points(x)`.
    - `reference`: nu, a measure that covers the domain.

    ```python
    loss = riesz.density_l2(riesz.points(x), riesz.gauss_legendre(0.0, 1.0, 50))
    ```
    """
    _check_measures(samples, reference)
    return Integral(_half_square, reference) + Integral(_minus, samples)


def density_kl(samples: AbstractMeasure, reference: AbstractMeasure) -> AbstractLoss:
    r"""Cross-entropy density estimation, $-\int \log v \, d\mu + \int v \, d\nu$, for positive models.

    Up to a constant it is the Kullback-Leibler divergence of v from the density u of $\mu$ with respect to $\nu$. The
    second integral makes up for a v that is not normalised: the best multiple of v has mass 1. The Hessian is
    $\int f g / v^2 \, d\mu$. A model that is not positive at a sample gives NaN; `riesz.normalised` makes one that is.

    **Arguments:**

    - `samples`: mu, the sample; every point weighs 1/m in `riesz.points(x)`.
    - `reference`: nu, a measure that covers the domain.

    ```python
    domain = riesz.gauss_legendre(0.0, 1.0, 50)
    D = riesz.normalised(D, domain)
    loss = riesz.density_kl(riesz.points(x), domain)
    ```
    """
    _check_measures(samples, reference)
    return Integral(_single, reference) + Integral(_minus_log, samples)
