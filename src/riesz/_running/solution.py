"""What a run leaves."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._methods.result import Result
from .loop import Problem


class Start(eqx.Module):
    """One of the starts of a run with restarts, and how it ended."""

    number: int
    """0 for the start that was given."""
    theta0: jax.Array
    result: Result
    steps: int
    loss: float
    """The loss of its best parameters."""
    seconds: float


class Solution(eqx.Module):
    """What `minimise` returns; from `minimise_many`, with a leading axis of starts."""

    theta: jax.Array
    """The best accepted parameters; those that met a target or tolerance; the last ones where points are drawn."""
    loss: jax.Array
    """The loss at theta."""
    last: jax.Array
    """The last accepted parameters: where the method itself stands."""
    result: Any
    """A `Result`, or an array of them."""
    steps: Any
    """The number of steps made, or an array of them."""
    history: dict[str, np.ndarray]
    """loss, seconds and metrics at every iterate (steps + 1 of them); the other columns for every step."""
    D: Callable[[Any], Any]
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    """What a user should know beside the result, in sentences."""
    starts: tuple[Start, ...] = ()
    """With `restarts=`, a `Start` for each one that was made, in order; a callback sees those that have ended. Else
    empty."""
    problem: Problem | None = None
    """The loss, D and the method, as they were run; None where they are not known."""
    state: Any = None
    """What the method carries to its next step, from `last`; None where it is not known, and for a batch of starts."""

    @property
    def params(self) -> Any:
        """The parameters as the pytree that was parametrised, `D.params(theta)`; stacked for a batch of starts."""
        params = getattr(self.D, "params", None)
        if not callable(params):
            raise AttributeError("solution.params needs a D that has D.params, as those of riesz.parametrise have.")
        if self.theta.ndim == 1:
            return params(self.theta)
        stack = lambda *leaves: jnp.stack(leaves) if eqx.is_inexact_array(leaves[0]) else leaves[0]
        return jax.tree.map(stack, *map(params, self.theta))

    @property
    def model(self) -> Any:
        """D(theta): a module of equinox or flax nnx with its trained parameters; else, or for a batch, the function."""
        return self.function

    @property
    def function(self) -> Callable[[Any], Any]:
        """The function D(theta); for a batch of starts, the function whose values are stacked along a first axis."""
        if self.theta.ndim == 1:
            return self.D(self.theta)
        return lambda x: jax.vmap(lambda theta: self.D(theta)(x))(self.theta)

    def __repr__(self) -> str:
        if isinstance(self.result, Result):
            return f"Solution(loss={float(self.loss):.6g}, steps={self.steps}, result={self.result.name})"
        names = [result.name for result in self.result]
        counts = ", ".join(f"{name}: {names.count(name)}" for name in dict.fromkeys(names))
        return f"Solution({len(names)} starts, best loss={np.min(np.asarray(self.loss)):.6g}, {counts})"


class SolveError(RuntimeError):
    """A run that failed; the solution so far is attached."""

    solution: Solution

    def __init__(self, solution: Solution):
        super().__init__(str(solution.result))
        self.solution = solution
