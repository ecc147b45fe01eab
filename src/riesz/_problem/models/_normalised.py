"""Normalised densities: positive models that have mass 1 for all parameters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._types import Function, Parametrisation, Vector
from ..measures import Points
from ._around import AbstractAround


def _plain_log_mass(theta: Vector, D: Parametrisation, over: Points) -> jax.Array:
    return jax.nn.logsumexp(jax.vmap(D(theta))(over.x).reshape(-1), b=over.weights)


@eqx.filter_custom_jvp
def _log_mass(theta: Vector, D: Parametrisation, over: Points) -> jax.Array:
    """The logarithm of the integral of exp(D(theta)), with a derivative that is one vector for all points of a loss.

    Rows are assembled by one pass of reverse mode per point. Without a rule of its own for the derivative, each pass
    would go back through all points of `over`. With it, each pass multiplies by a vector that does not depend on the
    point and is computed once.
    """
    return _plain_log_mass(theta, D, over)


@_log_mass.def_jvp
def _log_mass_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    moving, still = eqx.partition(primals, jax.tree.map(lambda t: t is not None, tangents, is_leaf=lambda t: t is None))
    value, slope = jax.value_and_grad(lambda moving: _plain_log_mass(*eqx.combine(moving, still)))(moving)
    parts = zip(jax.tree.leaves(slope), jax.tree.leaves(tangents), strict=True)
    return value, sum(jnp.vdot(a, b) for a, b in parts)  # type: ignore[return-value]


class Normalised(AbstractAround):
    """The parametrisation of the functions exp(D(theta)), divided by their integrals."""

    D: Parametrisation
    over: Points

    def __call__(self, theta: Vector) -> Function:
        f, point = self.D(theta), jax.ShapeDtypeStruct(self.over.x.shape[1:], self.over.x.dtype)
        with _check.explained(f"D must accept the points of over, but it fails at shape {point.shape}"):
            z = jax.eval_shape(f, point)
        if z.size != 1:
            raise _check.Mismatch(f"D must have scalar values to be normalised, but values are {z.shape}.")
        log_mass = _log_mass(theta, self.D, self.over)
        return lambda x: jnp.exp(f(x) - log_mass)


def normalised(D: Parametrisation, over: Points) -> Normalised:
    r"""A positive model of mass 1, $x \mapsto e^{f(x)} / \int e^{f} \, d\nu$ with $f = D(\theta)$.

    Its tangent functions are $v\,(\psi_f - \int \psi_f\, v \, d\nu)$. The integral and its gradient are computed once
    for all points of a loss. Adding a constant to f changes nothing, so the Gram matrix may be singular; filters and
    `riesz.auto()` allow for that.

    **Arguments:**

    - `D`: a parametrisation of f, the logarithm of a density up to a constant, scalar.
    - `over`: nu, fixed points with weights that integrate over the domain well, such as `riesz.gauss_legendre`.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
    D = riesz.normalised(D, riesz.gauss_legendre(0.0, 1.0, 50))
    ```
    """
    _check.function("D", D)
    _check.kind("over", over, Points, "fixed points, such as riesz.gauss_legendre(0.0, 1.0, 50)")
    if not _check.is_traced(over.weights) and not np.asarray(over.weights).any():
        raise ValueError("over must have a positive mass, but all its weights are 0.")
    return Normalised(D, over)
