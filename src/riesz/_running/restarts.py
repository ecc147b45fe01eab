"""Restarts: a run that ends in a bad place begins again from another one."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .. import _check
from .._methods.result import Result
from .._types import Key, Vector
from .prepare import check_start
from .solution import Start


@dataclasses.dataclass(frozen=True)
class Restarts:
    """How often, and from where, a run begins again.

    The call `minimise(..., restarts=riesz.Restarts(5), key=key)` makes a run from theta0, which is start 0. Where a
    start ends `STAGNATED` or `UNBOUNDED`, or, if there is a target, in any way that is not the target, a limit, a
    callback or an interruption, the next start i is made: the run that `minimise` makes from
    `start(jax.random.fold_in(key, 2**32 - i))`. These keys are those of no step that draws points. All starts share
    `max_steps` and `max_seconds`. Returned is the start that reached the target, or else the one with the lowest loss;
    `solution.starts` tells of all.

    **Arguments:**

    - `n`: the largest number of further starts.
    - `start`: a function from a random key to a theta0; by default `D.start`, which the models of `riesz.mlp` and
      `riesz.tensor_train` have, also inside `riesz.hard_boundary`, `riesz.periodic` and the like.

    ```python
    network, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
    solution = riesz.minimise(loss, network, theta0, restarts=riesz.Restarts(5), key=jax.random.key(1))
    D = lambda theta: lambda x: x * network(theta)(x)  # a model of one's own, which has no start
    solution = riesz.minimise(loss, D, theta0, restarts=riesz.Restarts(5, network.start), key=jax.random.key(1))
    ```
    """

    n: int
    start: Callable[[Key], Vector] | None = None

    def __post_init__(self):
        _check.count("n", self.n)
        if self.start is not None:
            _check.function("start", self.start)


@dataclasses.dataclass(frozen=True)
class Starts:
    """The starts that a call may make."""

    n: int
    theta0: jax.Array
    start: Callable[[Any], Any]
    key: Any

    @classmethod
    def checked(cls, restarts: Any, D: Any, theta0: jax.Array, key: Any) -> "Starts | None":
        """The starts that are asked for; the first further one is drawn, to see that it fits."""
        if restarts is None:
            return None
        _check.kind("restarts", restarts, Restarts, "riesz.Restarts(n) or riesz.Restarts(n, start)")
        if key is None:
            raise ValueError("key must be given, such as jax.random.key(0): restarts draw their starts from it.")
        start = getattr(D, "start", None) if restarts.start is None else restarts.start
        if not callable(start):
            raise ValueError(
                f"start must be given, as in riesz.Restarts({restarts.n}, start) with a function start(key) that "
                "returns a theta0: this D has no D.start."
            )
        starts = cls(restarts.n, theta0, start, _check.key("key", key))
        starts.theta(1)
        return starts

    def theta(self, number: int) -> jax.Array:
        """The parameters of a start, in the type of the first one, for which programs are compiled."""
        if number == 0:
            return self.theta0
        # Counted from the end: the draws of a step have the keys at the beginning.
        theta = check_start(self.start(jax.random.fold_in(self.key, 2**32 - number)), 1, "start(key)")
        if theta.shape != self.theta0.shape:
            raise ValueError(f"start(key) must have the shape of theta0, {self.theta0.shape}, not {theta.shape}.")
        return self.theta0.at[:].set(theta.astype(self.theta0.dtype))  # weakly typed where theta0 is

    def begins_again(self, made: Sequence[Start], target: Any) -> bool:
        """Whether the starts that were made leave a reason and the right to make another."""
        result = made[-1].result
        if target is None:
            bad = result in (Result.STAGNATED, Result.UNBOUNDED)
        else:
            bad = result.ends_run and result is not Result.TARGET_REACHED
        return bad and len(made) <= self.n


def best(made: Sequence[Start]) -> Start:
    """The start that reached the target, or else the one with the lowest loss; of several, the first."""
    loss = lambda start: start.loss if math.isfinite(start.loss) else math.inf
    return min(made, key=lambda start: (start.result is not Result.TARGET_REACHED, loss(start)))


def told(made: Sequence[Start]) -> str:
    """How many starts were made and which is returned, in a sentence."""
    chosen = best(made)
    if len(made) == 1:
        return "One start was made."
    why = "which reached the target" if chosen.result is Result.TARGET_REACHED else "whose loss is the lowest"
    last = "" if chosen is made[-1] else f"; the last one ended {made[-1].result.name}"
    return f"{len(made)} starts were made, and start {chosen.number}, {why}, is returned{last}."
