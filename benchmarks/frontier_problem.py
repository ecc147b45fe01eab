"""What the problems of frontier.py have in common: how they are told, and a clock for their runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

import riesz


@dataclass
class Problem:
    """A problem as it was published, and how riesz solves it."""

    name: str
    """What it is, as text for the table."""
    published: str
    """The best published figure, with its source."""
    bar: float
    """The relative L2 error that is aimed at; infinite where a figure is only reported."""
    seconds: float
    """The CPU seconds that a start may take."""
    solve: Callable[[int], dict]
    """What is known of one start, by seed, as `Clock.known` gives it."""
    setup: str = ""
    """Model, points and loss, as text for the table."""


class Clock:
    """Calls `riesz.minimise` with its default method, one or several times, within one budget of CPU seconds.

    The seconds are those of all threads of this process. What compiling takes is measured by a run of a single step
    before each call and told separately; it is not counted in the budget.
    """

    def __init__(self, seconds):
        self.budget, self.seconds, self.compiling, self.steps = seconds, 0.0, 0.0, 0

    def minimise(self, loss, D, theta0, share=1.0, **options):
        """A run of the default method with what is left of a share of the budget."""
        call = lambda **more: riesz.minimise(loss, D, theta0, progress=False, throw=False, **{**options, **more})
        began = time.process_time()
        call(max_steps=1)
        self.compiling += time.process_time() - began
        began = time.process_time()
        spent = lambda: self.seconds + time.process_time() - began
        limit = share * self.budget
        found = call(callback=lambda steps, solution: spent() >= limit)
        if found.result is riesz.Result.INTERRUPTED:  # a part of a run is no result
            raise KeyboardInterrupt
        self.seconds, self.steps = spent(), self.steps + int(found.steps)
        return found

    def known(self, found, error, between=None):
        """What is stored of a start whose last run is `found`.

        `error` is a function of theta, `between` the loss on twenty times as many points as were minimised over.
        """
        stopped = found.result is riesz.Result.STOPPED_BY_CALLBACK
        looked = {} if between is None else {"between": float(between(found.function))}
        return {
            "error": float(error(found.theta)),
            "seconds": self.seconds,
            "compiling": self.compiling,
            "steps": self.steps,
            "result": "TIME_LIMIT" if stopped else found.result.name,
            "parameters": int(found.theta.size),
            "loss": float(found.loss),
            "notes": list(found.notes),
            **looked,
        }


def relative_error(D, exact, x):
    """The relative L2 error at points x, as a function of theta; `exact` is a function or its values at x."""
    truth = jax.vmap(exact)(x) if callable(exact) else jnp.asarray(exact)
    return jax.jit(lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(x) - truth) / jnp.linalg.norm(truth))
