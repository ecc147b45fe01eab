r"""Conjugate gradients on $(G + \varepsilon I)\,\delta = c$: products with the rows, and no matrix of either side."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg

from ... import _check
from ..._types import Rows, Vector
from ..filters import AbstractFilter
from ..rows import AbstractRows
from .base import AbstractFactors, AbstractInverse, AbstractSolver
from .cholesky import Equilibrated


class SomeRows(AbstractFactors):
    """All rows by their products, and those of a few points, whose Gram matrix is near that of all."""

    psi: AbstractRows
    some: Rows
    kernel: jax.Array
    """The kernel matrix of those."""
    tolerance: jax.Array
    max_steps: int = eqx.field(static=True)

    @property
    def noise(self) -> jax.Array:
        return jnp.finfo(self.kernel.dtype).eps * jnp.max(jnp.diagonal(self.kernel))

    def rank(self, filter: AbstractFilter) -> jax.Array:
        return jnp.where(jnp.any(jnp.diagonal(self.kernel) > 0), -1, 0)

    def inverse(self, filter: AbstractFilter) -> "Iterated":
        eps = jnp.asarray(filter.eps, self.kernel.dtype)
        near = Equilibrated.of(self.kernel + eps * jnp.eye(self.kernel.shape[0], dtype=self.kernel.dtype))
        return Iterated(self.psi, self, eps, near)


class Iterated(AbstractInverse):
    r"""$(G + \varepsilon I)^{-1}$, preconditioned by $(R^T R + \varepsilon I)^{-1}$ of some rows R."""

    psi: AbstractRows
    factors: SomeRows
    eps: jax.Array
    near: Equilibrated

    def riesz(self, c: Vector) -> Vector:
        R = self.factors.some
        product = lambda delta: self.psi.T @ (self.psi @ delta) + self.eps * delta
        nearly = lambda v: (v - R.T @ self.near(R @ v)) / self.eps
        tolerance, most = self.factors.tolerance, self.factors.max_steps
        return cg(product, c, tol=tolerance, maxiter=most, M=nearly)[0]  # type: ignore[arg-type]


class ConjugateGradients(AbstractSolver):
    r"""Conjugate gradients, for the filter `Shift` where rows and parameters are both many; not for `auto`.

    Neither rows nor any matrix of N x N or d x d is stored: a step of it is one derivative along a direction and one
    pulled back. The preconditioner is the damped Gram matrix of the rows of some points, evenly chosen. The column
    `solver_residual` of the history has the true relative residual, and `solution.notes` says where it is larger than
    was asked for.

    **Arguments:**

    - `tolerance`: the relative residual at which a solve ends.
    - `max_steps`: the most steps of a solve.
    - `points`: how many points the preconditioner is made of; their rows are stored.
    - `chunk`: how many points at a time are pulled back.

    ```python
    riesz.spring(filter=riesz.Shift(1e-3), factorisation=riesz.ConjugateGradients())
    ```
    """

    tolerance: jax.Array = eqx.field(converter=_check.parameter("tolerance", above=0.0), default=1e-6)
    max_steps: int = eqx.field(static=True, default=200)
    points: int = eqx.field(static=True, default=256)
    chunk: int = eqx.field(static=True, default=1024)

    def __check_init__(self):
        for name in ("max_steps", "points", "chunk"):
            _check.count(name, getattr(self, name))

    @property
    def points_at_once(self) -> int:
        return self.chunk

    def __call__(self, psi: AbstractRows) -> SomeRows:
        some = psi.some(self.points)
        return SomeRows(psi, some, some @ some.T, jnp.asarray(self.tolerance, psi.dtype), self.max_steps)

    def notes(self, history: dict[str, np.ndarray]) -> tuple[str, ...]:
        """Where systems were solved less well than was asked for."""
        found = history.get("solver_residual", np.zeros(0))
        missed = found[found > 2 * float(self.tolerance)]
        if not missed.size:
            return ()
        return (
            f"{missed.size} of {found.size} linear systems were solved to {np.max(missed):.0e} only, where "
            f"{float(self.tolerance):.0e} was asked for: give it more max_steps, or a larger shift.",
        )
