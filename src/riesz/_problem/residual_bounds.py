r"""From a residual r at the points of two rules to bounds of e, where $-\nabla\cdot(a \nabla e) + c\, e = r$.

e vanishes on the boundary. On a box r is expanded in products of sines, $r = \sum_k r_k \phi_k + \rho$, where
$\rho$ is orthogonal to all of them. They are the eigenfunctions that belong to constants below the coefficients, with
eigenvalues $\Lambda_k$, and $\Lambda_*$ is the lowest one of all other products. The energy norm of e is then at most
$(\sum_k r_k^2 / \Lambda_k + \|\rho\|^2 / \Lambda_*)^{1/2}$. Where the coefficients are these constants, this is sharp,
and the same with squares of eigenvalues holds for the L2 norm.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .measures import Box, Points, boundary, gauss, gauss_legendre, sobol
from .sines import Sines, transform
from .stability import Stability

Pair = tuple[jax.Array, jax.Array]
"""Values at the points of two rules, the finer one first."""


class Rule(eqx.Module):
    """Points inside, with weights that sum to the volume, and points on the boundary."""

    inside: Points
    sides: jax.Array
    axes: tuple[jax.Array, ...] = ()
    """The nodes of every coordinate, where the points are all their combinations."""

    @property
    def volume(self) -> jax.Array:
        return jnp.sum(self.inside.weights)

    def norm(self, values: jax.Array) -> jax.Array:
        """The norm in L2."""
        return jnp.sqrt(self.inside.weights @ values**2)


def rule_on(domain: Box, n: int, seed: int) -> Rule:
    """Gauss-Legendre points, n per dimension; in more than three dimensions n points of Sobol's sequence."""
    low, high = domain.low, domain.high
    if low.size <= 3:
        axes = tuple(gauss(*edge, n).x for edge in domain.edges)
        ends = jnp.stack(jnp.meshgrid(*(jnp.stack(edge) for edge in domain.edges)), axis=-1)
        corners = ends.reshape(-1, *low.shape)  # where what is missed on the sides is often largest
        return Rule(gauss_legendre(low, high, n), jnp.concatenate([boundary(low, high, n).x, corners]), axes)
    inside = sobol(low, high, n, seed=seed)
    point = jnp.arange(n)
    across, ends = (
        point % low.size,
        jnp.where(point // low.size % 2 == 0, low[point % low.size], high[point % low.size]),
    )
    return Rule(inside, inside.x.at[point, across].set(ends))


def safe(fine: jax.Array, coarse: jax.Array) -> jax.Array:
    """What the finer rule found, and as much as the two rules differ."""
    return fine + jnp.abs(fine - coarse)


class Norms(NamedTuple):
    """Bounds of a function in three norms."""

    l2: jax.Array
    energy: jax.Array
    sup: jax.Array

    def plus(self, *other: jax.Array) -> "Norms":
        """The bounds of a sum."""
        return Norms(*map(jnp.add, self, other))

    def at_most(self, other: "Norms") -> "Norms":
        """The better of two bounds, norm by norm."""
        return Norms(*map(jnp.minimum, self, other))


class Inside(eqx.Module):
    """What bounds a function that vanishes on the boundary, by its image under the equation's left side."""

    rules: tuple[Rule, Rule]
    """Two rules of different points, the finer one first."""
    factors: Stability
    sines: Sines | None
    """Those of constants below the coefficients; None where the domain is no box of at most three dimensions."""
    constant: bool = eqx.field(static=True)
    """Whether the coefficients are these constants."""

    def norm(self, values: Pair) -> jax.Array:
        """The L2 norm."""
        return safe(*(rule.norm(each) for rule, each in zip(self.rules, values, strict=True)))

    def largest(self, values: Pair) -> jax.Array:
        """The largest absolute value."""
        return safe(*(jnp.max(jnp.abs(each)) for each in values))

    def __call__(self, r: Pair) -> Norms:
        """The bounds, from the values r of the image."""
        first, norm = self.factors.first, self.norm(r)
        l2, energy = norm / first, norm / jnp.sqrt(first)
        sup = jnp.minimum(self.factors.by_largest * self.largest(r), _times(self.factors.by_norm, norm))
        if self.sines is not None:
            series = Series.of(r, self.rules, self.sines)
            energy = jnp.minimum(energy, series.norm(1))
            if self.constant:
                l2 = jnp.minimum(l2, series.norm(2))
                sup = jnp.minimum(sup, series.largest)
        l2 = jnp.minimum(l2, energy / jnp.sqrt(first))
        return Norms(l2, energy, jnp.minimum(sup, _times(self.factors.by_energy, energy)))


def _times(factor: jax.Array, norm: jax.Array) -> jax.Array:
    """A bound by a factor, which may be infinite where there is none, also where the norm is zero."""
    return jnp.where(jnp.isinf(factor), jnp.inf, factor * norm)


class Series(eqx.Module):
    """The expansion of r in products of sines."""

    sines: Sines
    known: jax.Array
    """The coefficients r_k."""
    doubt: jax.Array
    """How far two rules differ in them."""
    rest: jax.Array
    r"""The norm of $\rho$."""

    @classmethod
    def of(cls, r: Pair, rules: tuple[Rule, Rule], sines: Sines) -> "Series":
        """The expansion of the values r."""
        found = []
        for values, rule in zip(r, rules, strict=True):
            matrices = sines.matrices(rule.axes)
            series = transform((rule.inside.weights * values).reshape([axis.size for axis in rule.axes]), matrices)
            left = values - transform(series, [matrix.T for matrix in matrices]).reshape(-1)
            found.append((series, rule.norm(left)))
        (fine, rest), (coarse, rest_coarse) = found
        return cls(sines, fine, fine - coarse, safe(rest, rest_coarse))

    def norm(self, power: int) -> jax.Array:
        r"""$(\sum_k r_k^2 / \Lambda_k^p + \|\rho\|^2 / \Lambda_*^p)^{1/2}$, and the doubt in the coefficients."""
        Lambda = self.sines.eigenvalues**power
        series = jnp.sqrt(jnp.sum(self.known**2 / Lambda) + self.rest**2 / self.sines.beyond**power)
        return series + jnp.sqrt(jnp.sum(self.doubt**2 / Lambda))

    @property
    def largest(self) -> jax.Array:
        r"""The largest value of $\sum_k r_k \phi_k / \Lambda_k$, and at most what the rest and the doubt add to it."""
        Lambda = self.sines.eigenvalues
        doubt = self.sines.tallest * jnp.sum(jnp.abs(self.doubt) / Lambda)
        return self.sines.largest(self.known / Lambda) + self.rest * self.sines.tail + doubt
