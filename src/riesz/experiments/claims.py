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

from ._findings import (
    SIMILAR,
    Finding,
    cost,
    diverges,
    early,
    faster,
    margin,
    oscillates,
    ratio,
    share_diverged,
    similar,
    slower,
)
from ._results import MissingRuns, Results

MG, XOR, AD, RD = "mackey-glass", "extended-xor", "advection-diffusion", "reaction-diffusion"
HALF, AROUND_HALF, AROUND_TWICE = 0.5, 0.6, (1.6, 2.4)


class Verdict(enum.Enum):
    """What the runs say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    DEPENDS = "depends"
    NOT_JUDGED = "not judged"

    def __str__(self) -> str:
        return self.value


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


def _each(methods: Iterable[str], finding: Callable[[Results, str], Finding]) -> Callable[[Results], list[Finding]]:
    """A check that asks the same of several methods."""
    return lambda results: [finding(results, method) for method in methods]


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
        _each(MOMENTUM, lambda r, m: margin(r, XOR, m)),
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
