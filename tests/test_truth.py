"""What a result says of a run is true: converged where nothing can be gained, and nowhere else."""

import functools
import importlib.util
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import riesz


def line(t):
    return lambda x: t[0] + t[1] * x


def exponential(t):
    return lambda x: t[0] * jnp.exp(t[1] * x)


def groups(t):
    """One value for each group; points are the numbers of groups."""
    return lambda x: t[x.astype(int)]


def minimise(loss, D, theta0, *method, **options):
    return riesz.minimise(loss, D, theta0, *method, progress=False, throw=False, **options)


def unbalanced(loss, D, theta):
    """The largest |g_i| as a share of sum_j w_j |l'_j| |dz_j/dtheta_i|: zero at stationary points, else up to one."""
    gradient, sizes = 0, 0
    for term in loss.terms:
        over = term.draw_points(None, D, theta)
        values = lambda theta, over=over: jax.vmap(D(theta))(over.x)
        z, rows = values(theta), jax.jacfwd(values)(theta)
        points = (z,) if over.data is None else (z, over.data)
        slopes = jax.vmap(jax.grad(term.density))(*points)
        weighted = over.weights.reshape(-1, *[1] * (z.ndim - 1)) * slopes
        gradient = gradient + jnp.tensordot(weighted, rows, z.ndim)
        sizes = sizes + jnp.tensordot(jnp.abs(weighted), jnp.abs(rows), z.ndim)
    return float(jnp.max(jnp.abs(gradient) / jnp.where(sizes > 0, sizes, 1)))


def lowered_by_scipy(loss, D, theta):
    """How much lower L-BFGS-B goes from theta, in units of the loss there."""
    f = jax.jit(jax.value_and_grad(lambda theta: loss(D(theta))))
    both = lambda theta: tuple(np.asarray(part) for part in f(jnp.asarray(theta)))
    options = {"ftol": 1e-16, "gtol": 1e-14}
    found = scipy.optimize.minimize(both, np.asarray(theta), jac=True, method="L-BFGS-B", options=options)
    return 1 - found.fun / float(f(theta)[0])


# D1: collinear least squares -----------------------------------------------------------------------------------------

THIRDS = jnp.repeat(jnp.linspace(0, 1, 5), 3)
COLLINEAR = {
    "an intercept and all its dummies": (
        jnp.concatenate([jnp.ones((15, 1)), jnp.repeat(jnp.eye(5), 3, axis=0)], axis=1),
        THIRDS + 0.1 * jnp.cos(37 * jnp.arange(15.0)),
    ),
    "a line through one place": (jnp.ones((15, 2)), jnp.linspace(0, 1, 15)),
    "a polynomial of degree 9 through 5 places": (
        THIRDS[:, None] ** jnp.arange(10.0)[None, :],
        jnp.sin(3 * THIRDS) + 0.1 * jnp.cos(37 * jnp.arange(15.0)),
    ),
}


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", COLLINEAR)
def test_collinear_least_squares_converges_to_the_fit_of_lstsq_with_moderate_parameters(name):
    x, y = COLLINEAR[name]
    solution = minimise(riesz.least_squares(riesz.points(x, data=y)), lambda t: lambda x: x @ t, jnp.zeros(x.shape[1]))
    best = np.linalg.lstsq(np.asarray(x), np.asarray(y), rcond=None)[0]
    assert solution.result.converged
    np.testing.assert_allclose(x @ solution.theta, x @ best, atol=1e-9)
    assert jnp.linalg.norm(solution.theta) <= 10 * np.linalg.norm(best)


def test_an_exponential_is_fitted_from_a_start_that_grows():
    """From (1, 0.2) a exp(b x) must turn round; small singular values of the way are not those of a null space."""
    x = jnp.linspace(0, 4, 20)
    loss = riesz.least_squares(riesz.points(x, data=3 * jnp.exp(-1.2 * x) + 0.01 * jnp.sin(50 * x)))
    solution = minimise(loss, exponential, jnp.array([1.0, 0.2]))
    assert solution.result.converged
    np.testing.assert_allclose(solution.theta, [2.99821418, -1.19938842], rtol=1e-6)


