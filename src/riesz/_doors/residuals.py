"""Residual functions of users: whitened by the deviations of their data, and with Jacobians of their own."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._types import Function


def _flat(tree: Any) -> jax.Array:
    """All entries of a pytree of arrays, one after the other."""
    leaves = [jnp.ravel(jnp.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    if not leaves:
        raise _check.Mismatch("residual must return at least one number, but it returns none.")
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


class Whitened(eqx.Module):
    """The residuals of v at the arguments, in units of their standard deviations."""

    args: tuple[Any, ...]
    deviation: jax.Array | None
    """Standard deviations, one for all or one per residual; or the lower Cholesky factor of a covariance matrix."""

    precision: Any = eqx.field(static=True)
    """That of the parameters, to which residuals in a lower one are raised."""

    def __call__(self, v: Function) -> jax.Array:
        r = _flat(v(*self.args))
        r = r.astype(jnp.promote_types(r.dtype, self.precision))
        if self.deviation is None:
            return r
        if self.deviation.ndim < 2:
            return r / self.deviation.astype(r.dtype)
        return jax.scipy.linalg.solve_triangular(self.deviation.astype(r.dtype), r, lower=True)


class WithJacobian(eqx.Module):
    """A residual function whose derivative is given."""

    residual: Callable[..., Any]
    jacobian: Callable[..., Any]

    def __call__(self, params: Any, *args: Any) -> jax.Array:
        @jax.custom_jvp
        def flat(params: Any) -> jax.Array:
            return _flat(self.residual(params, *args))

        @flat.defjvp
        def along(primals: Any, tangents: Any) -> Any:
            r, found = flat(*primals), jax.eval_shape(self.residual, *primals, *args)
            return r, self._product(self.jacobian(*primals, *args), tangents[0], r, getattr(found, "shape", (r.size,)))

        return flat(params)

    def _product(self, J: Any, tangent: Any, r: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """J times a tangent: J as one matrix, or as `jax.jacobian` gives it for a residual of some shape."""
        direction, leaves = _flat(tangent), jax.tree.leaves(tangent)
        if getattr(J, "shape", None) == (r.size, direction.size):
            return jnp.asarray(J, r.dtype) @ direction
        parts, structure = jax.tree.flatten(J)
        told = f"jac must return a matrix of shape {(r.size, direction.size)}, or what jax.jacobian(residual) would"
        if structure != jax.tree.structure(tangent):
            raise _check.Mismatch(f"{told}.")
        for part, leaf in zip(parts, leaves, strict=True):
            if np.shape(part) not in {(*shape, *leaf.shape), (r.size, *leaf.shape), (r.size, leaf.size)}:
                raise _check.Mismatch(f"{told}, but it is {np.shape(part)}.")
        pairs = zip(parts, leaves, strict=True)
        matrices = [jnp.reshape(part, (r.size, leaf.size)).astype(r.dtype) for part, leaf in pairs]
        return jnp.concatenate(matrices, axis=1) @ direction


def deviation(sigma: Any, count: int) -> jax.Array | None:
    """What residuals are divided by: standard deviations, or the Cholesky factor of a covariance matrix."""
    if sigma is None:
        return None
    if isinstance(sigma, dict | tuple):
        sigma = _flat(jax.tree.map(lambda leaf: _check.floating("sigma", leaf), sigma))
    sigma = _check.floating("sigma", sigma)
    if sigma.shape == (count, count) and sigma.ndim == 2 and count > 1:
        _check.finite_rows("sigma", sigma)
        factor = jnp.linalg.cholesky(sigma)
        if not bool(jnp.all(jnp.isfinite(factor))) or not bool(jnp.allclose(sigma, sigma.T, rtol=1e-8)):
            raise ValueError("sigma must be symmetric and positive definite where it is a covariance matrix.")
        return factor
    if sigma.size not in (1, count):
        raise ValueError(
            f"sigma must be one number, one per residual ({count}), or a covariance matrix of shape "
            f"{(count, count)}, but its shape is {sigma.shape}."
        )
    _check.number("sigma", sigma, above=0.0)
    return sigma.reshape(()) if sigma.size == 1 else sigma.reshape(-1)
