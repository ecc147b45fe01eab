r"""The claims of the paper's section 5 and appendix, each a computed check on finished runs.

A claim is a list of findings, one for every method or problem it speaks of. A finding holds if the whole 10-90 %
interval of its statistic, over resamplings of the starts, lies within the claim's bounds; it fails if the whole
interval lies outside; else the starts decide. A claim is *reproduced* if all its findings hold, *not reproduced* if
all fail, and otherwise *depends*, and says on what.

The paper's words are read thus: "half" and "twice" as printed; "around x" within 20 % of x (savings may be larger);
"similar" and "matches" as a ratio between 0.8 and 1.25; "diverges" as the fate of at least half of the starts, where a
run diverged if it failed or ended with a larger loss than it began with. Iterations and seconds are medians to the
problem's target, and a start that does not reach it counts as infinite.

```python
for judged in judge(results):
    print(judged.claim.name, judged.verdict, judged.measured)
```
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._results import MissingRuns, Results

MG, XOR, AD, RD = "mackey-glass", "extended-xor", "advection-diffusion", "reaction-diffusion"
HALF, AROUND_HALF, AROUND_TWICE, SIMILAR = 0.5, 0.6, (1.6, 2.4), (0.8, 1.25)
EARLY = 20
"""The iterations that the paper calls the first ones."""


class Verdict(enum.Enum):
    """What the runs say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    DEPENDS = "depends"
    NOT_JUDGED = "not judged"

    def __str__(self) -> str:
        return self.value


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