# D2, D6: drawn points ------------------------------------------------------------------------------------------------

BUMPS = riesz.linear(lambda x: jnp.exp(-(((x - jnp.linspace(0, 1, 20)) / 0.02) ** 2)), size=20)


def wave(x):
    return jnp.sin(6 * x)


@pytest.mark.at_once(2)
@pytest.mark.parametrize(("points", "seed"), [(4, 0), (10, 0), (10, 1), (16, 1), (40, 1), (64, 2)])
def test_drawn_points_and_a_local_basis_end_below_the_zero_function_and_do_not_say_converged(points, seed):
    """Bumps that hardly overlap, of which few points see few: no function of the class fits, so no batch is fitted."""
    D, theta0 = BUMPS
    loss = lambda over: riesz.residual(riesz.identity, wave, over)
    drawn = loss(riesz.monte_carlo(0.0, 1.0, points))
    solution = minimise(drawn, D, theta0, max_steps=200, key=jax.random.key(seed))
    true = loss(riesz.gauss_legendre(0.0, 1.0, 200))
    assert not solution.result.converged
    assert true(solution.function) < true(D(theta0)) / 2


def spikes():
    """Ten ones among a thousand zeros, seen ten at a time: most batches hold nothing to fit."""
    x, y = jnp.linspace(0, 1, 1000), jnp.where(jnp.arange(1000) % 100 == 50, 1.0, 0.0)
    D, theta0 = riesz.linear(lambda x: jnp.maximum(0, 1 - jnp.abs(20 * x - jnp.arange(21.0))), size=21)
    return riesz.least_squares(riesz.minibatch(riesz.points(x, data=y), 10)), D, theta0


SPIKES = spikes()


@pytest.mark.at_once(1)
@pytest.mark.parametrize("method", ["auto", "nhb", "ngd"])
def test_no_single_batch_ends_a_run(method):
    """A batch of zeros has no loss and no gradient at the start, yet neither a tolerance nor a target is met."""
    for seed in range(3):
        for test in ({"tolerance": 1e-6}, {"target": 1e-4}):
            solution = minimise(*SPIKES, method, max_steps=60, key=jax.random.key(seed), **test)
            assert solution.result is riesz.Result.STEP_LIMIT, (seed, test)


def test_batches_with_nothing_to_fit_do_not_add_up_to_convergence():
    solution = minimise(*SPIKES, max_steps=300, key=jax.random.key(0))
    assert solution.result is riesz.Result.STEP_LIMIT


# D3: gradients that are not zero -------------------------------------------------------------------------------------

GROUP = jnp.repeat(jnp.arange(2.0), 3)
FAR_APART = jnp.array([0.1, 0.2, 0.3, 5.0, 5.1, 5.2])
X = jnp.linspace(-2, 2, 20)


def log1p(z, y):
    return jnp.log1p((z - y) ** 2)


def double_well(z, y):
    return (z**2 - y**2) ** 2


def relu(z):
    return jax.nn.relu(jnp.sum(z))


def test_huber_finds_the_means_of_groups_that_are_far_from_the_start():
    loss = riesz.huber(riesz.points(GROUP, data=FAR_APART))
    solution = minimise(loss, groups, jnp.zeros(2))
    assert solution.result.converged
    np.testing.assert_allclose(solution.theta, [0.2, 5.1], rtol=1e-9)


def other_supports():
    """A basis on (0, 2), samples on all of it, and a reference on (0, 1): without bound where there is no reference."""
    D, theta0 = riesz.linear(lambda x: jnp.maximum(0, 1 - jnp.abs(4 * x - jnp.arange(9.0))), size=9)
    return riesz.density_l2(riesz.points(jnp.linspace(0, 2, 20)), riesz.gauss_legendre(0.0, 1.0, 20)), D, theta0


