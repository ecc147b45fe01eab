"""Where an earlier run stands: what `minimise(start=)` goes on from."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .fingerprint import difference, origin
from .keeping import origin_of
from .loop import Carry, start
from .problem import Problem
from .solution import Solution


def theta_of(solution: Any, theta0: Any, restarts: Any, ridge: Any) -> Any:
    """Where a run begins that goes on: where an earlier one ended."""
    _check.kind("start", solution, Solution, "a solution of riesz.minimise, or None")
    if theta0 is not None:
        raise ValueError("theta0 must be left out where start= is given: the run goes on from solution.last.")
    if restarts is not None:
        raise ValueError("restarts must be None where start= is given: a run that goes on has one start.")
    if ridge is not None:
        raise ValueError("ridge must be None where start= is given: it pulls towards theta0, which is not known.")
    if solution.theta.ndim != 1 or solution.state is None:
        raise ValueError(
            "start must be a solution of one run, with its state, which minimise_many does not keep: give "
            "theta0=solution.last[i] instead."
        )
    return solution.last


def method_of(solution: Solution | None, method: Any) -> Any:
    """The method, or that of the earlier run, if it is known, where none is given."""
    problem = None if solution is None else solution.problem
    return problem.method.method if method is None and problem is not None and problem.method is not None else method


@dataclasses.dataclass(frozen=True)
class Standing:
    """An earlier run, for a problem with the same method."""

    solution: Solution
    same: bool
    """Whether the loss is the same function of theta as in the earlier run, on the same points."""

    @classmethod
    def checked(cls, solution: Solution | None, problem: Problem) -> "Standing | None":
        """Refuse an earlier run of another method."""
        if solution is None:
            return None
        theirs, ours = origin_of(solution), origin(problem, solution.last)
        other = None if theirs is None else difference({"method": theirs.method}, {"method": ours.method})
        if other is not None:
            raise ValueError(f"start must be a solution of the same method, but it is of {other}.")
        return cls(solution, theirs is not None and ours.problem is not None and theirs.problem == ours.problem)

    def placed(self, problem: Problem, fresh: Carry, key: Any) -> Carry:
        """The beginning of a run at `last` with the state of the earlier one, and what is best so far."""
        known = self.solution
        carry = eqx.tree_at(lambda carry: carry.state, fresh, _rebuilt(known.state, fresh.state))
        if problem.drawn:
            return carry
        if problem.validation is not None:
            return self._validated(problem, carry, key)
        best, dtype = jnp.asarray(known.theta), fresh.loss.dtype
        # Where a validation has chosen theta, it is not where the loss was lowest.
        if self.same and "validation" not in known.history:
            # Not evaluated again: another program may round otherwise.
            losses = known.history["loss"][-1], known.loss, min(known.history["loss"].min(), float(known.loss))
        else:
            there = start(problem, best, key, quick=True, mesh=problem.mesh).loss
            if not float(there) < float(fresh.loss):
                return carry
            losses = fresh.loss, there, there
        where = lambda carry: (carry.best, carry.loss, carry.best_loss, carry.lowest)
        return eqx.tree_at(where, carry, (best, *(jnp.asarray(loss, dtype) for loss in losses)))

    def _validated(self, problem: Problem, carry: Carry, key: Any) -> Carry:
        """The same where a validation says what is best."""
        there = start(problem, jnp.asarray(self.solution.theta), key, quick=True, mesh=problem.mesh)
        if not float(there.validated["lowest"]) < float(carry.validated["lowest"]):
            return carry
        where = lambda carry: (carry.best, carry.best_loss, carry.validated)
        return eqx.tree_at(where, carry, where(there))


def _rebuilt(state: Any, like: Any) -> Any:
    """A state, which may be known by its arrays alone, in the structure of another one."""
    arrays, rest = eqx.partition(like, eqx.is_array)
    expected, structure = jax.tree.flatten(arrays)
    found = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    if [(leaf.shape, leaf.dtype) for leaf in found] != [(leaf.shape, leaf.dtype) for leaf in expected]:
        raise ValueError("start must be a solution of this method, but its state has arrays of other shapes or types.")
    return eqx.combine(jax.tree.unflatten(structure, found), rest)