@dataclass(frozen=True)
class Claim:
    """A statement of the paper in our words, where it stands, and its check."""

    name: str
    place: str
    text: str
    check: Callable[[Results], Iterable[Finding]]
    aspect: str = "what is measured"
    """What differs between findings about the same method."""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the evidence."""

    claim: Claim
    verdict: Verdict
    on: str
    """What it depends on; else empty."""
    findings: tuple[Finding, ...]
    measured: str


# Statistics ----------------------------------------------------------------------------------------------------------


def _interval(statistic: Callable[..., Any], *samples: np.ndarray) -> tuple[float, float, float]:
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


def _bounded(subject: str, words: str, interval: tuple[float, float, float], least: float, most: float) -> Finding:
    value, low, high = interval
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
    interval = _interval(quotient, measure(problem, a, loosen), measure(problem, b, loosen))
    words = "" if loosen == 1.0 else f" to {loosen:g} times the target"
    return _bounded(a, f"{a}/{b} {of}{words}", interval, least, most)


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
    interval = _interval(gap, _error(results, problem, a), _error(results, problem, b))
    return _bounded(a, f"{a}/{b} loss over the first {EARLY} iterations", interval, least, most)


def _rises(results: Results, problem: str, method: str) -> np.ndarray:
    """Of every start, the share of steps after the first iterations that raise the loss."""
    later = [run.history["loss"][EARLY:] for run in results.runs(problem, method)]
    return np.array([np.mean(np.diff(loss) > 0) if loss.size > 1 else 0.0 for loss in later])


def oscillates(results: Results, problem: str, a: str, b: str) -> Finding:
    """Whether a raises the loss in a larger share of its later steps than b."""
    difference = lambda x, y: np.mean(x, axis=-1) - np.mean(y, axis=-1)
    rises = [_rises(results, problem, method) for method in (a, b)]
    words = f"{a} minus {b}: share of later steps that raise the loss"
    return _bounded(a, words, _interval(difference, *rises), 1e-12, np.inf)


def share_diverged(results: Results, problem: str, method: str, least: float = 0.0, most: float = 1.0) -> Finding:
    """The share of starts that diverge."""
    interval = _interval(lambda x: np.mean(x, axis=-1), results.diverged(problem, method))
    return _bounded(method, f"{method} share diverged", interval, least, most)


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


def _each(methods: Iterable[str], finding: Callable[[Results, str], Finding]) -> Callable[[Results], list[Finding]]:
    """A check that asks the same of several methods."""
    return lambda results: [finding(results, method) for method in methods]


# The claims ----------------------------------------------------------------------------------------------------------

HEAVY = ("NHB", "NHB-FD", "QNHB")
GN_MOMENTUM = ("GN-NHB", "GN-NHB-FD", "GN-QNHB", "GN-NN-II", "GN-NN-II-FD")
# The paper exempts NN-II-FD from its first claims: it "slows down like NGD" or diverges.
MOMENTUM = (*HEAVY, "NN-II")

CLAIMS = (
    Claim(
        "mackey-glass-iterations", "5.2",
        "Momentum methods reach the target in less than half of NGD's iterations.",
        _each(MOMENTUM, lambda r, m: faster(r, MG, m, "NGD", most=HALF)),
    ),
    Claim(
        "mackey-glass-time", "5.2",
        "Momentum methods reach the target in less than half of NGD's time.",
        _each(MOMENTUM, lambda r, m: faster(r, MG, m, "NGD", "seconds", most=HALF)),
    ),
    Claim(
        "mackey-glass-approximations", "5.2",
        "NHB-FD and QNHB need more iterations than NHB and fewer than NGD.",
        _each(("NHB-FD", "QNHB"), lambda r, m: slower(r, MG, m, "NHB") & faster(r, MG, m, "NGD")),
    ),
    Claim(
        "mackey-glass-nesterov-early", "5.2",
        "NN-II is faster than NHB at first.",
        lambda r: [early(r, MG, "NN-II", "NHB", 0.0, 1.0)],
    ),
    Claim(
        "mackey-glass-nesterov-oscillates", "5.2",
        "Later NN-II oscillates, which slows its convergence.",
        lambda r: [oscillates(r, MG, "NN-II", "NHB") & slower(r, MG, "NN-II", "NHB")],
    ),
    Claim(
        "mackey-glass-difference-follows", "5.2",
        "NN-II-FD behaves like NN-II over the first 20 iterations.",
        lambda r: [early(r, MG, "NN-II-FD", "NN-II", *SIMILAR)],
    ),
    Claim(
        "mackey-glass-difference-slows", "5.2",
        "Then NN-II-FD slows down, to iterations and time like NGD's.",
        lambda r: [
            slower(r, MG, "NN-II-FD", "NN-II"),
            similar(r, MG, "NN-II-FD", "NGD"),
            similar(r, MG, "NN-II-FD", "NGD", "seconds"),
        ],
    ),
    Claim(
        "mackey-glass-nesterov-one", "5.2, appendix",
        "NN-I matches NN-II in iterations at about twice the cost of an iteration, and NGD in time.",
        lambda r: [
            similar(r, MG, "NN-I", "NN-II"),
            cost(r, MG, "NN-I", "NN-II", *AROUND_TWICE),
            similar(r, MG, "NN-I", "NGD", "seconds"),
        ],
    ),
    Claim(
        "xor-iterations", "5.3",
        "Momentum methods need around half of NGD's iterations.",
        _each(MOMENTUM, lambda r, m: ratio(r, XOR, m, "NGD", most=AROUND_HALF)),
    ),
    Claim(
        "xor-time", "5.3",
        "Momentum methods need around 20 % less time than NGD.",
        _each(MOMENTUM, lambda r, m: ratio(r, XOR, m, "NGD", "seconds", most=0.8 * 1.2)),
    ),
    Claim(
        "xor-line-search", "5.3",
        "Line search needs fewer iterations than NGD and about twice its time.",
        lambda r: [
            faster(r, XOR, "LS-NGD", "NGD"),
            ratio(r, XOR, "LS-NGD", "NGD", "seconds", *AROUND_TWICE),
        ],
    ),
    Claim(
        "xor-gauss-newton", "5.3",
        "GN-NGD, with the metric of the loss's Hessian, is faster than NGD.",
        lambda r: [faster(r, XOR, "GN-NGD", "NGD")],
    ),
    Claim(
        "xor-heavy-balls-alike", "5.3",
        "All natural heavy balls accelerate NGD, and behave similarly.",
        lambda r: [
            faster(r, XOR, "NHB", "NGD"),
            *(faster(r, XOR, m, "NGD") & similar(r, XOR, m, "NHB") for m in ("NHB-FD", "QNHB")),
        ],
    ),
    Claim(
        "xor-nesterov-fastest", "5.3",
        "NN-II is the fastest of the methods with W = X.",
        _each(HEAVY, lambda r, m: faster(r, XOR, "NN-II", m)),
    ),
    Claim(
        "xor-nesterov-matches-gauss-newton", "5.3",
        "NN-II matches GN-NGD at convergence, in iterations and time.",
        lambda r: [
            similar(r, XOR, "NN-II", "GN-NGD"),
            similar(r, XOR, "NN-II", "GN-NGD", "seconds"),
        ],
    ),
    Claim(
        "xor-difference-diverges", "5.3",
        "NN-II-FD diverges.",
        lambda r: [diverges(r, XOR, "NN-II-FD")],
    ),
    Claim(
        "xor-half-momentum-cures", "5.3",
        "Half of beta_k cures NN-II-FD, and makes it slower than NN-II.",
        lambda r: [share_diverged(r, XOR, "NN-II-FD 0.5", most=0.1), slower(r, XOR, "NN-II-FD 0.5", "NN-II")],
    ),
    Claim(
        "xor-gauss-newton-momentum", "5.3",
        "All Gauss-Newton momentum methods accelerate GN-NGD.",
        _each(GN_MOMENTUM, lambda r, m: faster(r, XOR, m, "GN-NGD")),
    ),
    Claim(
        "xor-gauss-newton-margin", "5.3",
        "They do so by a smaller margin than their counterparts accelerate NGD.",
        _each(MOMENTUM, lambda r, m: _margin(r, m)),
    ),
    Claim(
        "xor-gauss-newton-steepest", "5.3",
        "GN-NHB and GN-NN-II are the fastest of them.",
        lambda r: [
            faster(r, XOR, best, "GN-NHB-FD") & faster(r, XOR, best, "GN-QNHB") for best in ("GN-NHB", "GN-NN-II")
        ],
    ),
    Claim(
        "xor-gauss-newton-difference-stable", "5.3",
        "GN-NN-II-FD does not blow up (the appendix says the contrary).",
        lambda r: [share_diverged(r, XOR, "GN-NN-II-FD", most=0.1)],
    ),
    Claim(
        "xor-gauss-newton-nesterov-diverges", "appendix",
        "All Gauss-Newton versions of NN-II diverge (section 5 says the contrary of GN-NN-II-FD).",
        _each(("GN-NN-II", "GN-NN-II-FD", "GN-QNN-II"), lambda r, m: diverges(r, XOR, m)),
    ),
    Claim(
        "advection-diffusion-iterations", "5.4.1",
        "Momentum cuts the iterations by around half.",
        lambda r: [
            ratio(r, AD, m, "NGD", most=AROUND_HALF, loosen=loosen) for loosen in (1, 100) for m in MOMENTUM
        ],
        aspect="the target, which the paper does not state",
    ),
    Claim(
        "advection-diffusion-time", "5.4.1",
        "Momentum cuts the time by around half.",
        lambda r: [
            ratio(r, AD, m, "NGD", "seconds", most=AROUND_HALF, loosen=loosen) for loosen in (1, 100) for m in MOMENTUM
        ],
        aspect="the target, which the paper does not state",
    ),
    Claim(
        "reaction-diffusion-momentum", "5.4.2",
        "The heavy balls accelerate NGD.",
        _each(HEAVY, lambda r, m: faster(r, RD, m, "NGD")),
    ),
    Claim(
        "reaction-diffusion-nesterov", "5.4.2",
        "The Nesterov methods diverge or behave like NGD.",
        _each(("NN-II", "NN-II-FD"), lambda r, m: diverges(r, RD, m) | similar(r, RD, m, "NGD")),
    ),
    Claim(
        "reaction-diffusion-scaled", "5.4.2",
        "With 0.75 beta_k the Nesterov methods accelerate NGD.",
        _each(("NN-II 0.75", "NN-II-FD 0.75"), lambda r, m: faster(r, RD, m, "NGD")),
    ),
    Claim(
        "nesterov-one-time", "appendix",
        "NN-I never reaches the target in less time than NGD.",
        lambda r: [
            slower(r, MG, "NN-I", "NGD", "seconds"),
            slower(r, XOR, "NN-I", "NGD", "seconds"),
            slower(r, XOR, "GN-NN-I", "GN-NGD", "seconds"),
        ],
    ),
    Claim(
        "nesterov-one-two", "appendix",
        "On the classification problem NN-I and NN-II need similar iterations, NN-I twice the cost of one.",
        lambda r: [similar(r, XOR, "NN-I", "NN-II"), cost(r, XOR, "NN-I", "NN-II", *AROUND_TWICE)],
    ),
    Claim(
        "quasi-nesterov", "appendix",
        "Quasi-Nesterov methods blow up, or need more iterations than those with the functional difference.",
        lambda r: [
            diverges(r, problem, f"{gn}Q{scheme}") | slower(r, problem, f"{gn}Q{scheme}", f"{gn}{scheme}-FD")
            for problem, gn in ((MG, ""), (XOR, ""), (XOR, "GN-"))
            for scheme in ("NN-I", "NN-II")
        ],
    ),
)  # fmt: skip
"""Every quantitative or ordering statement of section 5 and the appendix."""


def _margin(results: Results, method: str) -> Finding:
    """GN-method over GN-NGD against method over NGD, in iterations: above 1 where the margin is smaller."""
    median = lambda x: np.median(x, axis=-1)
    quotient = lambda a, b, c, d: median(a) / median(b) / (median(c) / median(d))
    labels = (f"GN-{method}", "GN-NGD", method, "NGD")
    interval = _interval(quotient, *(results.iterations(XOR, label) for label in labels))
    return _bounded(f"GN-{method}", f"(GN-{method}/GN-NGD)/({method}/NGD) iterations", interval, 1.0, np.inf)


def _verdict(findings: tuple[Finding, ...], aspect: str) -> tuple[Verdict, str]:
    answers = {finding.holds for finding in findings}
    if answers == {True}:
        return Verdict.REPRODUCED, ""
    if answers == {False}:
        return Verdict.NOT_REPRODUCED, ""
    on = []
    by_method = [{f.holds for f in findings if f.subject == subject} for subject in {f.subject for f in findings}]
    if False in answers and len({frozenset(holds) for holds in by_method}) > 1:
        on.append("the method")
    if any({True, False} <= holds for holds in by_method):
        on.append(aspect)
    if None in answers:
        on.append("the starts")
    return Verdict.DEPENDS, " and ".join(on)


def _judge(claim: Claim, results: Results) -> Judged:
    try:
        findings = tuple(claim.check(results))
    except MissingRuns as missing:
        return Judged(claim, Verdict.NOT_JUDGED, "", (), f"needs {missing.args[0]}")
    verdict, on = _verdict(findings, claim.aspect)
    mark = {True: "✓", False: "✗", None: "?"}
    return Judged(claim, verdict, on, findings, "; ".join(f"{mark[f.holds]} {f.text}" for f in findings))


def judge(results: Results) -> list[Judged]:
    """A verdict on every claim; "not judged" where it needs methods that were not run."""
    return [_judge(claim, results) for claim in CLAIMS]
