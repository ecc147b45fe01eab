r"""Jumps: where the flux $a \nabla v$ jumps, its divergence by differentiation is not its divergence."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from .elliptic import Known
from .measures import Box, Points


def products(domain: Box) -> jax.Array:
    """The angles per unit of length of some products of sines, of shape (count, n)."""
    n = domain.low.size
    slow = np.ones((1, n))
    few = np.array(list(itertools.product((1, 2, 3), repeat=n))) if n <= 3 else np.concatenate([slow, slow + np.eye(n)])
    return jnp.pi * jnp.asarray(few, domain.low.dtype) / (domain.high - domain.low).reshape(1, -1)


def defect(domain: Box, over: Points, known: Known) -> jax.Array:
    r"""$\int \phi\, \nabla\cdot F + F \cdot \nabla\phi$ for some products of sines: zero where the flux F is smooth.

    Each is divided by the norm of the gradient of $\phi$.
    """
    angles = products(domain)

    def together(x: jax.Array, flux: jax.Array, diverging: jax.Array) -> jax.Array:
        phi = lambda x: jnp.prod(jnp.sin(angles * (x - domain.low.reshape(-1))[None, :]), axis=1)
        return phi(x) * diverging + jax.jacfwd(phi)(x) @ flux

    flat = over.x.reshape(over.x.shape[0], -1)
    integrals = over.weights @ jax.vmap(together)(flat, known.flux, known.diverging)
    return integrals / jnp.sqrt(jnp.sum(angles**2, axis=1) * domain.volume / 2.0**domain.low.size)


def jumps(domain: Box, over: tuple[Points, Points], known: tuple[Known, Known], energy: jax.Array) -> bool:
    """Whether two rules agree that the flux jumps, by more than a thousandth of a bound of the error's energy norm.

    The quadrature of a smooth flux has errors too, but these differ from rule to rule.
    """
    fine, coarse = (defect(domain, *each) for each in zip(over, known, strict=True))
    size = jnp.linalg.norm(fine) / jnp.sqrt(jnp.min(known[0].a))
    rounding = 1e3 * jnp.finfo(size.dtype).eps * jnp.sqrt(over[0].weights @ jnp.sum(known[0].flux ** 2, axis=1))
    seen = size > 1e-3 * energy + rounding
    return bool(seen & (jnp.linalg.norm(fine - coarse) < 0.25 * jnp.linalg.norm(fine)))
