"""A verdict follows from the runs: made-up runs that fulfil a claim, break it, or leave it open."""

import re

import numpy as np
import pytest

from riesz.experiments._competitors import COMPETITORS, FIGURES
from riesz.experiments._findings import Finding, interval, ratio
from riesz.experiments._results import Band, Results
from riesz.experiments.claims import CLAIMS, Verdict, judge
from runs import falling, results, stored

MAIN = ("NGD", "NHB", "NHB-FD", "QNHB", "NN-II", "NN-II-FD")


def verdict(name, runs):
    (judged,) = (judged for judged in judge(runs) if judged.claim.name == name)
    return judged


def test_a_claim_is_reproduced_not_reproduced_or_depends():
    fast = results({"NGD": 200, **dict.fromkeys(MAIN[1:], 80)})
    slow = results({"NGD": 200, **dict.fromkeys(MAIN[1:], 180)})
    mixed = results({"NGD": 200, **dict.fromkeys(MAIN[1:], 80), "QNHB": 180})
    assert verdict("mackey-glass-iterations", fast).verdict is Verdict.REPRODUCED
    assert verdict("mackey-glass-iterations", slow).verdict is Verdict.NOT_REPRODUCED
    judged = verdict("mackey-glass-iterations", mixed)
    assert (judged.verdict, judged.on) == (Verdict.DEPENDS, "the method")
    assert [finding.holds for finding in judged.findings] == [True, True, False, True]
    assert "✗ QNHB/NGD iterations 0.90" in judged.measured


def test_time_is_judged_by_the_cost_of_an_iteration():
    """80 iterations of thrice the cost are no faster than 200."""
    costly = results({"NGD": 200, **dict.fromkeys(MAIN[1:], 80)}, each=dict.fromkeys(MAIN[1:], 0.03))
    assert verdict("mackey-glass-iterations", costly).verdict is Verdict.REPRODUCED
    assert verdict("mackey-glass-time", costly).verdict is Verdict.NOT_REPRODUCED


def test_missing_runs_are_named_and_not_judged():
    judged = verdict("mackey-glass-nesterov-one", results(dict.fromkeys(MAIN, 100)))
    assert judged.verdict is Verdict.NOT_JUDGED
    assert judged.measured == "needs NN-I on mackey-glass"


def test_divergence_is_counted():
    runs = results({"NN-II-FD": 50, "GN-NN-II-FD": 50}, problem="extended-xor", failed=("NN-II-FD", "GN-NN-II-FD"))
    assert verdict("xor-difference-diverges", runs).verdict is Verdict.REPRODUCED
    assert verdict("xor-gauss-newton-difference-stable", runs).verdict is Verdict.NOT_REPRODUCED
    calm = results({"NN-II-FD": 50, "GN-NN-II-FD": 50}, problem="extended-xor")
    assert verdict("xor-difference-diverges", calm).verdict is Verdict.NOT_REPRODUCED
    assert verdict("xor-gauss-newton-difference-stable", calm).verdict is Verdict.REPRODUCED


def test_starts_that_disagree_leave_a_claim_open():
    """Half of the starts of NHB are twice as fast as NGD's, half as slow as they."""
    runs = [stored(method="NGD", seed=seed, loss=falling(100)) for seed in range(10)]
    runs += [stored(method="NHB", seed=seed, loss=falling(30 if seed % 2 else 100)) for seed in range(10)]
    finding = ratio(Results(runs), "mackey-glass", "NHB", "NGD", most=0.5)
    assert finding.holds is None
    assert re.fullmatch(r"NHB/NGD iterations 0\.65 \(0\.30 to 1\.00\)", finding.text)


def test_failures_count_as_infinite_in_a_ratio():
    reached = [stored(method="NGD", seed=seed) for seed in range(5)]
    missed = [stored(method="NHB", seed=seed, result="STEP_LIMIT") for seed in range(5)]
    assert ratio(Results(reached + missed), "mackey-glass", "NHB", "NGD").text.startswith("NHB/NGD iterations ∞")
    assert ratio(Results(reached + missed), "mackey-glass", "NGD", "NHB").text.startswith("NGD/NHB iterations 0.00")
    neither = [stored(method="NGD", seed=seed, result="STEP_LIMIT") for seed in range(5)]
    assert ratio(Results(neither + missed), "mackey-glass", "NHB", "NGD", most=0.5).holds is False


