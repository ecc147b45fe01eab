"""Noisy data: validation with patience, ridges, priors, and what they say of the parameters' uncertainty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import curve_fit

import riesz
from riesz import Result
from riesz._methods.auto.pace import Pace


def truth(x):
    return jnp.sin(3 * x) * jnp.exp(-(x**2) / 4)


def halves(seed, points=120, noise=0.2):
    """A loss on three quarters of noisy data, and one on the others."""
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.permutation(np.linspace(-2, 2, points)))
    y = truth(x) + noise * rng.normal(size=points)
    first = 3 * points // 4
    return tuple(
        riesz.least_squares(riesz.points(x[part], data=y[part])) for part in (slice(first), slice(first, None))
    )


D, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
loss, validation = halves(0)


def test_a_validated_run_returns_where_the_validation_was_lowest():
    solution = riesz.minimise(loss, D, theta0, validation=validation, patience=8)
    column = solution.history["validation"]
    lowest = int(np.argmin(column))
    assert solution.result is Result.VALIDATED
    assert not solution.result.failed and not solution.result.converged
    assert solution.steps == lowest + 8 == column.size - 1
    np.testing.assert_allclose(float(validation(solution.function)), column[lowest], rtol=1e-12)
    np.testing.assert_allclose(float(solution.loss), solution.history["loss"][lowest], rtol=1e-12)
    assert f"after step {lowest}" in solution.notes[-1]


def test_a_function_of_theta_validates_mini_batches_too():
    value = lambda theta: validation(D(theta))
    over = riesz.minibatch(loss.over, 40)
    options = {"key": jax.random.key(1), "validation": value, "patience": 5, "max_steps": 60}
    solution = riesz.minimise(riesz.least_squares(over), D, theta0, **options)
    assert solution.result is Result.VALIDATED
    assert float(value(solution.theta)) == pytest.approx(solution.history["validation"].min(), rel=1e-12)
    assert not np.array_equal(solution.theta, solution.last)


def test_what_ends_a_run_does_not_hold_where_the_validation_was_lowest():
    """A run that converges ends VALIDATED unless it converged to what is returned."""
    line = lambda theta: lambda x: theta[0] + theta[1] * x
    away = riesz.minimise(loss, line, jnp.ones(2), "ngd", tolerance=1e-6, validation=lambda theta: jnp.sum(theta**2))
    there = riesz.minimise(loss, line, jnp.ones(2), "ngd", tolerance=1e-6, validation=lambda theta: loss(line(theta)))
    assert away.result in (Result.VALIDATED, Result.CONVERGED_STEP)
    assert there.result is Result.CONVERGED_STEP
    np.testing.assert_array_equal(there.theta, there.last)
    lowest = np.argmin(away.history["validation"])
    assert (away.result is Result.VALIDATED) == (lowest < away.steps)


def test_a_validated_run_goes_on_from_its_checkpoint(tmp_path):
    whole = riesz.minimise(loss, D, theta0, validation=validation)
    riesz.minimise(loss, D, theta0, validation=validation, max_steps=7, checkpoint=tmp_path)
    resumed = riesz.minimise(loss, D, theta0, validation=validation, checkpoint=tmp_path)
    assert resumed.result is whole.result
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    np.testing.assert_array_equal(resumed.history["validation"], whole.history["validation"])
    with pytest.raises(riesz.CheckpointError, match="validation"):
        riesz.minimise(loss, D, theta0, validation=lambda theta: theta[0] ** 2, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"validation": riesz.residual(riesz.identity, 0.0, riesz.monte_carlo(0.0, 1.0, 5))}, "fixed points"),
        ({"validation": 3.0}, "^validation must be a function"),
        ({"validation": lambda theta: theta}, "^validation must return a real scalar"),
        ({"validation": validation, "patience": 0}, "^patience must be at least 1"),
        ({"validation": validation, "restarts": riesz.Restarts(2), "key": jax.random.key(0)}, "^restarts must be None"),
        ({"ridge": 0.0}, "^ridge must be greater than 0"),
    ],
)
def test_wrong_calls(options, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        riesz.minimise(loss, D, theta0, **options)


def test_a_ridge_is_more_rows():
    """For a linear model the minimiser is that of Tikhonov's normal equations."""
    line, start, weight = lambda theta: lambda x: theta @ x ** jnp.arange(4.0), jnp.full(4, 0.5), 0.03
    solution = riesz.minimise(loss, line, start, ridge=weight)
    X, y = np.asarray(loss.over.x)[:, None] ** np.arange(4), np.asarray(loss.over.data)
    G = X.T @ X / len(y) + weight * np.eye(4)
    np.testing.assert_allclose(solution.theta, np.linalg.solve(G, X.T @ y / len(y) + weight * start), rtol=1e-9)
    penalty = weight / 2 * float(jnp.sum((solution.theta - start) ** 2))
    np.testing.assert_allclose(float(solution.loss), float(loss(solution.function)) + penalty, rtol=1e-12)


