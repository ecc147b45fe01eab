"""Point-wise forms M_j of an inner product, as factors R_j with M_j = R_j^T R_j."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.curvature import Curvature
from .._problem.integral import AbstractTerm
from .._problem.measures import Points


class AbstractForm(eqx.Module):
    """A symmetric form on R^p at every point, its negative part cut off."""

    squared: ClassVar[bool] = False
    """Whether R_j comes from M_j, whose rounding errors are then those of a matrix that was squared."""

    @abc.abstractmethod
    def root(self, z: jax.Array) -> jax.Array:
        """The products R_j z_j, for z of shape (m, p) or (m, p, d)."""

    @abc.abstractmethod
    def split(self, slopes: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Slopes as R_j^T r_j + rest_j, with r_j bounded where the form is nearly singular; None for no rest.

        The split is exact whatever is kept; what is kept only decides the rounding.
        """


class Identity(AbstractForm):
    """M_j = I."""

    def root(self, z: jax.Array) -> jax.Array:
        return z

    def split(self, slopes: jax.Array) -> tuple[jax.Array, None]:
        return slopes, None


class Diagonal(AbstractForm):
    """M_j = diag(lambda_j), with lambda_j of shape (m, p)."""

    eigenvalues: jax.Array

    def root(self, z: jax.Array) -> jax.Array:
        return jnp.sqrt(self.eigenvalues).reshape(*self.eigenvalues.shape, *[1] * (z.ndim - 2)) * z

    def split(self, slopes: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Slopes go through at least sqrt(machine epsilon) of the largest, so that r_j stays moderate.
        kept = self.eigenvalues > jnp.sqrt(jnp.finfo(self.eigenvalues.dtype).eps) * jnp.max(self.eigenvalues)
        r = jnp.where(kept, slopes / jnp.sqrt(jnp.where(kept, self.eigenvalues, 1)), 0)
        return r, jnp.where(kept, 0, slopes)


class Full(AbstractForm):
    """M_j = V_j diag(lambda_j) V_j^T and R_j = diag(lambda_j)^(1/2) V_j^T.

    From the eigenvectors, never from Cholesky: the softmax Hessian is singular, and a density that is not convex has
    negative eigenvalues.
    """

    squared: ClassVar[bool] = True
    eigenvalues: jax.Array
    vectors: jax.Array

    def root(self, z: jax.Array) -> jax.Array:
        return Diagonal(self.eigenvalues).root(jnp.einsum("mqp,mq...->mp...", self.vectors, z))

    def split(self, slopes: jax.Array) -> tuple[jax.Array, jax.Array]:
        r, rest = Diagonal(self.eigenvalues).split(jnp.einsum("mqp,mq->mp", self.vectors, slopes))
        return r, jnp.einsum("mqp,mp->mq", self.vectors, rest)


def form_of(term: AbstractTerm, z: jax.Array, over: Points) -> AbstractForm | None:
    """The form l''(z_j) of a term at every point; None where it is zero, because the density is linear."""
    match term.curvature(z, over):
        case Curvature.ZERO:
            return None
        case Curvature.IDENTITY:
            return Identity()
        case Curvature.DIAGONAL:
            return Diagonal(jnp.maximum(term.diagonals(z, over), 0))
    # One at a time: batched, LAPACK's calls wait in XLA's threads for XLA's threads, and two of them wait for ever.
    eigenvalues, vectors = jax.lax.map(jnp.linalg.eigh, term.hessians(z, over))
    # What should be zero, as along (1, ..., 1) for softmax, is rounding of the largest one.
    rounding = eigenvalues.shape[1] * jnp.finfo(z.dtype).eps * jnp.max(jnp.abs(eigenvalues), axis=1, keepdims=True)
    return Full(jnp.where(eigenvalues > rounding, eigenvalues, 0), vectors)


def bounded(form: Diagonal | Full, densities: jax.Array, slopes: jax.Array, share: jax.Array) -> AbstractForm:
    r"""The form l''(z_j), raised until no point promises to gain more than its loss.

    The model of a point promises $P = \tfrac12 \ell'^T M^{-1} \ell'$. Where $\ell''$ is nearly zero though the slope is
    not, as for an image that is misread with confidence or a residual beyond Huber's threshold, that is more than there
    is to lose. For densities that are nowhere negative the form is then raised in all directions alike,
    $M + \tau I$ with a share of $\tau = \tfrac12 |\ell'|^2 (1/\ell - 1/P)$.

    With a share of 1 a point promises at most its loss, since $1/P$ is a concave function of $\tau$ whose slope is
    nowhere below $2/|\ell'|^2$; in one dimension the step of such a point is Polyak's.
    """
    inside = slopes if isinstance(form, Diagonal) else jnp.einsum("mqp,mq->mp", form.vectors, slopes)
    curved, squares = form.eigenvalues > 0, jnp.sum(inside**2, axis=1)
    # Where the form is zero, so is the slope, up to rounding, or the promise has no end.
    endless = inside**2 > (slopes.shape[1] * jnp.finfo(slopes.dtype).eps) ** 2 * squares[:, None]
    promises = jnp.where(curved, inside**2 / jnp.where(curved, form.eigenvalues, 1), jnp.where(endless, jnp.inf, 0))
    promise = jnp.sum(promises, axis=1) / 2
    too_much = (promise > densities) & (densities > 0) & jnp.all(densities >= 0)
    excess = 1 / jnp.where(too_much, densities, 1) - 1 / jnp.where(too_much, promise, 1)
    raised = form.eigenvalues + share * (squares / 2 * excess)[:, None]
    return eqx.tree_at(lambda form: form.eigenvalues, form, raised)