NOT_ZERO = {
    "logistic": lambda: (
        riesz.logistic(riesz.points(X, data=(X + 0.3 * jnp.sin(9 * X) > 0).astype(float))),
        line,
        jnp.array([0.0, 80.0]),
    ),
    "log1p": lambda: (riesz.Integral(log1p, riesz.points(GROUP, data=FAR_APART)), groups, jnp.zeros(2)),
    "double well": lambda: (
        riesz.Integral(double_well, riesz.points(GROUP, data=FAR_APART)),
        groups,
        jnp.array([0.01, 0.02]),
    ),
    "poisson": lambda: (
        riesz.poisson(riesz.points(GROUP, data=jnp.array([1.0, 2.0, 3.0, 1.0, 0.0, 4.0]))),
        groups,
        jnp.full(2, -800.0),
    ),
    "quadratic + relu": lambda: (
        riesz.least_squares(riesz.points(GROUP, data=FAR_APART)) + riesz.Integral(relu, riesz.points(GROUP)),
        groups,
        jnp.zeros(2),
    ),
    "density_l2": other_supports,
}


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", NOT_ZERO)
def test_where_a_run_says_converged_the_terms_of_its_gradient_cancel(name):
    """|g_i| <= 1e-6 sum_j w_j |l'_j| |dz_j/dtheta_i|, from starts where Gauss-Newton sees little curvature or none."""
    loss, D, theta0 = NOT_ZERO[name]()
    solution = minimise(loss, D, theta0, max_steps=300)
    assert not solution.result.converged or unbalanced(loss, D, solution.theta) <= 1e-6
    assert solution.result.converged or name in ("logistic", "quadratic + relu", "density_l2")


# D4: losses far below the first one ----------------------------------------------------------------------------------


@pytest.mark.at_once(2)
@pytest.mark.parametrize("start", [(0.0, 1.0), (0.0, 2.0), (0.0, 0.1), (1.0, 0.5)])
def test_poisson_regression_finds_its_minimum_though_its_first_loss_is_up_to_1e85(start):
    x = jnp.linspace(0.0, 100.0, 41)
    loss = riesz.poisson(riesz.points(x, data=jnp.round(3 + x / 25)))
    solution = minimise(loss, line, jnp.array(start))
    assert solution.result.converged
    np.testing.assert_allclose(solution.loss, -3.1909599274801, rtol=1e-10)


# D5, D7: a small network ---------------------------------------------------------------------------------------------

PLACES = jnp.linspace(0.0, 1.0, 20)
NETWORK, WEIGHTS = riesz.mlp(jax.random.key(2), (1, 5, 1))


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1.0, 1e6, 1e10, 1e12, 1e16])
def test_data_in_any_unit_are_fitted_where_a_run_says_converged(unit):
    """A fit of the output layer alone has a loss of 3.6e-6 of the squared unit."""
    loss = riesz.least_squares(riesz.points(PLACES, data=unit * wave(PLACES)))
    solution = minimise(loss, NETWORK, WEIGHTS, max_steps=200)
    assert not solution.result.failed
    assert not solution.result.converged or solution.loss <= 1e-4 * unit**2


@functools.cache
def noisy():
    y = wave(PLACES) + 0.3 * jax.random.normal(jax.random.key(5), (20,))
    return riesz.least_squares(riesz.points(PLACES, data=y))


def distance(theta):
    """The mean squared distance to the function without noise."""
    return jnp.mean((jax.vmap(NETWORK(theta))(PLACES) - wave(PLACES)) ** 2)


@pytest.mark.parametrize("level", [0.0105, 0.012, 0.015])
def test_a_target_that_was_reached_holds_at_theta(level):
    """The metric is not the loss, and rises again while the loss falls."""
    solution = minimise(noisy(), NETWORK, WEIGHTS, metrics={"distance": distance}, target={"distance": level})
    assert solution.result is riesz.Result.TARGET_REACHED
    assert distance(solution.theta) <= level


