"""Finished runs made up for tests: results, claims and reports are computed from these."""

import numpy as np

from riesz.experiments._results import Results
from riesz.experiments._store import Stored

ERRORS = {
    "mackey-glass": ("train_mse", "test_mse"),
    "extended-xor": ("train_mse", "test_mse", "test_accuracy"),
    "advection-diffusion": ("solution_mse", "residual_norm", "train_residual"),
    "reaction-diffusion": ("solution_mse", "residual_norm", "train_residual"),
}
SIZES = {"mackey-glass": 61, "extended-xor": 41, "advection-diffusion": 46, "reaction-diffusion": 48}
"""The numbers of parameters."""


def stored(
    problem="mackey-glass",
    method="NGD",
    seed=0,
    result="TARGET_REACHED",
    loss=(4.0, 3.0, 2.0, 1.0),
    each=0.1,
    timed=True,
):
    loss = np.array(loss)
    steps = loss.size - 1
    history = {
        "loss": loss,
        "seconds": each * np.arange(steps + 1.0),
        "gradient_norm": np.ones(steps),
        "step_norm": np.ones(steps),
        "alpha": np.full(steps, 0.1),
        "rank": np.full(steps, 3),
        "accepted": np.full(steps, True),
        **{name: 2 * loss for name in ERRORS[problem]},
    }
    theta = np.random.default_rng(seed).standard_normal(SIZES[problem])
    reached = result == "TARGET_REACHED"
    # The target is what the last iterate of a run that reached it has just reached.
    settings = {"max_steps": 500, "target": {ERRORS[problem][0]: float(2 * loss[-1]) if reached else 0.0}}
    return Stored(problem, method, seed, result, timed, theta, history, settings, {"riesz": "0.1.0"})


def falling(steps):
    """A loss that falls to 1e-5 in so many steps."""
    return np.geomspace(1.0, 1e-5, steps + 1)


def results(steps, starts=10, each=None, problem="mackey-glass", failed=()):
    """Runs of methods whose median start takes so many steps; `failed` diverge."""
    runs = []
    for method, median in steps.items():
        for seed in range(starts):
            scatter = 1 + 0.02 * (seed - starts // 2) / starts
            runs.append(
                stored(
                    problem,
                    method,
                    seed,
                    result="NONFINITE_STEPS" if method in failed else "TARGET_REACHED",
                    loss=falling(round(median * scatter)),
                    each=(each or {}).get(method, 0.01),
                    timed=seed < 3,
                )
            )
    return Results(runs)
