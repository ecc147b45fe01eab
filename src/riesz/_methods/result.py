"""How a run ended."""

import enum

import jax
import jax.numpy as jnp


class Result(enum.Enum):
    """Which test stopped a run, in a sentence that says what to do next."""

    RUNNING = "The run has not ended."
    TARGET_REACHED = "The target was reached."
    CONVERGED_GRADIENT = "The run converged: its gradient fell below the tolerance, or to what rounding makes of zero."
    CONVERGED_STEP = "The run converged: its step fell below the tolerance; lower tolerance to go on."
    CONVERGED_LOSS = "The run converged: its loss changes by less than the tolerance, or than its own rounding."
    STEP_LIMIT = "The step limit was reached; raise max_steps, or go on with start=solution."
    TIME_LIMIT = "The time limit was reached; raise max_seconds, or go on with start=solution."
    STOPPED_BY_CALLBACK = "The callback stopped the run."
    INTERRUPTED = "The run was interrupted; go on with start=solution."
    STAGNATED = (
        "No lower loss, or hardly one, was found for many steps, though the gradient promises one; start elsewhere, as "
        "restarts=riesz.Restarts(5) does, rescale the parameters, or let the model be smoother."
    )
    UNBOUNDED = (
        "The parameters run to infinity while the loss goes on falling, as they do where classes can be separated or "
        "noise is fitted; there is no minimiser, and solution.theta is from where they ran: add a penalty, such as "
        "ridge=, choose by validation=, stop by a target, or start elsewhere, as restarts=riesz.Restarts(5) does."
    )
    NONFINITE_INPUT = "The loss is not finite at the start; choose another theta0, or look at the data and the density."
    NONFINITE_STEPS = (
        "Five trial steps in a row led to a loss that is not finite; use a smaller step size, a larger eps in the "
        "filter, or a density that is finite everywhere."
    )
    RANK_COLLAPSE = (
        "The tangent space had no direction above the filter's eps for five steps; lower eps, rescale the loss, choose "
        "another start, or see whether the operator's values depend on the parameters: under a Laplacian, those of a "
        "relu network do not."
    )
    VALIDATED = (
        "The validation improves no more, for as many steps as patience allows or because the run has ended; "
        "solution.theta is where it was lowest."
    )

    def __str__(self) -> str:
        return self.value

    @property
    def converged(self) -> bool:
        """Whether the run stands where it can no longer improve, by gradient, step or loss."""
        return self in (Result.CONVERGED_GRADIENT, Result.CONVERGED_STEP, Result.CONVERGED_LOSS)

    @property
    def failed(self) -> bool:
        """Whether the run failed, so that `throw=True` raises."""
        return self in (Result.NONFINITE_INPUT, Result.NONFINITE_STEPS, Result.RANK_COLLAPSE)

    @property
    def ends_run(self) -> bool:
        """Whether the run itself has ended; limits, callbacks and interruptions end a call, and it may go on."""
        return self not in (
            Result.RUNNING,
            Result.STEP_LIMIT,
            Result.TIME_LIMIT,
            Result.STOPPED_BY_CALLBACK,
            Result.INTERRUPTED,
        )


CODES = tuple(Result)
"""Results by the number that compiled code knows them by."""


def code(result: Result) -> int:
    """The number of a result."""
    return CODES.index(result)


def first_code(ends: list[tuple[jax.Array, Result]]) -> jax.Array:
    """The number of the first result whose test holds; that of RUNNING where none does."""
    return jnp.select([test for test, _ in ends], [code(result) for _, result in ends], code(Result.RUNNING))
