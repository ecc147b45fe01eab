"""`riesz.fit` and `riesz.curve_fit` against SciPy, their bounds, and what they say where something is not decided."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from test_minimise import COMPILATIONS

X = np.linspace(0.0, 3.0, 24)
RNG = np.random.default_rng(7)
Y = 2.5 * np.exp(-1.3 * X) + 0.4 + 0.05 * RNG.normal(size=X.size)
START = np.array([1.0, 0.5, 0.0])
LOW, HIGH = np.array([0.0, 0.0, 0.5]), np.array([2.0, 1.0, 3.0])
SIGMA = 0.05 + 0.02 * X
CORRELATED = np.diag(SIGMA) @ (0.3 + 0.7 * np.eye(X.size)) @ np.diag(SIGMA)
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


def curve(x, a, b, c):
    return a * jnp.exp(-b * x) + c


def in_numpy(x, a, b, c):
    return a * np.exp(-b * x) + c


def residual(p, x, y):
    return curve(x, p[0], p[1], p[2]) - y


def jacobian(p, x, y):
    e = jnp.exp(-p[1] * x)
    return jnp.stack([e, -p[0] * x * e, jnp.ones_like(x)], axis=1)


def fit(*, start=START, y=Y, **options):
    return riesz.fit(residual, start, (X, y), progress=False, **options)


def scipy_fit(start=START, y=Y, **options):
    return scipy.optimize.least_squares(lambda p: in_numpy(X, *p) - y, start, "3-point", **TIGHT, **options)


def projected_gradient(solution, low, high, y=Y):
    """The largest part of the gradient that no bound holds, as a share of what adds up to it."""
    p = np.asarray(solution.theta)
    J, r = np.asarray(jacobian(p, X, y)), np.asarray(residual(p, X, y))
    g = J.T @ r
    held = (p <= low) & (g > 0) | (p >= high) & (g < 0)
    return np.max(np.where(held, 0, np.abs(g)) / (np.abs(J).T @ np.abs(r)))


CASES = {
    "plain": {},
    "sigma": {"sigma": SIGMA},
    "absolute": {"sigma": SIGMA, "absolute_sigma": True},
    "matrix": {"sigma": CORRELATED},
    "absolute matrix": {"sigma": CORRELATED, "absolute_sigma": True},
    "bounds": {"bounds": (LOW, HIGH)},
}


@pytest.mark.at_once(4)
@pytest.mark.parametrize("case", ["plain", "absolute", "matrix", "bounds", "sigma", "absolute matrix"])
def test_curve_fit_gives_the_parameters_and_covariance_of_scipy(case):
    start = START + [0, 0, 0.6]
    options = CASES[case]
    popt, pcov = riesz.curve_fit(curve, X, Y, start, progress=False, **options)
    plain = {"bounds": (-np.inf, np.inf)} | options
    tight = TIGHT if case == "bounds" else {"ftol": 1e-15, "xtol": 1e-15}
    expected, covariance = scipy.optimize.curve_fit(in_numpy, X, Y, start, **plain, **tight)
    np.testing.assert_allclose(popt, expected, rtol=1e-6)
    np.testing.assert_allclose(pcov, covariance, rtol=2e-5)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("loss", ["soft_l1", "arctan", "cauchy", "huber"])
def test_robust_losses_agree_with_scipy(loss):
    y = Y + np.where(np.arange(X.size) % 7 == 3, 1.5, 0)
    found, expected = fit(loss=loss, scale=0.1, y=y), scipy_fit(loss=loss, f_scale=0.1, y=y)
    assert found.result.converged
    np.testing.assert_allclose(found.loss, expected.cost, rtol=1e-10)
    np.testing.assert_allclose(found.theta, expected.x, rtol=1e-5)


@pytest.mark.slow
def test_a_function_can_be_the_robust_loss():
    """C^2/2 rho((r/C)^2) with the rho of soft_l1, written out."""
    rho = lambda z: 2 * (jnp.sqrt(1 + z) - 1)
    found, named = fit(loss=rho, scale=0.1), fit(loss="soft_l1", scale=0.1)
    np.testing.assert_allclose(found.loss, named.loss, rtol=1e-12)
    np.testing.assert_allclose(found.theta, named.theta, rtol=1e-8)


def test_parameters_and_residuals_can_be_pytrees():
    def tree(p, data):
        r = p["curve"][0] * jnp.exp(-p["curve"][1] * data["x"]) + p["floor"] - data["y"]
        return {"early": r[:10], "late": (r[10:],)}

    start = {"curve": START[:2], "floor": 0.7}
    bounds = ({"curve": LOW[:2], "floor": 0.5}, {"curve": 4.0, "floor": np.inf})
    found = riesz.fit(tree, start, {"x": X, "y": Y}, bounds=bounds, progress=False)
    expected = scipy_fit([1.0, 0.5, 0.7], bounds=(LOW, [4.0, 4.0, np.inf]))
    assert found.result.converged
    assert found.params["floor"] == 0.5 and expected.x[2] < 0.5 + 1e-8
    np.testing.assert_allclose(found.params["curve"], expected.x[:2], rtol=1e-6)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("own", ["a matrix", "as jax.jacobian"])
def test_jacobians_of_users_give_the_same_run(own):
    jac = jacobian if own == "a matrix" else jax.jacobian(residual)
    found, expected = fit(jac=jac), fit()
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    # On the way auto knows the other directions to about 1e-8 only, for it scales linear parameters by sqrt(eps).
    found, expected = (fit(jac=mode, method=riesz.nhb(), max_steps=8) for mode in (jac, "auto"))
    np.testing.assert_allclose(found.history["loss"], expected.history["loss"], rtol=1e-11)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_modes_give_the_same_run(mode):
    np.testing.assert_allclose(fit(jac=mode).theta, fit().theta, rtol=1e-9)


NONE = np.full(3, np.inf)
BOXES = {
    "low": (LOW, NONE),
    "high": (-NONE, HIGH),
    "both": (LOW, HIGH),
    "all held": (np.array([0.0, 2.0, 1.0]), np.array([0.5, 3.0, 2.0])),
    "on the minimum": None,
}


@pytest.mark.parametrize("case", BOXES)
def test_bounds_agree_with_scipy_and_what_is_called_converged_is(case):
    """All boxes share one compiled program. The start is moved into the box: often onto its faces."""
    minimum = lambda: fit(bounds=(-50.0, 50.0)).theta
    low, high = BOXES[case] or (-NONE, np.where([True, False, False], minimum(), np.inf))
    start = np.clip(START, low, high)
    found, expected = fit(start=start, bounds=(low, high)), scipy_fit(start, bounds=(low, high))
    assert found.result.converged, found.result
    assert np.all((low <= found.theta) & (found.theta <= high))
    assert projected_gradient(found, low, high) < 1e-7
    assert found.loss <= expected.cost * (1 + 1e-9)
    if case == "all held":
        np.testing.assert_array_equal(found.theta, [0.5, 2.0, 1.0])


@pytest.mark.slow
def test_a_tolerance_for_the_gradient_leaves_out_what_bounds_hold():
    start = np.clip(START, LOW, HIGH)
    found = fit(start=start, bounds=(LOW, HIGH), tolerance={"gradient": 1e-3})
    g = jacobian(found.theta, X, Y).T @ residual(found.theta, X, Y)
    held = (found.theta <= LOW) & (g > 0) | (found.theta >= HIGH) & (g < 0)
    assert found.result is riesz.Result.CONVERGED_GRADIENT
    assert found.steps < fit(start=start, bounds=(LOW, HIGH)).steps
    assert np.linalg.norm(np.where(held, 0, g)) <= 1e-3 < np.linalg.norm(g)


@pytest.mark.slow
def test_residuals_in_a_lower_precision_are_raised_to_that_of_the_parameters():
    lower = lambda p, x, y: residual(p, x, y).astype(jnp.float32)
    found = riesz.fit(lower, START, (X, Y), max_steps=20, progress=False, throw=False)
    np.testing.assert_allclose(found.theta, fit().theta, rtol=1e-3)


def test_bounds_of_scipy_are_bounds():
    box = scipy.optimize.Bounds(LOW, HIGH)
    start = np.clip(START, LOW, HIGH)
    np.testing.assert_array_equal(fit(start=start, bounds=box).theta, fit(start=start, bounds=(LOW, HIGH)).theta)


def test_bounds_that_cannot_be_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"^params must lie within bounds, but parameter 2 is 0\.0"):
        fit(bounds=(LOW, HIGH))
    with pytest.raises(ValueError, match="^low must lie below high in bounds, but for parameter 1 they are 3.0 and 1"):
        fit(bounds=([0.0, 3.0, 0.0], 1.0))
    with pytest.raises(ValueError, match=r"^high of bounds must be one number, or one per parameter \(3\)"):
        fit(bounds=(0.0, [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"^bounds must be a pair \(low, high\)"):
        fit(bounds=(0.0, 1.0, 2.0))


def test_single_parameters_may_have_no_bound():
    x = jnp.linspace(0.0, 2.0, 20)
    decay = lambda p: p["height"] * jnp.exp(-p["rate"] * x) - 3 * jnp.exp(-0.5 * x)
    start = {"height": 1.0, "rate": 1.0}
    found = riesz.fit(decay, start, bounds=(None, {"height": 2.5, "rate": None}), progress=False).params
    low, high = [-np.inf, -np.inf], [2.5, np.inf]
    theirs = scipy.optimize.least_squares(lambda p: decay({"height": p[0], "rate": p[1]}), [1, 1], bounds=(low, high))
    np.testing.assert_allclose([found["height"], found["rate"]], theirs.x, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([], [], 1.0), "y must have at least one value"),
        ((X, Y, (np.nan, 1.0)), "p0 must be finite"),
        ((X, Y, (5.0, 1.0), None, False, (0, 2)), "p0 must lie within bounds"),
    ],
)
def test_curve_fit_speaks_of_its_own_arguments(arguments, told):
    with pytest.raises(ValueError, match=told):
        riesz.curve_fit(lambda x, a, b: a * jnp.exp(-b * x), *arguments)


def test_a_second_call_with_other_data_compiles_nothing():
    call = lambda y, start: riesz.curve_fit(curve, X, y, start, bounds=(-1.0, 9.0), progress=False)
    call(Y, START)
    before = COMPILATIONS.count
    call(Y + 0.1, START + 0.1)
    assert COMPILATIONS.count == before


def test_a_covariance_that_the_data_do_not_decide_is_infinite_with_a_warning():
    f = lambda x, a, b: (a + b) * x
    with pytest.warns(UserWarning, match="curve_fit: the data do not decide the covariance"):
        popt, pcov = riesz.curve_fit(f, X, 3 * X + Y, (0.0, 0.0), progress=False)
    assert np.isinf(pcov).all()
    np.testing.assert_allclose(popt.sum(), (X @ (3 * X + Y)) / (X @ X), rtol=1e-10)


def linear(p, A, b):
    return A @ p - b


@st.composite
def boxed(draw):
    """Linear least squares whose columns have sizes from 1e-2 to 1e2, in a box, from a start in it or on its faces."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = rng.normal(size=(8, 4)) * 10.0 ** rng.uniform(-2, 2, 4)
    b = rng.normal(size=8)
    free = np.linalg.lstsq(A, b)[0]
    low = free + np.abs(free) * rng.uniform(-1, 0.5, 4)
    high = low + (0.1 + np.abs(free)) * rng.uniform(0.1, 2, 4)
    share = draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=4, max_size=4))
    return A, b, low, high, np.clip(low + np.array(share) * (high - low), low, high)


