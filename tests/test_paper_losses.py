"""The losses and metrics of the paper: closed forms, minimisers that are known otherwise, and what they refuse."""

import functools
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import riesz
from compiling import ORDINARY
from riesz._problem.features import along, bend, features
from spoken import check_sentence, run_page

random = np.random.default_rng(0)
x = jnp.linspace(0.0, 1.0, 40)
X = np.asarray(x)
FULL = riesz.ngd(W=riesz.GaussNewton(), step_size=riesz.Constant(1.0), filter=riesz.Cutoff(1e-14))
"""One step of it solves a linear problem with a quadratic loss."""


def powers(x):
    """1, x, x^2, x^3."""
    return x ** jnp.arange(4)


D, ZERO = riesz.linear(powers, size=4)
PSI = X[:, None] ** np.arange(4)


def solve(loss, D=D, theta=ZERO, method=FULL, steps=30):
    """Theta at the minimum."""
    return np.asarray(riesz.minimise(loss, D, theta, method, max_steps=steps, progress=False).theta)


@eqx.filter_jit
def one_step(loss, D=D, theta=ZERO):
    """Theta after one full step, the minimum of a quadratic loss of a linear model."""
    return FULL.step(loss, D, theta, FULL.init(theta), FULL.draw(loss, D, theta))[0]


def gram(loss, theta, W=None, D=D):
    """The Gram matrix of a metric, Gauss-Newton by default."""
    W = riesz.GaussNewton() if W is None else W
    return eqx.filter_jit(lambda loss, theta, W: riesz.tangent_space(loss, D, theta, W=W).gram)(loss, theta, W)


def root(slope, curvature, start):
    """Where a gradient vanishes, by SciPy."""
    found = scipy.optimize.root(slope, start, jac=curvature, tol=1e-14)
    assert np.linalg.norm(slope(found.x)) < 1e-11
    return found.x


# ------------------------------------------------------------------------------------------------- closed forms

Z = np.array([-3.0, -0.4, 0.0, 0.3, 2.5])
Y = np.array([0.0, 1.0, 0.0, 2.0, 4.0])
R = Z - Y
DELTA = 0.7
ROOT = np.sqrt(1 + (R / DELTA) ** 2)
SMALL = np.abs(R) <= DELTA
SCALAR = {
    "least_squares": (riesz.least_squares, R**2 / 2, R, 0 * R + 1),
    "huber": (
        functools.partial(riesz.huber, delta=DELTA),
        np.where(SMALL, R**2 / 2, DELTA * np.abs(R) - DELTA**2 / 2),
        np.clip(R, -DELTA, DELTA),
        SMALL.astype(float),
    ),
    "pseudo_huber": (
        functools.partial(riesz.pseudo_huber, delta=DELTA),
        DELTA**2 * (ROOT - 1),
        R / ROOT,
        ROOT**-3,
    ),
    "poisson": (riesz.poisson, np.exp(Z) - Y * Z, np.exp(Z) - Y, np.exp(Z)),
    "logistic": (
        lambda over: riesz.logistic(riesz.points(over.x, data=over.data / 4)),
        np.logaddexp(0, Z) - Y / 4 * Z,
        scipy.special.expit(Z) - Y / 4,
        scipy.special.expit(Z) * scipy.special.expit(-Z),
    ),
}


def derivatives(term, z):
    """Values, slopes and curvatures of a term on its own points."""
    z = jnp.asarray(z)
    return (
        term.over.weights @ term.densities(z, term.over),
        eqx.filter_jit(term.densities_and_slopes)(z, term.over)[1],
        eqx.filter_jit(term.hessians)(z, term.over),
    )


@pytest.mark.parametrize("name", SCALAR)
def test_a_loss_of_values_has_its_closed_form(name):
    make, value, slope, curvature = SCALAR[name]
    found = derivatives(make(riesz.points(np.arange(5.0), data=Y)), Z)
    np.testing.assert_allclose(found[0], np.mean(value), rtol=1e-13)
    np.testing.assert_allclose(found[1][:, 0], slope, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found[2][:, 0, 0], curvature, rtol=1e-13)


@pytest.mark.parametrize("name", SCALAR)
def test_the_gauss_newton_metric_is_the_second_derivative(name):
    """G_ij = integral of psi_i l''(v) psi_j: Example 3.1 (i)."""
    make, _, _, curvature = SCALAR[name]
    psi = np.vander(np.arange(5.0), 4)
    model, _ = riesz.linear(lambda x: x ** jnp.arange(3.0, -1, -1), size=4)
    theta = np.linalg.lstsq(psi[1:], Z[1:])[0]  # a model of 4 numbers has the values Z at 4 points
    v = psi @ theta
    loss = make(riesz.points(np.arange(5.0), data=np.where(np.arange(5) > 0, Y, 1.0)))
    weights = np.concatenate([[derivatives(loss, v)[2][0, 0, 0]], curvature[1:]]) / 5
    np.testing.assert_allclose(gram(loss, jnp.asarray(theta), D=model), psi.T @ (weights[:, None] * psi), rtol=1e-9)


@pytest.mark.parametrize("name", ["huber", "pseudo_huber", "poisson"])
def test_vectors_are_summed_entry_by_entry(name):
    make, value, _, _ = SCALAR[name]
    loss = make(riesz.points([0.0], data=Y[None]))
    np.testing.assert_allclose(loss(lambda x: jnp.asarray(Z)), np.sum(value), rtol=1e-13)