@pytest.mark.at_once(2)
@pytest.mark.parametrize("method", ["nn2", "auto"])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-4])
def test_a_tolerance_for_the_gradient_holds_at_theta(method, tolerance):
    """The gradient is that of the loss at the returned parameters, not at those of an extrapolated point."""
    loss = noisy()
    solution = minimise(loss, NETWORK, WEIGHTS, method, tolerance={"gradient": tolerance}, max_steps=1000)
    assert solution.result is riesz.Result.CONVERGED_GRADIENT
    assert jnp.linalg.norm(jax.grad(lambda theta: loss(NETWORK(theta)))(solution.theta)) <= tolerance


# D8: robust fits -----------------------------------------------------------------------------------------------------


@pytest.mark.at_once(3)
@pytest.mark.parametrize("tolerance", [None, 1e-8, {"loss": 1e-8}], ids=str)
@pytest.mark.parametrize(("loss", "delta"), [("huber", 0.1), ("pseudo_huber", 0.1), ("huber", 0.01)])
def test_a_robust_fit_with_an_outlier_ends_where_scipy_finds_nothing_lower(loss, delta, tolerance):
    x = jnp.linspace(0, 4, 20)
    over = riesz.points(x, data=(2 * jnp.exp(-x)).at[5].set(8.0))
    robust = getattr(riesz, loss)(over, delta=delta)
    start = jnp.array([1.0, 0.2]) if delta == 0.1 else jnp.zeros(2)
    solution = minimise(robust, exponential, start, tolerance=tolerance)
    assert solution.result.converged
    assert lowered_by_scipy(robust, exponential, solution.theta) <= 1e-10
    np.testing.assert_allclose(solution.theta, [2, -1], atol=0.02)


# D9: large residuals -------------------------------------------------------------------------------------------------


def parabola(t):
    return lambda x: t[0] ** 2 + 5 * x


@pytest.mark.parametrize("start", [3.0, -0.1, 30.0])
def test_a_residual_of_which_only_the_second_derivative_sees_the_minimum_converges_soon(start):
    """r = x^2 + 5 has J = 0 where its square is least."""
    loss = riesz.least_squares(riesz.points(jnp.ones(1), data=jnp.zeros(1)))
    solution = minimise(loss, parabola, jnp.array([start]))
    assert solution.result.converged
    assert solution.steps <= 30
    np.testing.assert_allclose(solution.loss, 12.5, rtol=1e-12)


# D10: classes, weights -----------------------------------------------------------------------------------------------


def test_classes_that_can_be_separated_are_unbounded_and_never_converge():
    """The loss falls as long as parameters grow."""
    x = jax.random.normal(jax.random.key(0), (20, 2))
    loss = riesz.logistic(riesz.points(x, data=(x[:, 0] > 0).astype(float)))
    solution = minimise(loss, lambda t: lambda x: t[:2] @ x + t[2], jnp.zeros(3))
    assert solution.result is riesz.Result.UNBOUNDED
    assert solution.loss < 1e-12


def test_unbounded_is_neither_converged_nor_failed():
    assert not riesz.Result.UNBOUNDED.converged
    assert not riesz.Result.UNBOUNDED.failed


def test_weighting_points_and_repeating_them_give_the_same_first_step():
    """A model whose tangent functions are far from collinear: else rounding is magnified, whatever the points."""
    x, y, times = jnp.linspace(-1, 1, 6), jnp.cos(3 * jnp.linspace(-1, 1, 6)), jnp.array([1, 2, 3, 1, 2, 3])
    weighted = riesz.points(x, data=y, weights=times / 12)
    repeated = riesz.points(jnp.repeat(x, times), data=jnp.repeat(y, times))
    start = jnp.array([1.0, 0.2])
    first, second = (
        minimise(riesz.least_squares(over), exponential, start, max_steps=1) for over in (weighted, repeated)
    )
    assert first.history["loss"][1] < first.history["loss"][0]
    np.testing.assert_allclose(second.history["loss"], first.history["loss"], rtol=1e-9)


