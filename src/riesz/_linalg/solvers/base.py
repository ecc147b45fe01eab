r"""What a solver is: factorise the rows $\Psi$ once, then solve with $G = \Psi^T \Psi$ many times.

Three classes, from the most expensive verb to the cheapest: `solver(psi)` factorises; `factors.inverse(filter)` fixes
the regularised inverse f(G); `inverse.project(r)` and `inverse.riesz(c)` apply it.
"""

import abc
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._types import Vector
from ..filters import AbstractFilter
from ..rows import AbstractRows


class AbstractInverse(eqx.Module):
    """The regularised inverse f(G), for one filter f."""

    psi: eqx.AbstractVar[AbstractRows]

    @abc.abstractmethod
    def riesz(self, c: Vector) -> Vector:
        """The coefficients f(G) c of a covector's representer, the part of c in the null space of G included."""

    def project(self, r: jax.Array) -> Vector:
        """The coefficients f(G) Psi^T r: the filtered least-squares solution of Psi delta = r."""
        return self.riesz(self.psi.T @ r)

    def norm(self, r: jax.Array, c: Vector) -> jax.Array:
        """The norm |Psi f(G) (Psi^T r + c)| of a representer."""
        return jnp.linalg.norm(self.psi @ (self.project(r) + self.riesz(c)))


class AbstractFactors(eqx.Module):
    """Rows after the expensive part of the work, which every filter shares."""

    psi: eqx.AbstractVar[AbstractRows]

    @abc.abstractmethod
    def inverse(self, filter: AbstractFilter) -> AbstractInverse:
        """The regularised inverse f(G)."""

    @property
    def eigenvalues(self) -> jax.Array | None:
        """The min(N, d) eigenvalues of G that are not zero by shape; None where the solver has no spectrum."""
        return None

    @property
    def noise(self) -> jax.Array:
        """The size below which eigenvalues are rounding errors: here, that of a matrix which was squared."""
        return jnp.finfo(self.psi.dtype).eps * jnp.max(self.psi.norms()) ** 2

    def rank(self, filter: AbstractFilter) -> jax.Array:
        """How many eigenvalues lie above the filter's eps; without a spectrum 0 where all rows are zero, else -1."""
        if self.eigenvalues is None:
            return jnp.where(jnp.any(self.psi.norms() > 0), -1, 0)
        return filter.rank(self.eigenvalues)


class AbstractSolver(eqx.Module):
    """A way to solve with G.

    Subclasses define `__call__`. Without a spectrum, a solver serves the filter `Shift` alone.
    """

    has_spectrum: ClassVar[bool] = False
    """Whether its factors know the eigenvalues of G."""
    drawn: ClassVar[bool] = False
    """Whether it draws random numbers, anew each step, and so needs a key."""

    def fresh(self, key: Any) -> "AbstractSolver":
        """The solver of one step, where it draws random numbers."""
        return self

    @property
    def points_at_once(self) -> int | None:
        """For how many points at a time rows are assembled; None where all rows are stored."""
        return None

    def notes(self, history: dict[str, np.ndarray]) -> tuple[str, ...]:
        """What a user should know of how systems were solved in a run, in sentences."""
        return ()

    def in_chunks(self, chunk: int) -> "AbstractSolver":
        """The same solver with rows assembled for `chunk` points at a time, where it can."""
        return self

    @abc.abstractmethod
    def __call__(self, psi: Any) -> AbstractFactors:
        """Factorise the rows: the expensive verb."""

    def __str__(self) -> str:
        """As a user writes it: with the arguments that are not at their defaults, for sentences and logs."""
        known = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]
        # Numbers are compared in the precision in which they are held.
        default = lambda field, value: np.asarray(field.default, getattr(value, "dtype", None))
        told = lambda value: f"{value:g}" if isinstance(value, jax.Array) else str(value)
        changed = [(field, value) for field, value in known if not np.array_equal(value, default(field, value))]
        return f"{type(self).__name__}({', '.join(f'{field.name}={told(value)}' for field, value in changed)})"


class ChunkedSolver(AbstractSolver):
    """A solver that may have its rows assembled for `chunk` points at a time."""

    chunk: eqx.AbstractVar[int | None]

    def __check_init__(self):
        if self.chunk is not None:
            _check.count("chunk", self.chunk)

    @property
    def points_at_once(self) -> int | None:
        return self.chunk

    def in_chunks(self, chunk: int) -> "ChunkedSolver":
        return type(self)(chunk)
