"""riesz.optimistix: against closed forms, SciPy and the implicit function theorem; in optimistix's own test-suite."""

import dataclasses
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request

import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import pytest
import scipy.optimize

import riesz
from spoken import check_sentence
from test_lapack import calls

X = jnp.linspace(0.0, 2.0, 30)
NOISE = 0.1 * jnp.sin(7 * X)
QUICK = riesz.optimistix.LeastSquares(1e-11, 1e-11, riesz.auto(long=False))
NEWTON = riesz.optimistix.LeastSquares(1e-11, 1e-11, riesz.ngd(step_size=riesz.Constant(1.0)))
"""Gauss-Newton's own steps, which compile fast."""


def curve(y, rate):
    """Residuals in a pytree, of parameters in a pytree, that do not vanish."""
    values = y["scale"] * jnp.exp(-y["rate"][0] * X)
    return {
        "first": (values - 3 * jnp.exp(-rate * X) - NOISE)[:10],
        "rest": (values - 3 * jnp.exp(-rate * X) - NOISE)[10:],
    }


def with_aux(y, rate):
    residuals = curve(y, rate)
    return residuals, {"total": sum(jnp.sum(part**2) for part in residuals.values())}


START = {"scale": jnp.array(1.0), "rate": jnp.array([1.0])}


def rate_found(rate):
    return optimistix.least_squares(curve, NEWTON, START, rate).value["rate"][0]


def flat(y, rate):
    return jnp.concatenate(list(curve({"scale": y[0], "rate": y[1:]}, rate).values()))


