"""Sketches: rows mixed at random to a few times as many as there are parameters, then factorised."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Rows, Vector
from ..filters import AbstractFilter
from ..rows import AbstractRows, Stored
from .base import AbstractFactors, AbstractInverse, AbstractSolver
from .qrsvd import QRSVD


def mixed(rows: Rows, count: int, key: Any) -> Rows:
    r"""The product $\Omega \Psi$ with a sparse matrix of signs: every row of Psi goes, with a sign, to one of `count`.

    All of these receive equally many, chosen at random, so that $E\, \Omega^T \Omega = I$.
    """
    order, signs = jax.random.split(key)
    N, d = rows.shape
    many = -(-N // count)
    which = jax.random.permutation(order, many * count)  # numbers from N on stand for rows of zeros
    sign = jnp.where(which < N, jax.random.rademacher(signs, (many * count,), rows.dtype), 0)
    chosen = rows[jnp.minimum(which, N - 1)] * sign[:, None]
    return jnp.sum(chosen.reshape(many, count, d), axis=0)


class SketchedFactors(AbstractFactors):
    """Factors of the mixed rows, which stand for those of all rows."""

    psi: AbstractRows
    mixed: AbstractFactors

    @property
    def eigenvalues(self) -> jax.Array | None:
        return self.mixed.eigenvalues

    @property
    def noise(self) -> jax.Array:
        return self.mixed.noise

    def rank(self, filter: AbstractFilter) -> jax.Array:
        return self.mixed.rank(filter)

    def inverse(self, filter: AbstractFilter) -> "SketchedInverse":
        return SketchedInverse(self.psi, self.mixed.inverse(filter))


class SketchedInverse(AbstractInverse):
    """f of the mixed rows' Gram matrix; functions become covectors by all rows, so that a gradient stays what it is."""

    psi: AbstractRows
    mixed: AbstractInverse

    def riesz(self, c: Vector) -> Vector:
        return self.mixed.riesz(c)


class Sketched(AbstractSolver):
    r"""Another solver on rows that are mixed at random, anew each step, to `factor` times d.

    The cost of factorising does not grow with the number of points; rows are made and passed over once. The Gram matrix
    becomes $\tilde G = \Psi^T \Omega^T \Omega \Psi$, off by about 2/sqrt(factor) in every direction, while the gradient
    $\Psi^T r$ is exact: steps still descend, and end where exact ones do, but each leaves a part of the error behind.
    Where rows are no more than that many they are factorised as they are. `minimise` needs a `key`. `auto` makes its
    quick steps alone.

    **Arguments:**

    - `solver`: what works on the mixed rows; `QRSVD()` by default.
    - `factor`: how many rows there are for each parameter after mixing.

    ```python
    riesz.minimise(loss, D, theta0, riesz.ngd(factorisation=riesz.Sketched(riesz.QRSVD(), 4)), key=jax.random.key(0))
    ```
    """

    solver: AbstractSolver = eqx.field(default_factory=QRSVD)
    factor: int = eqx.field(static=True, default=4)
    key: Any = None
    """The randomness of a step, which a run supplies."""
    drawn = True

    def __check_init__(self):
        _check.kind("solver", self.solver, AbstractSolver, "riesz.QRSVD(), riesz.Gram() or riesz.Cholesky()")
        _check.count("factor", self.factor)
        if self.solver.drawn:
            raise ValueError("solver must not be Sketched itself: rows are mixed once.")

    @property
    def has_spectrum(self) -> bool:  # type: ignore[override]
        """Whether the solver of the mixed rows has one."""
        return self.solver.has_spectrum

    @property
    def points_at_once(self) -> int | None:
        return self.solver.points_at_once

    def in_chunks(self, chunk: int) -> "Sketched":
        return dataclasses.replace(self, solver=self.solver.in_chunks(chunk))

    def fresh(self, key: Any) -> "Sketched":
        return dataclasses.replace(self, key=key)

    def __call__(self, psi: AbstractRows) -> AbstractFactors:
        rows, d = psi.shape
        if rows <= self.factor * d:
            return self.solver(psi)
        if self.key is None:
            raise ValueError("Sketched needs a key for every step: solver.fresh(key).")
        return SketchedFactors(psi, self.solver(Stored(mixed(psi.array(), self.factor * d, self.key))))
