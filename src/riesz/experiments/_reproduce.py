"""Run the experiments: every problem, method and seed that is not on disk yet."""

import importlib.metadata
import pathlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._doors.minimise import minimise_many
from .._methods.result import Result
from .._methods.schemes import AbstractMethod
from .._running.interrupt import wish_to_stop
from . import advection_diffusion, extended_xor, mackey_glass, reaction_diffusion
from ._competitors import COMPETITORS, Competitor, labels_of
from ._experiment import Experiment
from ._store import Store, Stored

PROBLEMS: dict[str, Callable[..., Experiment]] = {
    "mackey-glass": mackey_glass.experiment,
    "extended-xor": extended_xor.experiment,
    "advection-diffusion": advection_diffusion.experiment,
    "reaction-diffusion": reaction_diffusion.experiment,
}
PARTS = {"main": ("main",), "paper": ("main", "appendix"), "all": ("main", "appendix", "baselines")}
TIMED = 3
"""How many starts run one at a time, so that their seconds are a single run's; the rest share the cores."""
GROUP = 10
"""How many of the other starts are run, and then kept, together: a kill loses at most these."""


@dataclass(frozen=True)
class Plan:
    """A problem with the methods that run on it."""

    experiment: Experiment
    competitors: tuple[Competitor, ...]


def plan(problems: Sequence[str], methods: str | Sequence[str], steps: int | None) -> list[Plan]:
    """What to run: "main" is the figures of section 5, "paper" adds the appendix, "all" the baselines."""
    plans = []
    for name in problems or PROBLEMS:
        experiment = PROBLEMS[name](**({} if steps is None else {"max_steps": steps}))
        labels = labels_of(name, PARTS[methods]) if isinstance(methods, str) else methods
        plans.append(Plan(experiment, tuple(COMPETITORS[label] for label in labels)))
    return plans


def settings(steps: int | None) -> dict[str, Any]:
    """What makes two runs of the same problem, method and seed comparable."""
    return {"steps": steps, **{name: make().settings for name, make in PROBLEMS.items()}}


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on."""
    packages = {name: importlib.metadata.version(name) for name in ("riesz", "jax", "jaxlib", "numpy", "optax")}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


def _groups(seeds: Sequence[int]) -> Iterator[tuple[list[int], bool]]:
    """Seeds in groups, and whether the group is timed; a seed is timed or not whatever else runs."""
    for timed, size in ((True, 1), (False, GROUP)):
        chosen = [seed for seed in seeds if (seed < TIMED) == timed]
        for first in range(0, len(chosen), size):
            yield chosen[first : first + size], timed


def run_all(plans: list[Plan], seeds: int, store: Store, tell: Callable[[str, int], Any]) -> list[Stored]:
    """Run what is missing, keep it, and return every run; `tell(what, count)` reports progress.

    The methods of a problem take turns at every start, so that a machine that is slower for a while is slower for all.
    """
    with wish_to_stop() as wish:
        for item in plans:
            problem = item.experiment
            methods = {competitor: competitor.make() for competitor in item.competitors}
            for group, timed in _groups(range(seeds)):
                for competitor, method in methods.items():
                    tell(f"{problem.title}: {competitor.label}", 0)
                    missing = [seed for seed in group if (problem.name, competitor.label, seed) not in store]
                    if missing:
                        _run(problem, competitor, method, missing, timed, store)
                    if wish.is_set():
                        raise KeyboardInterrupt
                    tell(f"{problem.title}: {competitor.label}", len(group))
    return [
        store.load(item.experiment.name, competitor.label, seed)
        for item in plans
        for competitor in item.competitors
        for seed in range(seeds)
    ]


def stored_runs(store: Store) -> list[Stored]:
    """Every run that a folder holds, in the order of the figures."""
    return [
        store.load(problem, label, seed)
        for problem in PROBLEMS
        for label in COMPETITORS
        for seed in store.seeds(problem, label)
    ]


def _run(
    problem: Experiment, competitor: Competitor, method: AbstractMethod, seeds: list[int], timed: bool, store: Store
) -> None:
    max_steps = competitor.patience * problem.max_steps
    solution = minimise_many(
        problem.loss,
        problem.D,
        jnp.stack([problem.start(seed) for seed in seeds]),
        method,
        max_steps=max_steps,
        target=problem.target or None,
        metrics=problem.metrics,
        key=jax.random.key(0) if problem.loss.drawn else None,
        progress=False,
        threads=1 if timed else None,
    )
    per_iterate = {"loss", "seconds", *problem.metrics}
    for row, seed in enumerate(seeds):
        if solution.result[row] is Result.INTERRUPTED:
            continue
        steps = int(solution.steps[row])
        history = {
            name: column[row, : steps + 1 if name in per_iterate else steps]
            for name, column in solution.history.items()
        }
        store.save(
            Stored(
                problem.name,
                competitor.label,
                seed,
                result=solution.result[row].name,
                timed=timed,
                theta=np.asarray(solution.theta[row]),
                history=history,
                settings={"max_steps": max_steps, "target": problem.target, **problem.settings},
                versions=versions(),
            )
        )
    if any(result is Result.INTERRUPTED for result in solution.result):
        raise KeyboardInterrupt


def open_store(out: pathlib.Path, steps: int | None) -> Store:
    """The store below a folder, for runs with these settings."""
    return Store(out, settings(steps))
