"""Run the experiments: every problem, method and seed that is not on disk yet."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._minimise import minimise_many
from .._result import Result
from . import advection_diffusion, extended_xor, mackey_glass, reaction_diffusion
from ._competitors import APPENDIX, COMPETITORS, MAIN, Competitor
from ._experiment import Experiment
from ._store import Store, Stored

PROBLEMS: dict[str, Callable[..., Experiment]] = {
    "mackey-glass": mackey_glass.experiment,
    "extended-xor": extended_xor.experiment,
    "advection-diffusion": advection_diffusion.experiment,
    "reaction-diffusion": reaction_diffusion.experiment,
}
TIMED = 3
"""So many starts run one at a time, so that their seconds are a single run's; the rest share the cores."""
GROUP = 10
"""So many starts are kept at a time: what a kill may lose."""


@dataclass(frozen=True)
class Plan:
    """A problem with the methods that run on it."""

    experiment: Experiment
    competitors: tuple[Competitor, ...]


def plan(problems: Sequence[str], methods: str | Sequence[str], steps: int | None) -> list[Plan]:
    """What to run: "main" and "all" are the figures of section 5, and those of the appendix too."""
    plans = []
    for name in problems or PROBLEMS:
        experiment = PROBLEMS[name](**({} if steps is None else {"max_steps": steps}))
        if methods == "main":
            labels = MAIN[name]
        elif methods == "all":
            labels = [*MAIN[name], *APPENDIX[name]]
        else:
            labels = methods
        plans.append(Plan(experiment, tuple(COMPETITORS[label] for label in labels)))
    return plans


def _groups(seeds: Sequence[int]) -> Iterator[tuple[list[int], bool]]:
    """Seeds in groups, and whether the group is timed; a seed is timed or not whatever else runs."""
    for timed in (True, False):
        chosen = [seed for seed in seeds if (seed < TIMED) == timed]
        for first in range(0, len(chosen), GROUP):
            yield chosen[first : first + GROUP], timed


def run_all(plans: list[Plan], seeds: int, store: Store, tell: Callable[[str, int], Any]) -> list[Stored]:
    """Run what is missing, keep it, and return every run; `tell(what, count)` reports progress."""
    runs = []
    for item in plans:
        problem = item.experiment
        for competitor in item.competitors:
            what = f"{problem.title}: {competitor.label}"
            tell(what, 0)
            for group, timed in _groups(range(seeds)):
                missing = [seed for seed in group if (problem.name, competitor.name, seed) not in store]
                if missing:
                    _run(problem, competitor, missing, timed, store)
                tell(what, len(group))
            runs += [store.load(problem.name, competitor.name, seed) for seed in range(seeds)]
    return runs


def _run(problem: Experiment, competitor: Competitor, seeds: list[int], timed: bool, store: Store) -> None:
    solution = minimise_many(
        problem.loss,
        problem.D,
        jnp.stack([problem.start(seed) for seed in seeds]),
        competitor.make(),
        max_steps=problem.max_steps,
        target=problem.target,
        metrics=problem.metrics,
        progress=False,
        threads=1 if timed else None,
    )
    per_iterate = {"loss", "seconds", *problem.metrics}
    for row, seed in enumerate(seeds):
        steps = int(solution.steps[row])
        history = {
            name: column[row, : steps + 1 if name in per_iterate else steps]
            for name, column in solution.history.items()
        }
        store.save(Stored(problem.name, competitor.name, seed, solution.result[row].name, timed, history))


@dataclass(frozen=True)
class Summary:
    """One line of the closing table."""

    problem: str
    method: str
    iterations: float
    """Median over starts; a start that does not reach the target counts as infinite."""
    low: float
    high: float
    """The 10 and 90 % quantiles."""
    seconds: float
    """Median over the timed starts, likewise."""
    success: float


def summarise(runs: list[Stored]) -> list[Summary]:
    """Iterations and seconds to the target, and success rates, of every problem and method."""
    summaries = []
    for problem, method in dict.fromkeys((run.problem, run.method) for run in runs):
        chosen = [run for run in runs if (run.problem, run.method) == (problem, method)]
        reached = [run.result == Result.TARGET_REACHED.name for run in chosen]
        pairs = list(zip(chosen, reached, strict=True))
        iterations = [run.history["loss"].size - 1 if ok else np.inf for run, ok in pairs]
        seconds = [run.history["seconds"][-1] if ok else np.inf for run, ok in pairs if run.timed]
        # "higher" and "lower" pick values that occurred, so that infinity is never averaged.
        quantile = lambda values, q: float(np.quantile(values, q, method="higher" if q > 0.5 else "lower"))
        summaries.append(
            Summary(
                problem,
                method,
                quantile(iterations, 0.5),
                quantile(iterations, 0.1),
                quantile(iterations, 0.9),
                quantile(seconds, 0.5),
                float(np.mean(reached)),
            )  # fmt: skip
        )
    return summaries


def settings(steps: int | None) -> dict[str, Any]:
    """What makes two runs of the same problem, method and seed comparable."""
    return {"steps": steps, **{name: make().settings for name, make in PROBLEMS.items()}}


def open_store(out: pathlib.Path, steps: int | None) -> Store:
    """The store below a folder, for runs with these settings."""
    return Store(out, settings(steps))
