"""Findings: one measurement on finished runs each, with its interval over the starts, against bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._results import Results

SIMILAR = (0.8, 1.25)
EARLY = 20
"""The iterations that the paper calls the first ones."""


@dataclass(frozen=True)
class Finding:
    """One measurement, and whether the claim holds by it; None where that depends on the starts."""

    subject: str
    text: str
    holds: bool | None

    def __and__(self, other: "Finding") -> "Finding":
        holds = False if False in (self.holds, other.holds) else None if None in (self.holds, other.holds) else True
        return Finding(self.subject, f"{self.text}, {other.text}", holds)

    def __or__(self, other: "Finding") -> "Finding":
        holds = True if True in (self.holds, other.holds) else None if None in (self.holds, other.holds) else False
        return Finding(self.subject, f"{self.text}, {other.text}", holds)


def interval(statistic: Callable[..., Any], *samples: np.ndarray) -> tuple[float, float, float]:
    """A statistic of samples over the same starts, and its 10-90 % interval over 1000 resamplings of the starts.

    `statistic` works over the last axis but one; what is not a number (infinite over infinite) counts as infinite.
    """
    starts = min(len(sample) for sample in samples)
    picks = np.random.default_rng(0).integers(starts, size=(1000, starts))
    known = lambda value: np.where(np.isnan(value), np.inf, value)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = known(statistic(*(sample[:starts] for sample in samples)))
        resampled = known(statistic(*(sample[picks] for sample in samples)))
    low, high = np.quantile(resampled, (0.1, 0.9), method="nearest")
    return float(value), float(low), float(high)


def _bounded(subject: str, words: str, found: tuple[float, float, float], least: float, most: float) -> Finding:
    value, low, high = found
    shown = lambda number: "∞" if np.isinf(number) else f"{number:.2f}"
    holds = True if least <= low and high <= most else False if high < least or low > most else None
    return Finding(subject, f"{words} {shown(value)} ({shown(low)} to {shown(high)})", holds)


def ratio(
    results: Results,
    problem: str,
    a: str,
    b: str,
    of: str = "iterations",
    least: float = 0.0,
    most: float = np.inf,
    loosen: float = 1.0,
) -> Finding:
    """Median iterations or seconds to the target, or to `loosen` times the target, of a over b."""
    measure = {"iterations": results.iterations, "seconds": results.seconds}[of]
    quotient = lambda x, y: np.median(x, axis=-1) / np.median(y, axis=-1)
    found = interval(quotient, measure(problem, a, loosen), measure(problem, b, loosen))
    words = "" if loosen == 1.0 else f" to {loosen:g} times the target"
    return _bounded(a, f"{a}/{b} {of}{words}", found, least, most)


def cost(results: Results, problem: str, a: str, b: str, least: float, most: float) -> Finding:
    """Seconds per iteration, of a over b: every step of the timed starts counts alike."""
    value = results.seconds_per_iteration(problem, a) / results.seconds_per_iteration(problem, b)
    return Finding(a, f"{a}/{b} seconds per iteration {value:.2f}", bool(least <= value <= most))


def _error(results: Results, problem: str, method: str) -> np.ndarray:
    """log10 of the training error over the first iterations, (starts, EARLY)."""
    values = results.values(problem, method, "loss")
    padded = np.pad(values, ((0, 0), (0, max(0, EARLY + 1 - values.shape[1]))), mode="edge")
    return np.log10(padded[:, 1 : EARLY + 1])


def early(results: Results, problem: str, a: str, b: str, least: float, most: float) -> Finding:
    """The loss of a over the loss of b, medians, as a geometric mean over the first iterations."""
    gap = lambda x, y: 10 ** np.mean(np.median(x, axis=-2) - np.median(y, axis=-2), axis=-1)
    found = interval(gap, _error(results, problem, a), _error(results, problem, b))
    return _bounded(a, f"{a}/{b} loss over the first {EARLY} iterations", found, least, most)


def _rises(results: Results, problem: str, method: str) -> np.ndarray:
    """Of every start, the share of steps after the first iterations that raise the loss."""
    later = [run.history["loss"][EARLY:] for run in results.runs(problem, method)]
    return np.array([np.mean(np.diff(loss) > 0) if loss.size > 1 else 0.0 for loss in later])


def oscillates(results: Results, problem: str, a: str, b: str) -> Finding:
    """Whether a raises the loss in a larger share of its later steps than b."""
    difference = lambda x, y: np.mean(x, axis=-1) - np.mean(y, axis=-1)
    rises = [_rises(results, problem, method) for method in (a, b)]
    words = f"{a} minus {b}: share of later steps that raise the loss"
    return _bounded(a, words, interval(difference, *rises), 1e-12, np.inf)


def share_diverged(results: Results, problem: str, method: str, least: float = 0.0, most: float = 1.0) -> Finding:
    """The share of starts that diverge."""
    found = interval(lambda x: np.mean(x, axis=-1), results.diverged(problem, method))
    return _bounded(method, f"{method} share diverged", found, least, most)


def diverges(results: Results, problem: str, method: str) -> Finding:
    """At least half of the starts diverge."""
    return share_diverged(results, problem, method, least=0.5)


def faster(results: Results, problem: str, a: str, b: str, of: str = "iterations", most: float = 1.0) -> Finding:
    """The median of a is below that of b, or below `most` of it."""
    return ratio(results, problem, a, b, of, most=np.nextafter(most, 0))


def slower(results: Results, problem: str, a: str, b: str, of: str = "iterations") -> Finding:
    """The median of a is at least that of b."""
    return ratio(results, problem, a, b, of, least=1.0)


def similar(results: Results, problem: str, a: str, b: str, of: str = "iterations") -> Finding:
    """The medians differ by at most a quarter."""
    return ratio(results, problem, a, b, of, *SIMILAR)


def margin(results: Results, problem: str, method: str) -> Finding:
    """GN-method over GN-NGD against method over NGD, in iterations: above 1 where the margin is smaller."""
    median = lambda x: np.median(x, axis=-1)
    quotient = lambda a, b, c, d: median(a) / median(b) / (median(c) / median(d))
    labels = (f"GN-{method}", "GN-NGD", method, "NGD")
    found = interval(quotient, *(results.iterations(problem, label) for label in labels))
    return _bounded(f"GN-{method}", f"(GN-{method}/GN-NGD)/({method}/NGD) iterations", found, 1.0, np.inf)