def test_a_claim_may_depend_on_the_target():
    """NHB is thrice as fast as NGD to a hundred times the target, and then crawls to the target itself."""
    crawling = np.concatenate([np.geomspace(1.0, 1e-3, 41), np.geomspace(9e-4, 1e-5, 79)])
    runs = []
    for method in ("NGD", "NHB", "NHB-FD", "QNHB", "NN-II"):
        loss = falling(120) if method == "NGD" else crawling
        runs += [stored("advection-diffusion", method, seed, loss=loss) for seed in range(4)]
    judged = verdict("advection-diffusion-iterations", Results(runs))
    assert (judged.verdict, judged.on) == (Verdict.DEPENDS, "the target, which the paper does not state")
    assert [finding.holds for finding in judged.findings] == [False] * 4 + [True] * 4


def test_the_interval_is_that_of_the_median():
    """Against the exact distribution: of 1000 resamplings of 0..100, the median's 10 % quantile is near 44."""
    value, low, high = interval(lambda x: np.median(x, axis=-1), np.arange(101.0))
    assert value == 50.0
    # The order statistics whose binomial probabilities bracket 10 and 90 %: 50.5 -+ 1.28 sqrt(101)/2.
    assert low == pytest.approx(43.5, abs=1.5) and high == pytest.approx(56.5, abs=1.5)


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [(True, True, True, True), (True, False, False, True), (True, None, None, True), (False, None, False, None)],
)
def test_findings_combine_as_three_valued_logic(a, b, both, either):
    first, second = Finding("x", "p", a), Finding("x", "q", b)
    assert (first & second).holds is both and (second & first).holds is both
    assert (first | second).holds is either and (second | first).holds is either


def test_every_claim_can_be_judged_by_the_methods_of_the_figures():
    """With all methods of all figures run, no claim waits for a run."""
    runs = []
    for figure in FIGURES:
        for label in figure.labels:
            runs += [stored(figure.problem, label, seed, loss=np.geomspace(1, 0.1, 40)) for seed in range(3)]
    judged = judge(Results(runs))
    assert [item.claim.name for item in judged] == [claim.name for claim in CLAIMS]
    assert all(item.verdict is not Verdict.NOT_JUDGED and item.findings for item in judged)
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) >= 28
    assert all(claim.text.endswith(".") and claim.place for claim in CLAIMS)
    assert all(label in COMPETITORS for figure in FIGURES for label in figure.labels)


def test_medians_carry_the_last_value_and_failures_are_infinite():
    runs = Results(
        [
            stored(seed=0, loss=[4.0, 1.0]),
            stored(seed=1, loss=[4.0, 3.0, 2.0], result="STEP_LIMIT"),
            stored(seed=2, loss=[4.0, 9.0], result="NONFINITE_STEPS"),
        ]
    )
    np.testing.assert_array_equal(runs.values("mackey-glass", "NGD", "loss"), [[4, 1, 1], [4, 3, 2], [4, 9, np.inf]])
    np.testing.assert_array_equal(runs.band("mackey-glass", "NGD", "loss").median, [4, 3, 2])
    np.testing.assert_array_equal(runs.iterations("mackey-glass", "NGD"), [1, np.inf, np.inf])
    assert runs.success("mackey-glass", "NGD") == (1, 3)
    np.testing.assert_array_equal(runs.diverged("mackey-glass", "NGD"), [False, False, True])


def test_seconds_come_from_the_starts_that_ran_alone():
    runs = Results([stored(seed=0, each=0.1), stored(seed=1, each=0.1), stored(seed=2, each=9.0, timed=False)])
    assert runs.seconds_per_iteration("mackey-glass", "NGD") == pytest.approx(0.1)
    np.testing.assert_allclose(runs.seconds("mackey-glass", "NGD"), 0.3)


def test_diverged_starts_do_not_tell_the_time():
    slow = stored(seed=0, each=0.5, loss=[1.0, 2.0, 3.0], result="STEP_LIMIT")
    assert Results([slow]).seconds_per_iteration("mackey-glass", "NGD") == pytest.approx(0.5)
    assert Results([slow, stored(seed=1)]).seconds_per_iteration("mackey-glass", "NGD") == pytest.approx(0.1)


def test_bands_never_average_infinity():
    band = Band.of(np.array([[1.0], [2.0], [3.0], [4.0], [np.inf]]))
    assert (band.low[0], band.median[0], band.high[0]) == (1.0, 3.0, np.inf)