def test_a_prior_is_one_more_integral():
    over = riesz.grid(-2.0, 2.0, 50)
    prior = riesz.prior(over, weight=0.5, mean=lambda x: jnp.cos(x))
    v = lambda x: jnp.sin(x)
    expected = 0.25 * jnp.sum(over.weights * (v(over.x) - jnp.cos(over.x)) ** 2)
    np.testing.assert_allclose(float(prior(v)), float(expected), rtol=1e-12)


CURVE = lambda x, a, b, c: a * jnp.exp(-b * x) + c
TIMES = jnp.linspace(0.0, 4.0, 50)


def curve(theta):
    return lambda x: CURVE(x, *theta)


def decay(seed, noise=0.1):
    return CURVE(TIMES, 2.5, 1.3, 0.5) + noise * np.random.default_rng(seed).normal(size=50)


def test_covariances_are_those_of_scipy():
    y, start = decay(0), jnp.array([1.0, 1.0, 0.0])
    solution = riesz.minimise(riesz.least_squares(riesz.points(TIMES, data=y)), curve, start)
    by_numpy = lambda x, a, b, c: a * np.exp(-b * x) + c
    for sigma, known in ((None, False), (0.1, True)):
        given = None if sigma is None else np.full(50, sigma)
        _, expected = curve_fit(by_numpy, TIMES, y, solution.theta, sigma=given, absolute_sigma=known)
        np.testing.assert_allclose(solution.covariance(sigma), expected, rtol=1e-5)
    values, deviations = solution.predict(TIMES, std=True)
    np.testing.assert_allclose(values, CURVE(TIMES, *solution.theta), rtol=1e-12)
    J = np.asarray(jax.jacobian(lambda p: CURVE(TIMES, *p))(solution.theta))
    np.testing.assert_allclose(deviations**2, np.einsum("id,de,ie->i", J, solution.covariance(), J), rtol=1e-9)


def test_what_the_data_do_not_decide_has_no_finite_deviation():
    """Two parameters of which only the sum is seen at x = 1; their difference at x = 2 is open."""
    model = lambda theta: lambda x: theta[0] + theta[1] * x
    over = riesz.points(jnp.ones(6), data=jnp.array([0.9, 1.0, 1.1, 1.2, 0.8, 1.0]))
    solution = riesz.minimise(riesz.least_squares(over), model, jnp.zeros(2))
    _, deviations = solution.predict(jnp.array([1.0, 2.0]), std=True)
    assert np.isfinite(deviations[0]) and np.isinf(deviations[1])


def test_covariance_of_a_likelihood_is_the_inverse_of_its_information():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    labels = rng.random(4000) < 1 / (1 + np.exp(-(0.5 + x)))
    over = riesz.points(jnp.asarray(x), data=jnp.asarray(labels, float))
    solution = riesz.minimise(riesz.logistic(over), lambda theta: lambda x: theta[0] + theta[1] * x, jnp.zeros(2))
    p, X = 1 / (1 + np.exp(-(solution.theta[0] + solution.theta[1] * x))), np.stack([np.ones(4000), x], 1)
    information = X.T * np.asarray(p * (1 - p)) @ X
    np.testing.assert_allclose(solution.covariance(), np.linalg.inv(information), rtol=0.1)
    with pytest.raises(ValueError, match="^sigma must be None"):
        solution.covariance(0.1)