def test_large_errors_have_no_say_in_the_metric_of_huber_and_little_in_that_of_pseudo_huber():
    far = riesz.points(x, data=X + 100)
    assert not np.any(gram(riesz.huber(far), ZERO))
    np.testing.assert_allclose(gram(riesz.pseudo_huber(far), ZERO), 1e-6 * PSI.T @ PSI / 40, rtol=0.05)


def test_pseudo_huber_keeps_the_digits_of_small_errors():
    loss = riesz.pseudo_huber(riesz.points([0.0], data=[0.0]))
    np.testing.assert_allclose(loss(lambda x: 1e-9 + 0 * x), 5e-19, rtol=1e-12)


LABELS = np.array([0, 2, 1, 2, 2])
LOGITS = random.normal(size=(5, 3)) * 3


def test_softmax_has_its_closed_form():
    """The slope is p - e_y, the Hessian diag(p) - p p^T, which is singular."""
    found = derivatives(riesz.softmax(riesz.points(np.arange(5.0), data=LABELS)), LOGITS)
    p = scipy.special.softmax(LOGITS, axis=1)
    np.testing.assert_allclose(found[0], -np.mean(np.log(p[np.arange(5), LABELS])), rtol=1e-13)
    np.testing.assert_allclose(found[1], p - np.eye(3)[LABELS], rtol=1e-12, atol=1e-15)
    forms = np.einsum("mi,ij->mij", p, np.eye(3)) - np.einsum("mi,mj->mij", p, p)
    np.testing.assert_allclose(found[2], forms, rtol=1e-11, atol=1e-14)


def test_softmax_is_stable():
    loss = riesz.softmax(riesz.points([0.0], data=[1]))
    np.testing.assert_allclose(loss(lambda x: jnp.array([800.0, -800.0, 0.0])), 1600, rtol=1e-14)


def test_softmax_of_two_classes_is_logistic():
    labels = np.array([0, 1, 1, 0, 1])
    over = riesz.points(np.arange(5.0), data=labels)
    found = riesz.softmax(over)(lambda x: jnp.stack([0.0 * x, jnp.sin(x)]))
    np.testing.assert_allclose(found, riesz.logistic(over)(jnp.sin), rtol=1e-14)


def test_labels_may_have_an_axis_of_their_own_and_come_in_batches():
    over = riesz.points(np.arange(5.0), data=LABELS)
    v = lambda x: jnp.stack([x, jnp.sin(x), -x])
    expected = riesz.softmax(over)(v)
    np.testing.assert_array_equal(riesz.softmax(riesz.points(over.x, data=LABELS[:, None]))(v), expected)
    batch = riesz.softmax(riesz.minibatch(over, 5))(v, key=jax.random.key(0))
    np.testing.assert_allclose(batch, expected, rtol=1e-14)


def test_a_label_out_of_range_that_nobody_could_check_gives_nan():
    loss = lambda label: riesz.softmax(riesz.points(jnp.zeros(1), data=label))(lambda x: jnp.zeros(3))
    assert jnp.isnan(jax.jit(loss)(jnp.array([3])))


class TestValueAndGradient:
    def test_of_one_variable(self):
        np.testing.assert_allclose(riesz.value_and_gradient(jnp.sin)(0.3), [np.sin(0.3), np.cos(0.3)], rtol=1e-14)

    def test_of_several(self):
        v = lambda x: x[0] ** 2 * x[1]
        np.testing.assert_allclose(riesz.value_and_gradient(v)(jnp.array([2.0, 3.0])), [12, 12, 4], rtol=1e-14)

    def test_of_a_vector(self):
        v = lambda x: jnp.stack([x[0] * x[1], x[1]])
        found = riesz.value_and_gradient(v)(jnp.array([2.0, 3.0]))
        np.testing.assert_allclose(found, [[6, 3, 2], [3, 0, 1]], rtol=1e-14)