def agrees_with_lsq_linear(problem):
    A, b, low, high, start = problem
    found = riesz.fit(linear, start, (A, b), bounds=(low, high), progress=False)
    expected = scipy.optimize.lsq_linear(A, b, (low, high), method="bvls", tol=1e-14)
    assert found.result.converged
    assert np.all((low <= found.theta) & (found.theta <= high))
    assert found.loss <= expected.cost * (1 + 1e-10)
    np.testing.assert_allclose(found.theta, expected.x, atol=1e-5 * np.max(high - low))


@settings(max_examples=6, deadline=None, derandomize=True)
@given(boxed())
def test_bounded_linear_least_squares_agree_with_lsq_linear(problem):
    agrees_with_lsq_linear(problem)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(boxed())
def test_many_bounded_linear_least_squares_agree_with_lsq_linear(problem):
    agrees_with_lsq_linear(problem)


DECAY = lambda p, x, y: p[0] * jnp.exp(-p[1] * x) - y
TIMES = np.linspace(0.0, 2.0, 10)
VALUES = 3 * np.exp(-0.5 * TIMES)


@pytest.mark.parametrize("bounds", [None, (0.0, 5.0)])
def test_a_ridge_stands_beside_several_arguments(bounds):
    found = riesz.fit(DECAY, np.ones(2), (TIMES, VALUES), ridge=1e-12, bounds=bounds, progress=False, throw=False)
    np.testing.assert_allclose(found.theta, [3.0, 0.5], atol=1e-8)


@pytest.mark.parametrize("shape", [(20,), (4, 5), (2, 10), (10, 3)])
def test_a_jacobian_of_another_shape_is_refused_whatever_its_size(shape):
    wrong = lambda p, x, y: jnp.ones(shape)
    with pytest.raises(ValueError, match=re.escape(f"jax.jacobian(residual) would, but it is {shape}")):
        riesz.fit(DECAY, np.ones(2), (TIMES, VALUES), jac=wrong, progress=False)


def test_a_jacobian_as_jax_gives_it_for_a_matrix_of_residuals():
    product = lambda p: jnp.outer(p["a"], p["b"]) - 1.0
    start = {"a": 2 * jnp.ones(2), "b": jnp.ones(3)}
    assert riesz.fit(product, start, jac=jax.jacobian(product), progress=False).loss < 1e-20


def test_a_covariance_matrix_of_the_wrong_shape_is_told_by_its_shape():
    with pytest.raises(ValueError, match=r"covariance matrix of shape \(10, 10\), but its shape is \(9, 9\)"):
        riesz.fit(DECAY, np.ones(2), (TIMES, VALUES), sigma=np.eye(9), progress=False)