# Random problems -----------------------------------------------------------------------------------------------------

PATH = pathlib.Path(__file__).parents[1] / "benchmarks" / "truth.py"
SPEC = importlib.util.spec_from_file_location("benchmark_of_truth", PATH)
truth = importlib.util.module_from_spec(SPEC)
sys.modules["benchmark_of_truth"] = truth
SPEC.loader.exec_module(truth)


@pytest.mark.parametrize("kind", ["linear", "collinear", "log1p", "poisson", "quadratic"])
def test_random_problems_say_converged_only_where_scipy_finds_nothing_lower(kind):
    """As benchmarks/truth.py judges, which has more kinds and more problems of each."""
    found = [truth.verdict(kind, seed) for seed in range(4)]
    assert not [str(one) for one in found if one.false]


# Losses that are not least squares -----------------------------------------------------------------------------------


def brier(z, y):
    return jnp.sum((jax.nn.softmax(z) - y) ** 2)


def test_a_plateau_that_a_step_has_climbed_to_is_not_the_end():
    """On a saturated plateau the gradient underflows, but a lower loss is known, and the run goes back to it."""
    x = jnp.linspace(-1.0, 1.0, 8)
    y = jnp.asarray(np.eye(3)[np.random.default_rng(1).integers(0, 3, 8)])
    D = lambda t: lambda x: t[2:5] * jnp.tanh(t[0] + t[1] * x) + t[5:8]
    random = np.random.default_rng(0)
    theta = jnp.asarray(random.choice([5, 15, 30.0]) * random.standard_normal(8))
    loss = riesz.Integral(brier, riesz.points(x, data=y))
    solution = minimise(loss, D, theta)
    gradient = jnp.linalg.norm(jax.grad(lambda t: loss(D(t)))(solution.theta))
    assert gradient < 1e-6 or not solution.result.converged
    assert float(solution.loss) < 0.9


@pytest.mark.at_once(1)
@pytest.mark.parametrize("theta", [(0.0, 0.0, 0.0, 0.0), (0.5, 1.0, 1.0, 0.0), (3.0, -2.0, 2.0, 1.0)])
def test_a_likelihood_without_bound_does_not_converge(theta):
    """Mean and log deviation of exact data: the loss falls for ever, and l'' grows beyond all numbers."""
    likelihood = lambda z, y: 0.5 * jnp.exp(-2 * z[1]) * (z[0] - y) ** 2 + z[1]
    x = jnp.array([0.0, 0.3, 1.0])
    D = lambda t: lambda x: jnp.stack([t[0] + t[1] * x, t[2] + t[3] * x])
    solution = minimise(riesz.Integral(likelihood, riesz.points(x, data=1 + 2 * x)), D, jnp.array(theta))
    assert not solution.result.converged


def test_parameters_beyond_the_resolution_of_a_density_do_not_converge():
    """From a maximum of 1 - cos z, where rounding of z can be larger than its period."""
    loss = riesz.Integral(lambda z: 1 - jnp.cos(z), riesz.points(jnp.linspace(-1.0, 1.0, 8)))
    solution = minimise(loss, line, jnp.array([jnp.pi, 0.0]))
    gradient = jnp.linalg.norm(jax.grad(lambda t: loss(line(t)))(solution.theta))
    assert gradient < 1e-8 or not solution.result.converged


def test_a_power_in_the_data_is_not_quadratic():
    """The exponents of the points, which are not known when the density is traced, decide l''."""
    over = riesz.points(jnp.linspace(0.0, 1.0, 4), data=jnp.full(4, 4))
    assert not riesz.Integral(lambda z, y: jnp.abs(z - 1) ** y, over).quadratic(jnp.zeros(4), over)
    assert riesz.Integral(lambda z, y: y * (z - 1) ** 2, over).quadratic(jnp.zeros(4), over)