class TestSobolev:
    plane = np.stack([X, X**2], axis=1)
    u = staticmethod(lambda x: jnp.sin(x[0]) * x[1])
    data = np.stack([np.sin(X) * X**2, np.cos(X) * X**2, np.sin(X)], axis=1)

    def test_has_its_closed_form(self):
        loss = riesz.sobolev(riesz.points(self.plane, data=self.data))
        assert loss(self.u) < 1e-30
        v = lambda x: x[0] + 2 * x[1]
        expected = np.mean((X + 2 * X**2 - self.data[:, 0]) ** 2)
        expected += np.mean((1 - self.data[:, 1]) ** 2 + (2 - self.data[:, 2]) ** 2)
        np.testing.assert_allclose(loss(v), expected / 2, rtol=1e-13)

    def test_an_axis_of_length_one_changes_nothing(self):
        plain = riesz.sobolev(riesz.points(self.plane, data=self.data))
        wide = riesz.sobolev(riesz.points(self.plane, data=self.data[:, None]))
        v = lambda x: x[0] + 2 * x[1]
        for loss, function in ((wide, v), (plain, lambda x: v(x)[None]), (wide, lambda x: v(x)[None])):
            np.testing.assert_allclose(loss(function), plain(v), rtol=1e-14)

    def test_of_vectors(self):
        v = lambda x: jnp.stack([x, x**2])
        loss = riesz.sobolev(riesz.points(x, data=np.zeros((40, 2, 2))))
        np.testing.assert_allclose(loss(v), np.mean(X**2 + 1 + X**4 + 4 * X**2) / 2, rtol=1e-13)

    def test_its_minimiser_solves_the_normal_equations_and_its_metric_is_h1(self):
        data = np.stack([np.exp(X), np.exp(X)], axis=1)
        loss = riesz.sobolev(riesz.points(x, data=data))
        slopes = np.arange(4) * X[:, None] ** np.maximum(np.arange(4) - 1, 0)
        expected = np.linalg.lstsq(np.concatenate([PSI, slopes]), np.concatenate(data.T))[0]
        np.testing.assert_allclose(one_step(loss), expected, rtol=1e-10)
        H1 = (PSI.T @ PSI + slopes.T @ slopes) / 40
        np.testing.assert_allclose(gram(loss, ZERO), H1, rtol=1e-12)
        other = riesz.least_squares(riesz.points(x, data=X))
        np.testing.assert_allclose(gram(other, ZERO, riesz.InnerProduct(riesz.value_and_gradient)), H1, rtol=1e-12)


# --------------------------------------------------------------------------------------------------- minimisers


def test_least_squares_finds_conditional_means():
    """Over all functions of a discrete x, the minimiser is the mean of y given x."""
    groups = random.integers(0, 4, size=40)
    y = random.normal(size=40) + groups
    indicators, theta = riesz.linear(lambda x: (x == jnp.arange(4)).astype(float), size=4)
    found = one_step(riesz.least_squares(riesz.points(groups.astype(float), data=y)), indicators, theta)
    np.testing.assert_allclose(found, [y[groups == g].mean() for g in range(4)], rtol=1e-12)


OUTLIERS = np.sin(3 * X) + 0.05 * random.standard_t(1.5, size=40)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("loss, name", [(riesz.huber, "huber"), (riesz.pseudo_huber, "soft_l1")])
def test_robust_regression_finds_what_scipy_finds(loss, name):
    found = solve(loss(riesz.points(x, data=OUTLIERS), delta=0.05), method=riesz.auto(), steps=100)
    oracle = scipy.optimize.least_squares(
        lambda theta: PSI @ theta - OUTLIERS, np.zeros(4), lambda theta: PSI, loss=name, f_scale=0.05,
        ftol=1e-15, xtol=1e-15, gtol=1e-15, max_nfev=5000,
    )  # fmt: skip
    np.testing.assert_allclose(PSI @ found, PSI @ oracle.x, atol=1e-6)
    r = PSI @ found - OUTLIERS
    slope = np.clip(r, -0.05, 0.05) if name == "huber" else r / np.sqrt(1 + (r / 0.05) ** 2)
    np.testing.assert_allclose(PSI.T @ slope / 40, 0, atol=1e-10)