def test_the_solution_is_scipys_and_aux_belongs_to_it():
    solver = riesz.optimistix.LeastSquares(1e-9, 1e-9)
    solution = optimistix.least_squares(with_aux, solver, START, jnp.array(0.5), has_aux=True)
    expected = scipy.optimize.least_squares(
        lambda y: np.asarray(flat(jnp.asarray(y), 0.5)), [1.0, 1.0], xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    found = np.append(solution.value["scale"], solution.value["rate"])
    assert solution.result == optimistix.RESULTS.successful
    np.testing.assert_allclose(found, expected.x, rtol=1e-7)
    np.testing.assert_allclose(solution.stats["loss"], expected.cost, rtol=1e-12)
    np.testing.assert_allclose(solution.aux["total"], 2 * solution.stats["loss"], rtol=1e-12)


def test_the_solution_is_differentiated_by_the_implicit_function_theorem():
    """dy/da = -H^-1 d(grad L)/da, with all second derivatives of the residuals."""
    rate = jnp.array(0.5)
    value, slope = jax.jit(jax.value_and_grad(rate_found))(rate)
    scale = jnp.vdot(jnp.exp(-value * X), 3 * jnp.exp(-rate * X) + NOISE) / jnp.sum(jnp.exp(-2 * value * X))
    y = jnp.array([scale, value])
    gradient = lambda y, rate: jax.grad(lambda y: 0.5 * jnp.sum(flat(y, rate) ** 2))(y)
    assert float(jnp.linalg.norm(gradient(y, rate))) < 1e-8
    expected = -jnp.linalg.solve(jax.jacobian(gradient)(y, rate), jax.jacobian(gradient, 1)(y, rate))
    np.testing.assert_allclose(slope, expected[1], rtol=1e-7)


def test_a_batch_is_solved_one_by_one():
    """Each as alone, and no call of LAPACK sees more than one matrix."""
    rates, many = jnp.array([0.2, 0.5, 1.5]), jax.vmap(rate_found)
    step = lambda y, rate: QUICK.step(
        as_optimistix_has_it, {"scale": y, "rate": y[None]}, rate, {}, state(y), frozenset()
    )
    as_optimistix_has_it = lambda y, rate: (curve(y, rate), None)
    shapes = jax.eval_shape(curve, START, rates[0])
    state = lambda y: QUICK.init(
        as_optimistix_has_it, {"scale": y, "rate": y[None]}, None, {}, shapes, None, frozenset()
    )
    found = calls(jax.vmap(step), jnp.ones(3), rates)
    assert found and {batch for _, batch in found} == {1}
    one = jax.jit(rate_found)
    np.testing.assert_allclose(many(rates), jnp.stack([one(rate) for rate in rates]), rtol=1e-9)


def test_linear_least_squares_has_a_closed_form():
    A = jax.random.normal(jax.random.key(0), (12, 3))
    solve = lambda b: optimistix.least_squares(lambda y, b: A @ y - b, NEWTON, jnp.zeros(3), b).value
    b = jnp.arange(12.0)
    np.testing.assert_allclose(jax.jacobian(solve)(b), jnp.linalg.pinv(A), atol=1e-10)
    np.testing.assert_allclose(solve(b), jnp.linalg.pinv(A) @ b, rtol=1e-10)


def test_a_function_that_is_not_a_number_fails_where_it_started():
    solver = riesz.optimistix.LeastSquares(1e-8, 1e-8, riesz.ngd())
    solution = optimistix.least_squares(lambda y, args: jnp.log(-1 - y**2), solver, jnp.ones(2), throw=False)
    assert solution.result == optimistix.RESULTS.nonfinite
    np.testing.assert_array_equal(solution.value, jnp.ones(2))


ENDS = {
    riesz.Result.CONVERGED_GRADIENT: "successful",
    riesz.Result.CONVERGED_STEP: "successful",
    riesz.Result.CONVERGED_LOSS: "successful",
    riesz.Result.STAGNATED: "nonlinear_divergence",
    riesz.Result.UNBOUNDED: "nonlinear_divergence",
    riesz.Result.NONFINITE_STEPS: "nonfinite",
    riesz.Result.RANK_COLLAPSE: "singular",
}


@pytest.mark.parametrize("end", [riesz.Result.RUNNING, *ENDS], ids=lambda end: end.name)
def test_every_end_of_a_method_has_optimistixs_name(end):
    shape = jax.ShapeDtypeStruct((2,), float)
    state = QUICK.init(None, jnp.ones(2), None, {}, shape, None, frozenset())
    state = dataclasses.replace(state, end=jnp.asarray(list(riesz.Result).index(end)))
    terminates, result = QUICK.terminate(None, None, None, {}, state, frozenset())
    assert bool(terminates) == (end is not riesz.Result.RUNNING)
    assert result == getattr(optimistix.RESULTS, ENDS.get(end, "successful"))


@pytest.mark.parametrize("jac", ["fwd", "bwd"])
def test_any_method_solves_in_either_mode(jac):
    solution = optimistix.least_squares(lambda y, args: y**2 - 2.0, NEWTON, jnp.ones(2), options={"jac": jac})
    np.testing.assert_allclose(solution.value, np.sqrt(2.0), rtol=1e-12)


def test_mistakes_are_explained():
    make = riesz.optimistix.LeastSquares
    drawn = riesz.InnerProduct(over=riesz.monte_carlo(0.0, 1.0, 5))
    check_sentence(lambda: make(-1.0, 0.0), ValueError, "rtol must be at least 0")
    check_sentence(lambda: make(1e-3, 1e-3, "nbh"), ValueError, "method must be one of")
    check_sentence(lambda: make(1e-3, 1e-3, riesz.nhb(W=drawn)), ValueError, "method must not draw random numbers")
    check_sentence(lambda: make(1e-3, 1e-3, norm=2), TypeError, "norm must be a function")
    for fn, y, options, sentence in (
        (lambda y, _: (), jnp.ones(2), {}, "fn must return at least one residual"),
        (lambda y, _: 1.0, (), {}, "y0 must hold at least one"),
        (lambda y, _: y, jnp.ones(2), {"jac": "both"}, "jac in options must be"),
    ):
        with pytest.raises(ValueError, match=sentence):
            optimistix.least_squares(fn, QUICK, y, options=options)


ARCHIVE = f"https://github.com/patrick-kidger/optimistix/archive/refs/tags/v{optimistix.__version__}.tar.gz"
FOLDER = "OPTIMISTIX_TESTS"
"""An environment variable with the folder of optimistix's tests, where it is already here."""
IN_PLACE = """
import riesz


def promoting(fn):
    # These two mix types of numbers, which the suite forbids.
    def promoted(y, args):
        with jax.numpy_dtype_promotion("standard"):
            return fn(y, args)

    return promoted


least_squares_optimisers = (riesz.optimistix.LeastSquares(1e-8, 1e-8),)
_ones, _zero = jnp.array(1.0), jnp.array(0.0)
_steps, _share = 1 - jnp.arange(1, 11) / 10, jnp.ones(70) / 70
# What the suite leaves out as too hard: More, Garbow and Hillstrom's problems 25 and 26, from their own starts.
least_squares_fn_minima_init_args += (
    (promoting(variably_dimensioned), _zero, _steps, _ones),
    (promoting(variably_dimensioned), _zero, (_steps[:6], {"a": _steps[6:]}), _ones),
    (promoting(trigonometric), _zero, _share, _ones),
    (promoting(trigonometric), _zero, ((_share[:40], (), {"a": _share[40:60]}), _share[60:]), _ones),
)
"""
STUB = (
    "import sys, types\nsys.modules.setdefault('diffrax', types.ModuleType('diffrax'))  # for problems not run here\n"
)
NEEDED = ("conftest.py", "helpers.py", "test_least_squares.py")


def suite_of_optimistix():
    """The files of optimistix's test-suite that are needed, by name: its packages do not contain them."""
    if os.environ.get(FOLDER):
        return {name: (pathlib.Path(os.environ[FOLDER]) / name).read_text() for name in NEEDED}
    try:
        with urllib.request.urlopen(ARCHIVE, timeout=60) as answer:
            archive = tarfile.open(fileobj=io.BytesIO(answer.read()))
    except (urllib.error.URLError, TimeoutError) as error:
        pytest.fail(f"optimistix's test-suite cannot be had from {ARCHIVE} ({error}): set {FOLDER} to a copy of it.")
    members = {member.name.split("/", 1)[-1]: member for member in archive.getmembers()}
    return {name: archive.extractfile(members[f"tests/{name}"]).read().decode() for name in NEEDED}


@pytest.mark.slow
def test_optimistixs_own_suite_passes_with_the_hard_problems_too(tmp_path):
    """Its tests of least squares, with this solver in the place of its own."""
    folder = tmp_path / "tests"
    folder.mkdir()
    for name, text in suite_of_optimistix().items():
        (folder / name).write_text(text)
    (folder / "__init__.py").write_text("")
    (folder / "conftest.py").write_text(STUB + (folder / "conftest.py").read_text())
    (folder / "helpers.py").write_text((folder / "helpers.py").read_text() + IN_PLACE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_least_squares.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=6000)
    passed = re.search(r"(\d+) passed", run.stdout)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    assert passed is not None and int(passed[1]) >= 32