def test_points_without_data_have_no_covariance():
    over = riesz.monte_carlo(0.0, 1.0, 20)
    solution = riesz.minimise(
        riesz.residual(riesz.identity, jnp.sin, over), curve, jnp.ones(3), "ngd", max_steps=2, key=jax.random.key(0)
    )
    with pytest.raises(ValueError, match="^covariance needs data"):
        solution.covariance()


def covered(seeds):
    """The share of points at which the band of 1.96 deviations holds the truth, over data sets."""
    model, start = curve, jnp.array([2.0, 1.0, 0.3])
    inside = []
    for seed in seeds:
        over = riesz.points(TIMES, data=jnp.asarray(decay(seed)))
        solution = riesz.minimise(riesz.least_squares(over), model, start, progress=False)
        values, deviations = solution.predict(TIMES, std=True)
        inside.append(np.abs(values - CURVE(TIMES, 2.5, 1.3, 0.5)) <= 1.96 * deviations)
    return np.mean(inside)


@pytest.mark.slow
def test_bands_cover():
    assert 0.93 <= covered(range(500)) <= 0.97


def test_bands_cover_some_data():
    """Of 40 data sets; the share is then known to about 0.03."""
    assert 0.86 <= covered(range(40)) <= 1.0


def test_a_fit_to_noise_ends_by_itself_and_not_at_infinity():
    """The loss hardly falls along a valley that leads to infinity; the function stays sensible between the points."""
    loss, _ = halves(1)
    D, theta0 = riesz.mlp(jax.random.key(1), (1, 10, 1))
    solution = riesz.minimise(loss, D, theta0)
    assert solution.result in (Result.UNBOUNDED, Result.STAGNATED)
    at = jnp.linspace(-2, 2, 401)
    assert jnp.sqrt(jnp.mean((jax.vmap(solution.function)(at) - truth(at)) ** 2)) < 2.0


@pytest.mark.slow
def test_more_parameters_than_data_end_by_themselves():
    """The loss could vanish; long steps are in vain, and quick ones would gain a little for hundreds of steps."""
    loss, _ = halves(4)
    D, theta0 = riesz.mlp(jax.random.key(4), (1, 30, 1))
    solution = riesz.minimise(loss, D, theta0)
    assert solution.result in (Result.UNBOUNDED, Result.STAGNATED)
    assert set(solution.history["phase"]) == {0, 1, 2}


def test_a_validated_run_never_climbs():
    climbed = lambda solution: np.any(np.diff(solution.history["loss"]) > 1e-12)
    assert not climbed(riesz.minimise(loss, D, theta0, validation=validation))
    assert climbed(riesz.minimise(loss, D, theta0, riesz.auto(), validation=validation))


def test_where_parameters_run_to_infinity_the_modest_ones_are_kept():
    """Of the losses 1 + 1/n at theta = n the product with (1 + n)^0.15 is least next to n = 1/0.15."""
    pace, first = Pace.start(jnp.zeros(1)), jnp.zeros(1)
    for n in range(1, 100):
        pace = pace.after(jnp.asarray(n), jnp.asarray(1 + 1 / n), jnp.array([float(n)]), first)
    assert pace.modest.theta == 7
    assert pace.lately.theta == 80


def test_a_slowly_converging_fit_is_not_given_up():
    """Large residuals: Gauss-Newton converges linearly, the loss hardly falls, and the parameters hardly move."""
    model = lambda theta: lambda x: theta[0] ** 2 * x + theta[0]
    over = riesz.points(jnp.array([1.0, -1.0, 2.0]), data=jnp.array([-3.0, 4.0, 5.0]))
    solution = riesz.minimise(riesz.least_squares(over), model, jnp.array([1.5]))
    assert solution.result.converged
