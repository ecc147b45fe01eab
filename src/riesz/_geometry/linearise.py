r"""The linearisation at theta: everything that is known there, one immutable value built in one order.

Values z come first, with the rows where they are stored; then the point-wise losses and their slopes; then the loss.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.features import Features, features, pull, pull_sizes, values_alone
from .._problem.integral import AbstractLoss, AbstractTerm
from .._problem.measures import Points
from .._types import Operator, Parametrisation, Vector
from .rows import Slopes as Slopes
from .rows import pull_in_chunks


class Sample(eqx.Module):
    """What one step sees: the points of every term, and of W and X where they have measures of their own."""

    terms: tuple[Points, ...]
    W_points: Points | None = None
    X_points: Points | None = None
    key: Any = None
    """The randomness of a solver that draws, if the method has one."""


class Part(eqx.Module):
    """One term of the loss at theta."""

    term: AbstractTerm
    over: Points
    features: Features
    """The values z_j, and the rows dz_j/dtheta where they are stored."""
    densities: jax.Array
    """The point-wise losses l(z_j)."""
    slopes: jax.Array
    """Their slopes l'(z_j), of shape (m, p)."""


class Linearisation(eqx.Module):
    """What is known at theta."""

    D: Parametrisation
    theta: jax.Array
    parts: tuple[Part, ...]
    loss: jax.Array
    """The value L(v)."""
    chunk: int | None = eqx.field(static=True)
    """For how many points at a time rows are assembled; None where they are stored, or not needed."""
    stored: bool = eqx.field(static=True)

    @property
    def slopes(self) -> Slopes:
        """L'(v)."""
        return tuple(part.slopes for part in self.parts)

    @property
    def magnitude(self) -> jax.Array:
        """The sum of w_j |l(z_j)|, by which the rounding of the loss is measured."""
        return sum(part.over.weights @ jnp.abs(part.densities) for part in self.parts)  # type: ignore[return-value]

    @property
    def positive(self) -> jax.Array:
        """Whether no density is negative, so that the loss may vanish."""
        return jnp.all(jnp.concatenate([part.densities for part in self.parts]) >= 0)

    @property
    def quadratic(self) -> bool:
        """Whether the loss is quadratic in the function, so that its Gauss-Newton model errs only where D bends."""
        return all(part.term.quadratic(part.features.values, part.over) for part in self.parts)

    def features(self, operator: Operator, x: jax.Array) -> Features:
        """The values of another operator at other points, with rows where this linearisation stores rows."""
        make = features if self.stored else values_alone
        return make(self.D, operator, self.theta, x)

    def covector(self, slopes: Slopes) -> Vector:
        """The covector L'(psi(theta)) in R^d: for the linearisation's own slopes, the gradient of the loss in theta."""
        return self._pulled(slopes, lambda rows: rows, pull)

    def unbalanced(self, covector: Vector) -> jax.Array:
        r"""How much is left of the gradient: the largest of $|c_i| / \sum_j w_j |\ell'_j|\,|\partial_i z_j|$.

        At a stationary point the terms of every component cancel, so this is rounding, whatever the units; elsewhere it
        is of the order of one.
        """
        sizes = self._pulled(tuple(jnp.abs(slope) for slope in self.slopes), jnp.abs, pull_sizes)
        return jnp.max(jnp.abs(covector) / jnp.where(sizes > 0, sizes, 1))

    def _pulled(self, slopes: Slopes, of: Callable[[jax.Array], jax.Array], by: Callable[..., Vector]) -> Vector:
        """The sum of w_j slope_j^T dz_j/dtheta, through `of` rows where they are stored, else `by` another way."""
        pulled = []
        for part, slope in zip(self.parts, slopes, strict=True):
            weighted = part.over.weights[:, None] * slope
            if part.features.jacobians is not None:
                pulled.append(jnp.einsum("mpd,mp->d", of(part.features.jacobians), weighted))
                continue
            where = self.D, part.term.operator, self.theta
            pulled.append(pull_in_chunks(*where, weighted, part.over, self.chunk, by))
        return sum(pulled[1:], pulled[0])


def linearise(
    loss: AbstractLoss,
    D: Parametrisation,
    theta: Vector,
    sample: Sample,
    *,
    rows: bool = True,
    chunk: int | None = None,
) -> Linearisation:
    """Everything that is known at theta on the points of a sample.

    **Arguments:**

    - `rows`: whether rows are needed at theta; without them one forward pass is enough.
    - `chunk`: assemble rows for that many points at a time, whenever they are needed, and store none.
    """
    stored = rows and chunk is None
    parts = []
    for term, over in zip(loss.terms, sample.terms, strict=True):
        known = (features if stored else values_alone)(D, term.operator, theta, over.x)
        parts.append(Part(term, over, known, *term.densities_and_slopes(known.values, over)))
    value = sum(part.over.weights @ part.densities for part in parts)
    return Linearisation(D, theta, tuple(parts), value, chunk, stored)  # type: ignore[arg-type]
