"""What figures, tables and claims ask of finished runs: iterations, seconds, medians and bands."""

from dataclasses import dataclass

import numpy as np

from .._methods.result import Result
from ._store import Stored


class MissingRuns(KeyError):
    """A question about a method that has not been run."""


@dataclass(frozen=True)
class Band:
    """The median of something over starts, with its 10 and 90 % quantiles."""

    low: np.ndarray
    median: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Band":
        """Over the first axis. The quantiles are values that occurred, so that infinity is never averaged."""
        low = np.quantile(values, 0.1, axis=0, method="lower")
        high = np.quantile(values, 0.9, axis=0, method="higher")
        return cls(low, np.median(values, axis=0), high)


def _reached(run: Stored) -> bool:
    return run.result == Result.TARGET_REACHED.name


def _iterations(run: Stored, loosen: float) -> float:
    """The first iterate at which every metric with a target is at most `loosen` times it."""
    targets = run.settings["target"].items()
    reached = np.all([run.history[name] <= loosen * target for name, target in targets], axis=0)
    return float(np.argmax(reached)) if reached.any() else np.inf


def diverged(run: Stored) -> bool:
    """Whether the run failed, or ended with a larger loss than it began with."""
    loss = run.history["loss"]
    return Result[run.result].failed or not loss[-1] <= loss[0]


class Results:
    """The runs of one reproduction, by problem and method."""

    def __init__(self, runs: list[Stored]):
        self._runs: dict[tuple[str, str], list[Stored]] = {}
        for run in runs:
            self._runs.setdefault((run.problem, run.method), []).append(run)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._runs

    def __iter__(self):
        return iter(self._runs)

    def runs(self, problem: str, method: str) -> list[Stored]:
        """The runs of a method on a problem, in the order of their seeds."""
        if (problem, method) not in self._runs:
            raise MissingRuns(f"{method} on {problem}")
        return self._runs[problem, method]

    def starts(self) -> int:
        """The largest number of starts of any method."""
        return max((len(runs) for runs in self._runs.values()), default=0)

    def iterations(self, problem: str, method: str, loosen: float = 1.0) -> np.ndarray:
        """To the target, or to `loosen` times the target, for every start; infinite where it was not reached."""
        return np.array([_iterations(run, loosen) for run in self.runs(problem, method)])

    def seconds_per_iteration(self, problem: str, method: str) -> float:
        """The median over all steps of the starts that ran alone; compilation and metrics are not in it.

        Starts that diverged count only where all did: factorising overflowing numbers takes another time.
        """
        alone = [run for run in self.runs(problem, method) if run.timed]
        sound = [run for run in alone if not diverged(run)] or alone
        steps = np.concatenate([np.zeros(0), *(np.diff(run.history["seconds"]) for run in sound)])
        return float(np.median(steps)) if steps.size else float("nan")

    def seconds(self, problem: str, method: str, loosen: float = 1.0) -> np.ndarray:
        """As `iterations`, at the method's seconds per iteration."""
        return self.iterations(problem, method, loosen) * self.seconds_per_iteration(problem, method)

    def success(self, problem: str, method: str) -> tuple[int, int]:
        """How many starts reached the target, and of how many."""
        runs = self.runs(problem, method)
        return sum(map(_reached, runs)), len(runs)

    def diverged(self, problem: str, method: str) -> np.ndarray:
        """For every start, whether it diverged."""
        return np.array([diverged(run) for run in self.runs(problem, method)])

    def values(self, problem: str, method: str, column: str) -> np.ndarray:
        """A column of the history, (starts, longest): stopped runs keep their last value, failed ones are infinite."""
        runs = self.runs(problem, method)
        longest = max(run.steps for run in runs) + 1
        rows = np.full((len(runs), longest), np.inf)
        for row, run in zip(rows, runs, strict=True):
            values = run.history[column]
            row[: values.size] = values
            if not Result[run.result].failed:
                row[values.size :] = values[-1]
        return np.where(np.isnan(rows), np.inf, rows)

    def band(self, problem: str, method: str, column: str) -> Band:
        """Median and 10-90 % band of a column, at every iterate."""
        return Band.of(self.values(problem, method, column))
