"""SciPy's own tests of `least_squares`, with `riesz.fit` in its place: they come with SciPy, and run as they are."""

import importlib.util
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

import compiling

SUITE = "scipy.optimize.tests.test_least_squares"
COUNTS = "calls are counted: riesz traces a function, and counts steps"
SPARSE = "Jacobians are sparse matrices or operators, and results too: riesz's are dense"
OPTIONS = "it refuses an option that riesz does not have: x_scale, tr_solver, tr_options, jac_sparsity, ..."
METHODS = "it refuses what one of SciPy's methods cannot do, and riesz has one method that can"
REFUSALS = "it wants another kind of error, or a refusal where riesz takes more than SciPy does"
NUMBERS = "numbers differ"
LISTED: dict[str, str] = {}
"""Why each of the tests that do not pass does not."""


def outcomes(folder):
    """The tests of the suite by name, and whether they passed."""
    report = folder / "report.xml"
    here = pathlib.Path(__file__).parent
    path = {"PYTHONPATH": f"{here}:{here.parent / 'src'}"}
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "scipy_shape"]
    command += ["--pyargs", SUITE, f"--junitxml={report}", "--tb=line"]
    done = subprocess.run(
        command, cwd=folder, env=compiling.ordinary_environment() | path, capture_output=True, text=True, check=False
    )
    assert report.exists(), f"SciPy's tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    cases = xml.parse(report).getroot().iter("testcase")
    name = lambda case: f"{case.get('classname').rpartition('.')[2]}::{case.get('name')}"
    return {name(case): not any(child.tag in ("failure", "error") for child in case) for case in cases}


@pytest.mark.slow
def test_the_suite_of_least_squares_passes_but_for_what_is_listed(tmp_path):
    assert importlib.util.find_spec(SUITE), f"SciPy must come with its tests, but there is no {SUITE}."
    found = outcomes(tmp_path)
    assert len(found) >= 100, f"SciPy's suite has 126 tests, but only {len(found)} were found."
    failed = {name for name, passed in found.items() if not passed}
    assert failed == set(LISTED), (
        f"not listed, but they fail: {sorted(failed - set(LISTED))}; listed, but they pass or are none: "
        f"{sorted(set(LISTED) - failed)}"
    )
    wrong = sum(reason == NUMBERS for reason in LISTED.values())
    checked = len(found) - sum(reason != NUMBERS for reason in LISTED.values())
    assert wrong <= 0.05 * checked, f"of {checked} tests that check numbers, {wrong} fail."