def test_poisson_regression_finds_what_scipy_finds():
    counts = random.poisson(np.exp(1 + np.sin(4 * X)))
    found = solve(riesz.poisson(riesz.points(x, data=counts)))
    expected = root(
        lambda t: PSI.T @ (np.exp(PSI @ t) - counts), lambda t: PSI.T @ (np.exp(PSI @ t)[:, None] * PSI), np.zeros(4)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_logistic_regression_finds_what_scipy_finds():
    labels = (random.uniform(size=40) < scipy.special.expit(2 * np.sin(4 * X))).astype(int)
    found = solve(riesz.logistic(riesz.points(x, data=labels)))
    p = lambda t: scipy.special.expit(PSI @ t)
    expected = root(
        lambda t: PSI.T @ (p(t) - labels), lambda t: PSI.T @ ((p(t) * (1 - p(t)))[:, None] * PSI), np.zeros(4)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_softmax_regression_finds_the_probabilities_that_scipy_finds():
    """Logits themselves are defined up to a common function: SciPy's third one is zero."""
    labels = random.integers(0, 3, size=40)
    affine = PSI[:, :2]
    model, theta = riesz.linear(lambda x: jnp.kron(jnp.eye(3), jnp.stack([jnp.ones_like(x), x])), size=6)
    found = solve(riesz.softmax(riesz.points(x, data=labels)), model, theta)
    p = lambda t: scipy.special.softmax(np.column_stack([affine @ t[:2], affine @ t[2:], np.zeros(40)]), axis=1)
    slope = lambda t: (affine.T @ (p(t) - np.eye(3)[labels])[:, :2]).T.reshape(-1)
    t = root(slope, None, np.zeros(4))
    logits = affine @ found.reshape(3, 2).T
    np.testing.assert_allclose(scipy.special.softmax(logits, axis=1), p(t), rtol=1e-8)


# ---------------------------------------------------------------------------------------------------- densities

DOMAIN = riesz.gauss_legendre(0.0, 1.0, 40)
NODES, WEIGHTS = np.asarray(DOMAIN.x), np.asarray(DOMAIN.weights)
SAMPLE = random.beta(2, 3, size=40)
SAMPLE_PSI = SAMPLE[:, None] ** np.arange(4)
NODES_PSI = NODES[:, None] ** np.arange(4)


class TestDensityL2:
    loss = riesz.density_l2(riesz.points(SAMPLE), DOMAIN)

    def test_has_its_closed_form(self):
        expected = (np.exp(2) - 1) / 4 - np.mean(np.exp(SAMPLE))
        np.testing.assert_allclose(self.loss(jnp.exp), expected, rtol=1e-12)

    def test_its_minimiser_is_the_projection_of_the_sample(self):
        hilbert = 1 / (1 + np.arange(4)[:, None] + np.arange(4))
        expected = np.linalg.solve(hilbert, SAMPLE_PSI.mean(axis=0))
        np.testing.assert_allclose(one_step(self.loss), expected, rtol=1e-9)
        np.testing.assert_allclose(gram(self.loss, ZERO), hilbert, rtol=1e-12)  # the metric is L2 over nu

    def test_auto_finds_it_too_though_the_loss_is_negative(self):
        once, auto = one_step(self.loss), solve(self.loss, method=riesz.auto())
        np.testing.assert_allclose(auto, once, rtol=1e-8)


def exponential(theta):
    """Positive functions, not normalised."""
    return lambda x: jnp.exp(theta @ powers(x))


NORMALISED = riesz.normalised(D, DOMAIN)


class TestDensityKL:
    loss = riesz.density_kl(riesz.points(SAMPLE), DOMAIN)

    def test_has_its_closed_form(self):
        v = lambda x: 1 + x
        np.testing.assert_allclose(self.loss(v), 1.5 - np.mean(np.log(1 + SAMPLE)), rtol=1e-12)

    def test_its_metric_is_one_over_the_square_over_the_sample(self):
        theta = jnp.array([1.0, 0.5, 0.0, 0.25])
        rows = SAMPLE_PSI / (SAMPLE_PSI @ np.asarray(theta))[:, None]
        np.testing.assert_allclose(gram(self.loss, theta), rows.T @ rows / 40, rtol=1e-11)

    @pytest.mark.at_once(1)
    @pytest.mark.parametrize("model", [exponential, NORMALISED], ids=["exponential", "normalised"])
    def test_its_minimiser_is_the_density_where_the_model_has_it(self, model):
        """With and without normalisation the true density is found: the errata of Example 2.2 (iv)."""
        u = np.exp(np.sin(2.0) + NODES_PSI @ [0.0, 3.0, -4.0, 1.0])
        u /= WEIGHTS @ u
        law = riesz.points(NODES, weights=WEIGHTS * u)
        loss = riesz.density_kl(law, DOMAIN)
        theta = solve(loss, model, method=riesz.auto(), steps=60)
        np.testing.assert_allclose(jax.vmap(model(theta))(NODES), u, rtol=1e-9)

    def test_finds_the_likeliest_member_of_a_family(self):
        """Against SciPy's root of the likelihood equations: means under the model are means of the sample."""

        def slope(t):
            v = WEIGHTS * np.exp(NODES_PSI[:, 1:] @ t)
            return v @ NODES_PSI[:, 1:] / v.sum() - SAMPLE_PSI[:, 1:].mean(axis=0)

        t = root(slope, None, np.zeros(3))
        np.testing.assert_allclose(solve(self.loss, NORMALISED, method=riesz.auto())[1:], t, rtol=1e-7)


class TestNormalised:
    theta = jnp.array([0.3, -1.0, 2.0, 0.5])

    def test_has_mass_one(self):
        v = NORMALISED(1e3 * self.theta)
        np.testing.assert_allclose(WEIGHTS @ np.asarray(jax.vmap(v)(NODES)), 1, rtol=1e-12)

    def test_rows_are_centred(self):
        f = NODES_PSI @ np.asarray(self.theta)
        mass = WEIGHTS @ np.exp(f)
        v, mean = np.exp(PSI @ np.asarray(self.theta)) / mass, WEIGHTS @ (np.exp(f)[:, None] * NODES_PSI) / mass
        found = jax.jit(lambda theta: features(NORMALISED, riesz.identity, theta, x))(self.theta)
        np.testing.assert_allclose(found.values, v, rtol=1e-13)
        np.testing.assert_allclose(found.jacobians[:, 0], v[:, None] * (PSI - mean), rtol=1e-11, atol=1e-13)

    def test_all_derivatives_are_those_of_the_formula(self):
        """Forward, twice forward, under an operator, and with respect to the measure's weights."""
        delta = jnp.array([1.0, -2.0, 0.5, 3.0])

        def looked_at(D):
            return [derivative(D, riesz.gradient, self.theta, delta, x) for derivative in (along, bend)]

        found, expected = (jax.jit(functools.partial(looked_at, D))() for D in (NORMALISED, by_hand))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)

        over = lambda weights: eqx.tree_at(lambda p: p.weights, DOMAIN, weights)
        slope = jax.jit(jax.grad(lambda weights: riesz.normalised(D, over(weights))(self.theta)(0.5)))(DOMAIN.weights)
        v = NORMALISED(self.theta)
        np.testing.assert_allclose(slope, -v(0.5) * jax.vmap(v)(NODES), rtol=1e-12)

    def test_rows_cost_one_integral_and_not_one_a_point(self):
        """Read off the compiled programs: left to itself, every point goes back through the whole integral."""

        def operations(D):
            rows = jax.jit(lambda theta: features(D, riesz.identity, theta, jnp.linspace(0.0, 1.0, 300)).jacobians)
            return rows.lower(self.theta).compile(ORDINARY).cost_analysis()["flops"]

        plain, ours, naive = map(operations, (exponential, NORMALISED, by_hand))
        assert ours < 3 * plain
        assert naive > 20 * plain

    def test_params_pass_through(self):
        network, theta = riesz.mlp(jax.random.key(0), (1, 3, 1))
        wrapped = riesz.normalised(network, DOMAIN)
        assert jax.tree.all(jax.tree.map(jnp.array_equal, wrapped.params(theta), network.params(theta)))

    def test_the_second_integral_of_cross_entropy_is_one(self):
        sample = riesz.points(SAMPLE)
        found = riesz.density_kl(sample, DOMAIN)(NORMALISED(self.theta))
        v = np.asarray(jax.vmap(NORMALISED(self.theta))(SAMPLE))
        np.testing.assert_allclose(found, 1 - np.mean(np.log(v)), rtol=1e-13)


def by_hand(theta):
    """The same densities, left to automatic differentiation."""
    f = D(theta)
    log_mass = jax.nn.logsumexp(jax.vmap(f)(DOMAIN.x), b=DOMAIN.weights)
    return lambda x: jnp.exp(f(x) - log_mass)


# -------------------------------------------------------------------------------------- equations: Ritz energies


def bubbles(x):
    """x (1 - x) times 1, x, x^2, x^3: functions that vanish at 0 and 1."""
    return x * (1 - x) * x ** jnp.arange(4)


class TestRitz:
    model, zero = riesz.linear(bubbles, size=4)
    k = np.arange(4)
    values = NODES[:, None] ** (k + 1) - NODES[:, None] ** (k + 2)
    slopes = (k + 1) * NODES[:, None] ** k - (k + 2) * NODES[:, None] ** (k + 1)
    stiffness = slopes.T @ ((WEIGHTS * (1 + NODES))[:, None] * slopes)
    a = staticmethod(lambda x: 1 + x)
    loss = riesz.ritz(lambda x: 1 + x, jnp.exp, DOMAIN)

    def test_has_its_closed_form(self):
        """With v = x^2: the integral of (1 + x) 4 x^2 / 2 - x^2 e^x."""
        np.testing.assert_allclose(self.loss(lambda x: x**2), 2 * (1 / 3 + 1 / 4) - (np.e - 2), rtol=1e-13)

    def test_its_minimiser_is_the_galerkin_solution_and_its_metric_the_stiffness_matrix(self):
        expected = np.linalg.solve(self.stiffness, self.values.T @ (WEIGHTS * np.exp(NODES)))
        found = one_step(self.loss, self.model, self.zero)
        np.testing.assert_allclose(self.values @ found, self.values @ expected, rtol=1e-10)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_allclose(gram(self.loss, self.zero, D=self.model), self.stiffness, rtol=1e-12)

    def test_the_excess_is_half_the_squared_energy_norm_of_the_error(self):
        loss = riesz.ritz(1.0, 2.0, DOMAIN)
        u, v = (lambda x: x * (1 - x)), (lambda x: jnp.sin(jnp.pi * x))
        error = WEIGHTS @ (np.pi * np.cos(np.pi * NODES) - 1 + 2 * NODES) ** 2 / 2
        np.testing.assert_allclose(loss(v) - loss(u), error, rtol=1e-12)

    def test_with_matrices(self):
        square = riesz.gauss_legendre((0, 0), (1, 1), 4)
        v = lambda x: x[0] ** 2 + x[0] * x[1]
        matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
        p, q = np.asarray(square.x).T
        slope = np.stack([2 * p + q, p])
        expected = np.asarray(square.weights) @ (np.einsum("im,ij,jm->m", slope, matrix, slope) / 2 - (p**2 + p * q))
        for a in (matrix, lambda x: matrix):
            np.testing.assert_allclose(riesz.ritz(a, 1.0, square)(v), expected, rtol=1e-12)

    def test_on_drawn_points(self):
        """Coefficients are evaluated where the points are."""
        drawn = riesz.monte_carlo(0.0, 1.0, 5)
        key = jax.random.key(3)
        points = drawn.draw(jax.random.fold_in(key, 0))
        expected = riesz.ritz(self.a, jnp.exp, points)(jnp.sin)
        np.testing.assert_allclose(riesz.ritz(self.a, jnp.exp, drawn)(jnp.sin, key=key), expected, rtol=1e-13)

    def test_a_value_of_shape_one_is_a_value(self):
        np.testing.assert_allclose(self.loss(lambda x: jnp.sin(x)[None]), self.loss(jnp.sin), rtol=1e-14)


# ------------------------------------------------------------------------------------------ equations: residuals


def quadratics(x):
    """All x_1^i x_2^j with i + j <= 2."""
    return x[0] ** jnp.array([0, 1, 2, 0, 1, 0]) * x[1] ** jnp.array([0, 0, 0, 1, 1, 2])


def stokes(v):
    """(-laplace u + grad p, div u) for v = (u_1, u_2, p)."""
    first, second = riesz.gradient(v), riesz.gradient(riesz.gradient(v))

    def system(x):
        slope, bending = first(x), second(x)
        momentum = slope[2] - jnp.einsum("pii->p", bending)[:2]
        return jnp.concatenate([momentum, (slope[0, 0] + slope[1, 1])[None]])

    return system


def velocity(v):
    return lambda x: v(x)[:2]


def pressure(v):
    return lambda x: v(x)[2]


def test_a_system_of_equations_is_solved():
    """Stokes: the flow between two plates, u = (y (1 - y), 0), p = -2 x, all polynomials of degree 2."""
    model, theta = riesz.linear(lambda x: jnp.kron(jnp.eye(3), quadratics(x)), size=18)
    inside = riesz.gauss_legendre((0, 0), (1, 1), 4)
    loss = (
        riesz.residual(stokes, 0.0, inside)
        + riesz.residual(
            velocity, lambda x: jnp.stack([x[1] * (1 - x[1]), 0 * x[0]]), riesz.boundary((0, 0), (1, 1), 4)
        )
        + riesz.residual(pressure, 0.0, riesz.points([[0.0, 0.0]]))
    )
    found = jax.vmap(model(one_step(loss, model, theta)))(inside.x)
    p, q = np.asarray(inside.x).T
    np.testing.assert_allclose(found, np.stack([q * (1 - q), 0 * p, -2 * p], axis=1), atol=1e-11)


NU = 0.5


def burgers(v):
    """u_t + u u_x - nu u_xx at points (x, t)."""
    along_x = lambda v: lambda x: jax.jvp(v, (x,), (jnp.array([1.0, 0.0]),))[1]
    along_t = lambda v: lambda x: jax.jvp(v, (x,), (jnp.array([0.0, 1.0]),))[1]
    return lambda x: along_t(v)(x) + v(x) * along_x(v)(x) - NU * along_x(along_x(v))(x)


def wave(x):
    """A travelling wave of Burgers' equation: speed 1/2, height 1."""
    return 0.5 - jnp.tanh((x[0] - 0.5 * x[1]) / (2 * NU))


def waves(theta):
    """Models that contain it."""
    return lambda x: theta[0] - theta[1] * jnp.tanh(theta[2] * x[0] - theta[3] * x[1] + theta[4])


def test_a_nonlinear_equation_with_boundary_and_initial_values_is_solved():
    time = riesz.gauss_legendre(0.0, 1.0, 6)
    inside = riesz.product(riesz.gauss_legendre(-1.0, 1.0, 8), time)
    loss = (
        riesz.residual(burgers, 0.0, inside)
        + riesz.residual(riesz.identity, wave, riesz.product(riesz.points([-1.0, 1.0]), time))
        + riesz.residual(riesz.identity, wave, riesz.product(riesz.gauss_legendre(-1.0, 1.0, 8), riesz.points([0.0])))
    )
    theta = solve(loss, waves, jnp.array([0.3, 1.2, 0.9, 0.3, 0.1]))
    np.testing.assert_allclose(theta, [0.5, 1, 1, 0.5, 0], atol=1e-10)


# ------------------------------------------------------------------------------------------------------- metrics


def ripples(theta):
    """a sin(b x)."""
    return lambda x: theta[0] * jnp.sin(theta[1] * x)


def ripple_rows(theta):
    """Values, rows, and the rows of the derivative."""
    (a, b), s, c = theta, np.sin(theta[1] * X), np.cos(theta[1] * X)
    return a * s, np.stack([s, a * X * c], axis=1), np.stack([b * c, a * c - a * b * X * s], axis=1)


def test_a_metric_for_the_gradient_and_another_for_the_momentum():
    """Two steps of natural heavy ball with W = H1 and X a weighted L2, against dense matrices."""
    y, weights = np.cos(X), 1 + X**2
    H1 = riesz.InnerProduct(riesz.value_and_gradient)
    weighted = riesz.InnerProduct(over=riesz.points(x, weights=weights))
    method = riesz.nhb(beta=0.5, W=H1, X=weighted, step_size=riesz.Constant(0.3), filter=riesz.Cutoff(1e-12))
    loss = riesz.least_squares(riesz.points(x, data=y))
    start = np.array([0.8, 1.7])
    found = riesz.minimise(loss, ripples, jnp.asarray(start), method, max_steps=2, progress=False).last

    theta, delta, before = start, np.zeros(2), np.zeros((40, 2))
    for _ in range(2):
        v, psi, slope = ripple_rows(theta)
        g = np.linalg.solve((psi.T @ psi + slope.T @ slope) / 40, psi.T @ (v - y) / 40)
        d = np.linalg.solve(psi.T @ (weights[:, None] * psi), psi.T @ (weights * (before @ delta)))
        delta, before = 0.5 * d - 0.3 * g, psi
        theta = theta + delta
    np.testing.assert_allclose(found, theta, rtol=1e-11)


def test_a_weighted_l2_by_its_density_and_by_its_measure():
    loss = riesz.least_squares(riesz.points(x, data=X))
    by_measure = riesz.InnerProduct(over=riesz.points(x, weights=1 + X**2))
    by_density = riesz.InnerProduct(
        density=lambda z, weight: 0.5 * weight * z**2, over=riesz.points(x, data=1 + X**2, weights=np.ones(40))
    )
    expected = PSI.T @ ((1 + X**2)[:, None] * PSI)
    for W in (by_measure, by_density):
        np.testing.assert_allclose(gram(loss, ZERO, W), expected, rtol=1e-12)


# ------------------------------------------------------------------------------ single precision, no recompilation


@pytest.mark.parametrize("name", ["huber", "pseudo_huber", "poisson", "sobolev", "density_kl", "ritz"])
def test_single_precision_stays_single(name):
    """Numbers such as delta and a are weakly typed."""
    single = lambda a: np.asarray(a, np.float32)
    over = riesz.points(single(X), data=single(np.stack([X, X], axis=1) if name == "sobolev" else X))
    domain = riesz.points(single(NODES), weights=single(WEIGHTS))
    make = {
        "density_kl": lambda over: riesz.density_kl(over, domain),
        "ritz": lambda over: riesz.ritz(1.0, 2.0, domain),
    }.get(name, getattr(riesz, name))
    psi = jax.jit(lambda theta: riesz.tangent_space(make(over), riesz.normalised(D, domain), theta).psi)
    assert psi(jnp.ones(4, np.float32)).dtype == np.float32


class Times(eqx.Module):
    """A source with a number in it."""

    factor: jax.Array

    def __call__(self, x):
        return self.factor * x


COUNTS = np.arange(40) % 3
AGAIN = {
    "huber": lambda s: (riesz.huber(riesz.points(x, data=s * X), delta=s), D),
    "pseudo_huber": lambda s: (riesz.pseudo_huber(riesz.points(x, data=s * X), delta=s), D),
    "softmax": lambda s: (
        riesz.softmax(riesz.points(x * s, data=COUNTS)),
        riesz.linear(three, size=4)[0],
    ),
    "ritz": lambda s: (riesz.ritz(s, lambda x: s * x, riesz.points(NODES, weights=WEIGHTS)), D),
    # On a domain, fresh points need the source itself, and a lambda made anew would compile again.
    "ritz on a domain": lambda s: (riesz.ritz(s, Times(jnp.asarray(s)), DOMAIN), D),
    "drawn ritz": lambda s: (riesz.ritz(s, jnp.exp, riesz.monte_carlo(0.0, s, 5)), D),
    "normalised": lambda s: (
        riesz.density_kl(riesz.points(s * SAMPLE), DOMAIN),
        riesz.normalised(D, riesz.points(NODES, weights=s * WEIGHTS)),
    ),
}


def three(x):
    return jnp.stack([powers(x), -powers(x), 0 * powers(x)])


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", AGAIN)
def test_other_numbers_compile_nothing(name, caplog):
    def compiles(s):
        loss, model = AGAIN[name](s)
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            riesz.minimise(loss, model, ZERO + 0.1, riesz.gd(), max_steps=2, key=jax.random.key(0), progress=False)
        return any("Compiling" in record.message for record in caplog.records)

    assert compiles(0.5)
    assert not compiles(0.25)


# ----------------------------------------------------------------------------------------------------- bad input

OVER, BARE = riesz.points(x, data=X), riesz.points(x)
PAIR, PAIR_ZERO = riesz.linear(lambda x: jnp.stack([powers(x), powers(x)]), size=4)
DRAWN = riesz.monte_carlo(0.0, 1.0, 5)
nan = float("nan")


def fit(loss, D=D, **options):
    return riesz.minimise(loss, D, ZERO, max_steps=1, **options)


# What is wrong, the call, the exception, and a pattern of its message with the name of the argument.
WRONG = [
    ("delta is zero", lambda: riesz.huber(OVER, 0.0), ValueError, "delta must be greater than 0, but it is 0"),
    ("delta is text", lambda: riesz.huber(OVER, "a"), TypeError, "delta must be a number"),
    ("delta is NaN", lambda: riesz.pseudo_huber(OVER, nan), ValueError, "delta must be finite"),
    ("two deltas", lambda: riesz.pseudo_huber(OVER, [1.0, 2.0]), ValueError, "delta must be a single number"),
    ("huber of points", lambda: riesz.huber(x), TypeError, "over must be a measure"),
    ("huber without data", lambda: fit(riesz.huber(BARE)), ValueError, "over must carry data for huber"),
    ("huber of a pair", lambda: fit(riesz.huber(OVER), PAIR), ValueError, r"data must match the model in huber: .*2,"),
    ("pseudo_huber without data", lambda: fit(riesz.pseudo_huber(BARE)), ValueError, "over .* data for pseudo_huber"),
    ("poisson without data", lambda: fit(riesz.poisson(BARE)), ValueError, "over must carry data for poisson"),
    ("negative counts", lambda: riesz.poisson(riesz.points(x, data=-X)), ValueError, "data must be counts .* -1.0"),
    (
        "negative counts in batches",
        lambda: riesz.poisson(riesz.minibatch(riesz.points(x, data=-X), 5)),
        ValueError,
        "data must be counts",
    ),
    ("softmax without data", lambda: fit(riesz.softmax(BARE), PAIR), ValueError, "over must carry data for softmax"),
    ("labels are reals", lambda: riesz.softmax(OVER), TypeError, "data must be whole-number labels .* float64"),
    ("negative label", lambda: riesz.softmax(riesz.points(x, data=COUNTS - 1)), ValueError, "data .* it holds -1"),
    (
        "one-hot labels",
        lambda: fit(riesz.softmax(riesz.points(x, data=np.eye(2, dtype=int)[COUNTS % 2])), PAIR),
        ValueError,
        r"data must be one whole-number label per point for softmax, but a point has shape \(2,\)",
    ),
    (
        "too few logits",
        lambda: fit(riesz.softmax(riesz.points(x, data=COUNTS)), PAIR),
        ValueError,
        r"D must give a vector of one logit per class for softmax, at least 3, but values are \(2,\)",
    ),
    ("one logit", lambda: fit(riesz.softmax(riesz.points(x, data=0 * COUNTS))), ValueError, "D must give .* least 2"),
    ("sobolev without data", lambda: fit(riesz.sobolev(BARE)), ValueError, "over must carry data for sobolev"),
    ("no slopes", lambda: fit(riesz.sobolev(OVER)), ValueError, r"data must match the model in sobolev: .*\(2,\)"),
    ("samples are points", lambda: riesz.density_l2(x, DOMAIN), TypeError, "samples must be a measure"),
    ("reference is a number", lambda: riesz.density_kl(BARE, 1.0), TypeError, "reference must be a measure"),
    ("density of a pair", lambda: fit(riesz.density_l2(BARE, DOMAIN), PAIR), ValueError, "D must have scalar values"),
    ("entropy of a pair", lambda: fit(riesz.density_kl(BARE, DOMAIN), PAIR), ValueError, "D must have scalar values"),
    ("a is zero", lambda: riesz.ritz(0.0, 1.0, DOMAIN), ValueError, "a must be greater than 0, but it is 0"),
    ("a is text", lambda: riesz.ritz("a", 1.0, DOMAIN), TypeError, "a must be a number"),
    ("a changes sign", lambda: riesz.ritz(lambda x: x - 0.5, 1.0, DOMAIN), ValueError, "a must .*, but at point 0"),
    ("a is a vector", lambda: riesz.ritz(lambda x: x * np.ones(2), 1.0, DOMAIN), ValueError, r"a must give .* \(2,\)"),
    ("a fails", lambda: riesz.ritz(lambda x: x[1], 1.0, DOMAIN), ValueError, r"a must be a function of a point, but"),
    ("f is NaN", lambda: riesz.ritz(1.0, nan, DOMAIN), ValueError, "f must be finite"),
    ("f is NaN at 0", lambda: riesz.ritz(1.0, lambda x: x / x, BARE), ValueError, "f must be finite, but row 0 is not"),
    ("f is None", lambda: riesz.ritz(1.0, None, DOMAIN), TypeError, "f must be a number, not None"),
    ("f is a vector", lambda: riesz.ritz(1.0, lambda x: jnp.ones(2), DOMAIN), ValueError, r"f must give a number .*2,"),
    (
        "f is a vector at drawn points",
        lambda: fit(riesz.ritz(1.0, lambda x: jnp.ones(2), DRAWN), key=jax.random.key(0)),
        ValueError,
        r"f must give a number at every point, but its shape is \(2,\)",
    ),
    ("ritz over a number", lambda: riesz.ritz(1.0, 1.0, 1.0), TypeError, "over must be a measure"),
    ("ritz of a pair", lambda: fit(riesz.ritz(1.0, 1.0, DOMAIN), PAIR), ValueError, "D must have scalar .* for ritz"),
    ("normalised pair", lambda: riesz.normalised((D, ZERO), DOMAIN), TypeError, "D must be a function"),
    ("normalised over drawn points", lambda: riesz.normalised(D, DRAWN), TypeError, "over must be fixed points"),
    (
        "normalised over nothing",
        lambda: riesz.normalised(D, riesz.points(x, weights=0 * X)),
        ValueError,
        "over must have a positive mass",
    ),
    (
        "normalised vectors",
        lambda: fit(riesz.density_kl(BARE, DOMAIN), riesz.normalised(PAIR, DOMAIN)),
        ValueError,
        r"D must have scalar values to be normalised, but values are \(2,\)",
    ),
    (
        "normalised over other points",
        lambda: fit(riesz.density_kl(BARE, DOMAIN), riesz.normalised(D, riesz.grid((0, 0), (1, 1), 3))),
        ValueError,
        "D must",
    ),
]


@pytest.mark.parametrize("call, error, message", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_call_is_answered_with_one_sentence(call, error, message):
    check_sentence(call, error, f"^{message}")


# ---------------------------------------------------------------------------------------------------------- docs

PAGE = (pathlib.Path(__file__).parents[1] / "docs/losses.md").read_text()


def test_the_examples_of_the_losses_page_run(tmp_path):
    names = run_page("docs/losses.md", tmp_path)
    np.testing.assert_allclose(names["galerkin"].loss, -1 / 6, rtol=1e-10)
    np.testing.assert_allclose(names["galerkin"].function(0.3), 0.21, rtol=1e-8)
    for name in ("robust", "counts", "classes", "both", "estimate", "likelihood", "energy", "system"):
        assert isinstance(names[name], riesz.Loss | riesz.Integral)


def test_the_losses_page_names_every_loss():
    rows = set(re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE))
    public = {name for name in vars(riesz._problem.losses) if not name.startswith("_") and hasattr(riesz, name)}
    assert rows == public
