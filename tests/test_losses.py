"""Losses: values, slopes and curvatures against closed forms, their arithmetic, and which densities are linear."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from riesz._problem.curvature import Curvature

x = jnp.linspace(-1.0, 2.0, 7)
y = jnp.cos(3 * x)
over = riesz.points(x, data=y)
X, Y = np.asarray(x), np.asarray(y)


class TestLeastSquares:
    def test_is_half_the_mean_squared_error(self):
        np.testing.assert_allclose(riesz.least_squares(over)(jnp.exp), np.mean((np.exp(X) - Y) ** 2) / 2, rtol=1e-14)

    def test_of_vectors_sums_their_entries(self):
        data = jnp.stack([y, -y, x], axis=1)
        v = lambda x: jnp.stack([x, x**2, jnp.ones_like(x)])
        errors = np.stack([X - Y, X**2 + Y, 1 - X])
        loss = riesz.least_squares(riesz.points(x, data=data))
        np.testing.assert_allclose(loss(v), np.sum(np.mean(errors**2, axis=1)) / 2, rtol=1e-14)

    def test_a_value_of_shape_one_and_scalar_data_are_equal(self):
        plain = riesz.least_squares(over)
        expected = plain(jnp.exp)
        np.testing.assert_array_equal(plain(lambda x: jnp.exp(x)[None]), expected)
        np.testing.assert_array_equal(riesz.least_squares(riesz.points(x, data=y[:, None]))(jnp.exp), expected)

    def test_weights_weigh(self):
        weights = jnp.arange(7.0)
        loss = riesz.least_squares(riesz.points(x, data=y, weights=weights))
        np.testing.assert_allclose(loss(jnp.exp), np.arange(7) @ (np.exp(X) - Y) ** 2 / 2, rtol=1e-14)

    def test_integer_data_are_numbers_too(self):
        loss = riesz.least_squares(riesz.points(x, data=jnp.arange(7)))
        np.testing.assert_allclose(loss(jnp.exp), np.mean((np.exp(X) - np.arange(7)) ** 2) / 2, rtol=1e-14)


class TestResidual:
    line = riesz.points(x)

    @pytest.mark.parametrize("source", [2.0, 2, jnp.asarray(2.0), lambda x: 2.0, lambda x: jnp.full(1, 2.0)])
    def test_of_a_constant_source(self, source):
        found = riesz.residual(riesz.derivative, source, self.line)(jnp.sin)
        np.testing.assert_allclose(found, np.mean((np.cos(X) - 2) ** 2) / 2, rtol=1e-13)

    def test_of_a_function(self):
        found = riesz.residual(riesz.laplacian, jnp.exp, self.line)(jnp.sin)
        np.testing.assert_allclose(found, np.mean((-np.sin(X) - np.exp(X)) ** 2) / 2, rtol=1e-13)

    def test_of_a_vector_equation(self):
        plane = jnp.stack([x, x**2], axis=1)
        v = lambda x: x[0] ** 2 + 3 * x[1]
        loss = riesz.residual(riesz.gradient, lambda x: x, riesz.points(plane))
        found = jax.jit(lambda: loss(v))()
        np.testing.assert_allclose(found, np.mean((2 * X - X) ** 2 + (3 - X**2) ** 2) / 2, rtol=1e-13)

    def test_of_a_number_against_a_vector(self):
        v = lambda x: jnp.stack([x, 2 * x])
        found = riesz.residual(riesz.identity, 1.0, self.line)(v)
        np.testing.assert_allclose(found, np.mean((X - 1) ** 2 + (2 * X - 1) ** 2) / 2, rtol=1e-13)

    def test_of_a_nonlinear_equation(self):
        operator = lambda v: lambda x: riesz.derivative(v)(x) + v(x) ** 2
        found = riesz.residual(operator, 0.0, self.line)(jnp.sin)
        np.testing.assert_allclose(found, np.mean((np.cos(X) + np.sin(X) ** 2) ** 2) / 2, rtol=1e-13)

    def test_of_a_solution_is_zero(self):
        assert (
            riesz.residual(riesz.laplacian, lambda x: -4 * jnp.sin(2 * x), self.line)(lambda x: jnp.sin(2 * x)) < 1e-28
        )

    def test_the_source_is_evaluated_at_drawn_points(self):
        loss = riesz.residual(riesz.identity, jnp.sin, riesz.monte_carlo(0.0, 1.0, 5))
        values = jax.jit(jax.vmap(lambda key: (loss(jnp.sin, key=key), loss(jnp.cos, key=key))))
        sin, cos = values(jax.random.split(jax.random.key(0)))
        assert sin.tolist() == [0, 0]
        assert cos[0] != cos[1]


class TestLogistic:
    labels = np.array([0, 1, 1, 0, 1, 0, 1])
    logits = np.array([-800.0, -3.0, -0.1, 0.0, 0.7, 5.0, 800.0])
    term = riesz.logistic(riesz.points(x, data=labels))

    def test_is_the_cross_entropy(self):
        v = lambda x: 4 * x - 1
        z = 4 * X - 1
        log_p = scipy.special.log_expit
        expected = np.mean(-self.labels * log_p(z) - (1 - self.labels) * log_p(-z))
        np.testing.assert_allclose(self.term(v), expected, rtol=1e-14)

    def test_its_slope_is_probability_minus_label(self):
        slope = eqx.filter_jit(self.term.densities_and_slopes)(jnp.asarray(self.logits), self.term.over)[1]
        np.testing.assert_allclose(slope[:, 0], scipy.special.expit(self.logits) - self.labels, rtol=1e-13, atol=1e-15)

    def test_its_curvature_is_the_variance_of_a_label(self):
        assert self.term.curvature(jnp.asarray(self.logits), self.term.over) is Curvature.DIAGONAL
        curvature = eqx.filter_jit(self.term.diagonals)(jnp.asarray(self.logits), self.term.over)
        p = scipy.special.expit(self.logits)
        np.testing.assert_allclose(curvature[:, 0], p * scipy.special.expit(-self.logits), rtol=1e-12)

    @pytest.mark.parametrize("labels", [labels == 1, labels.astype(float), labels / 2], ids=["bool", "float", "half"])
    def test_labels_may_be_of_any_kind(self, labels):
        loss = riesz.logistic(riesz.points(x, data=labels))
        z = 4 * X - 1
        np.testing.assert_allclose(loss(lambda x: 4 * x - 1), np.mean(np.logaddexp(0, z) - labels * z), rtol=1e-13)


class TestArithmetic:
    first = riesz.least_squares(over)
    second = riesz.residual(riesz.derivative, 0.0, over)

    @settings(deadline=None, max_examples=10)
    @given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
    def test_losses_add_and_scale_as_their_values_do(self, a, b):
        total = a * (self.first + self.second * b) + self.first
        assert len(total.terms) == 3
        p, q = float(self.first(jnp.sin)), float(self.second(jnp.sin))
        np.testing.assert_allclose(total(jnp.sin), a * (p + b * q) + p, rtol=1e-13)

    @pytest.mark.parametrize("factor", [2, 2.0, np.float64(2), np.int64(2), jnp.asarray(2.0)])
    def test_a_factor_may_be_any_number(self, factor):
        for loss in (factor * self.first, self.first * factor):
            np.testing.assert_allclose(loss(jnp.sin), 2 * self.first(jnp.sin), rtol=1e-14)

    def test_a_factor_multiplies_the_weights_of_the_metric(self):
        D, theta = riesz.linear(lambda x: jnp.stack([x, x**2]), size=2)
        gram = lambda loss: jax.jit(lambda theta: riesz.tangent_space(loss, D, theta).gram)(theta)
        np.testing.assert_allclose(gram(3.0 * self.first), 3 * gram(self.first), rtol=1e-13)

    def test_an_operand_is_left_as_it_was(self):
        before = float(self.first(jnp.sin))
        _ = 5.0 * self.first + self.second
        assert float(self.first(jnp.sin)) == before


def pairs(z, data=None):
    """A term's values and points for a density of (z, data)."""
    return jnp.asarray(z), riesz.points(jnp.arange(float(len(z))), data=data)


scalars = pairs([0.0, -1.5, 2.0], data=jnp.array([0.0, 1.0, 2.0]))
vectors = pairs(np.zeros((3, 2)), data=jnp.arange(6.0).reshape(3, 2))
matrix = jnp.array([[1.0, 2.0], [3.0, 4.0]])

LINEAR = {
    "minus z": (lambda z: -z, scalars),
    "affine": (lambda z: 2 * z + 3, scalars),
    "constant": (lambda z: jnp.ones(()), scalars),
    "data times z": (lambda z, data: -data * z, scalars),
    "exp of data times z": (lambda z, data: jnp.exp(data) * z + data**2, scalars),
    "chosen by data": (lambda z, data: jnp.where(data > 0, z, -2 * z), scalars),
    "inner product with data": (lambda z, data: data @ z, vectors),
    "sum of a matrix product": (lambda z: jnp.sum(matrix @ z), vectors),
    "one entry": (lambda z: z[1], vectors),
}

NONLINEAR = {
    "square": (lambda z: 0.5 * z**2, scalars),
    "square minus data": (lambda z, data: 0.5 * z**2 - data * z, scalars),
    "cube, flat at zero": (lambda z: z**3, scalars),
    "fourth power": (lambda z: z**4, scalars),
    "data times square": (lambda z, data: data * z**2, scalars),
    "exp": (lambda z: jnp.exp(z), scalars),
    "minus log": (lambda z: -jnp.log(z + 10), scalars),
    "kink, then square": (lambda z: jnp.where(z > 1, z**2, 2 * z - 1), scalars),
    "square for some data": (lambda z, data: jnp.where(data > 1, z**2, z), scalars),
    "truncated cube": (lambda z: jnp.maximum(z, 0) ** 3, scalars),
    "softplus": (lambda z: jax.nn.softplus(z), scalars),
    "Huber": (lambda z, data: jnp.sqrt(1 + (z - data) ** 2) - 1, scalars),
    "product in a loop": (lambda z: jax.lax.fori_loop(0, 3, lambda i, a: a * z, 1.0), scalars),
    "branch": (lambda z: jax.lax.cond(z > 1, lambda z: z**2, lambda z: z, z), scalars),
    "product of entries": (lambda z: z[0] * z[1], vectors),
    "quadratic form": (lambda z: z @ matrix @ z, vectors),
    "logsumexp": (lambda z: jax.scipy.special.logsumexp(z), vectors),
    "half a square": (lambda z, data: data @ z + 0.5 * z[1] ** 2, vectors),
}


class TestIsLinear:
    @pytest.mark.parametrize("name", LINEAR)
    def test_a_linear_density_is_known(self, name):
        density, (z, points) = LINEAR[name]
        term = riesz.Integral(density, points)
        assert term.curvature(z, points) is Curvature.ZERO

    @pytest.mark.parametrize("name", NONLINEAR)
    def test_a_nonlinear_density_is_never_taken_for_linear(self, name):
        density, (z, points) = NONLINEAR[name]
        assert riesz.Integral(density, points).curvature(z, points) is not Curvature.ZERO

    @settings(deadline=None, max_examples=15)
    @given(st.dictionaries(st.integers(0, 4), st.floats(0.1, 5) | st.floats(-5, -0.1), min_size=1))
    def test_a_polynomial_is_linear_when_its_degree_is_at_most_one(self, coefficients):
        z, points = scalars
        term = riesz.Integral(lambda z: sum(c * z**k for k, c in coefficients.items()) + 0.0 * jnp.sum(z), points)
        assert (term.curvature(z, points) is Curvature.ZERO) == (max(coefficients) <= 1)

    def test_it_is_known_while_tracing_too(self):
        z, points = scalars

        @jax.jit
        def known(z, points):
            linear = riesz.Integral(lambda z, data: -data * z, points).curvature(z, points) is Curvature.ZERO
            nonlinear = riesz.Integral(lambda z, data: data * z**2, points).curvature(z, points) is Curvature.ZERO
            return jnp.array([linear, nonlinear])

        assert known(z, points).tolist() == [True, False]

    def test_a_density_that_closes_over_traced_numbers_is_never_taken_for_linear(self):
        z, points = scalars
        square = jax.jit(
            lambda c: jnp.array(riesz.Integral(lambda z: c * z**2, points).curvature(z, points) is Curvature.ZERO)
        )
        assert not square(1.0)

    def test_least_squares_has_the_identity_for_its_curvature(self):
        for z, points, loss in ((*scalars, riesz.least_squares), (*vectors, riesz.least_squares)):
            assert loss(points).curvature(z, points) is Curvature.IDENTITY
        z, points = vectors
        form = riesz.Integral(lambda z: z @ matrix @ z / 2, points)
        assert form.curvature(z, points) is Curvature.FULL
        np.testing.assert_array_equal(form.hessians(z, points)[1], (matrix + matrix.T) / 2)

    def test_a_density_that_acts_entry_by_entry_is_known(self):
        """One product with the vector of ones then gives the whole second derivative."""
        z, points = vectors
        for density in (
            lambda z: jnp.sum(jnp.cosh(z)),
            lambda z, y: jnp.sum(jnp.where(jnp.abs(z - y) < 1, (z - y) ** 2, jnp.abs(z - y))),
            lambda z: jnp.mean(jax.nn.softplus(z.reshape(2, 1)) ** 2),
            lambda z, y: jnp.sum(jnp.exp(y) * jnp.square(z)) + 3 * z[0],
        ):
            term = riesz.Integral(density, points)
            assert term.curvature(z, points) is Curvature.DIAGONAL
            full = np.asarray(term.hessians(z, points))
            np.testing.assert_allclose(term.diagonals(z, points), np.einsum("mii->mi", full), rtol=1e-14)
            np.testing.assert_array_equal(full * (1 - np.eye(2)), 0 * full)

    @pytest.mark.parametrize("name", ["product of entries", "quadratic form", "logsumexp"])
    def test_a_density_that_mixes_entries_is_never_taken_for_one_that_does_not(self, name):
        density, (z, points) = NONLINEAR[name]
        assert riesz.Integral(density, points).curvature(z, points) is Curvature.FULL

    def test_rules_of_ones_own_that_mix_entries_are_seen(self):
        """A gradient that permutes entries while it reshapes them, and one whose own derivative mixes them."""

        @jax.custom_jvp
        def permuting(z):
            return 0.5 * jnp.sum(z * z.T)

        permuting.defjvp(lambda z, t: (permuting(*z), jnp.sum(jax.lax.reshape(z[0], (2, 2), dimensions=(1, 0)) * t[0])))

        @jax.custom_jvp
        def doubled(z):
            return 2 * z

        doubled.defjvp(lambda z, t: (doubled(*z), 2 * t[0] + 0.3 * t[0][::-1]))

        @jax.custom_jvp
        def surrogate(z):
            return jnp.sum(z**2)

        surrogate.defjvp(lambda z, t: (surrogate(*z), jnp.sum(doubled(*z) * t[0])))
        for density, z in ((permuting, jnp.ones((3, 2, 2))), (surrogate, jnp.ones((3, 4)))):
            points = riesz.points(jnp.arange(3.0))
            assert riesz.Integral(density, points).curvature(z, points) is Curvature.FULL

    @pytest.mark.parametrize("name", ["logsumexp", "branch"])
    def test_a_curvature_that_depends_on_z_is_not_fixed(self, name):
        density, (z, points) = NONLINEAR[name]
        assert riesz.Integral(density, points).curvature(z, points) in (Curvature.FULL, Curvature.DIAGONAL)

    def test_a_curvature_that_depends_on_data_is_not_fixed(self):
        z, points = scalars
        assert riesz.Integral(lambda z, data: data * z**2, points).curvature(z, points) is Curvature.DIAGONAL

    def test_a_density_is_quadratic_where_its_curvature_does_not_depend_on_z(self):
        z, points = vectors
        energy, product = lambda z: z[1] ** 2 / 2 - z[0], lambda z: z[0] * z[1]
        assert all(riesz.Integral(density, points).quadratic(z, points) for density in (energy, product))
        for name in ("logsumexp", "branch"):
            density, (z, points) = NONLINEAR[name]
            assert not riesz.Integral(density, points).quadratic(z, points)
        z, points = scalars
        assert riesz.Integral(lambda z, data: data * z**2, points).quadratic(z, points)
        assert not riesz.Integral(lambda z, data: data * z**4, points).quadratic(z, points)

    def test_a_linear_term_has_no_rows_in_a_gauss_newton_metric(self):
        D, theta = riesz.linear(lambda x: jnp.stack([x, x**2]), size=2)
        quadratic, linear = (
            riesz.Integral(lambda z: 0.5 * z**2, over),
            riesz.Integral(lambda z: -z, riesz.points(x[:4])),
        )
        psi = lambda loss, W: jax.jit(lambda theta: riesz.tangent_space(loss, D, theta, W=W).psi)(theta)
        assert psi(quadratic + linear, riesz.L2()).shape == (7 + 4, 2)
        found = psi(quadratic + linear, riesz.GaussNewton())
        np.testing.assert_allclose(found, psi(quadratic, riesz.L2()), rtol=1e-13)


class TestDifferential:
    """Slopes and curvatures of a density of vectors, by hand."""

    z = jnp.arange(6.0).reshape(3, 2)
    points = riesz.points(jnp.arange(3.0), data=jnp.ones((3, 2)))
    term = riesz.Integral(lambda z, y: z[0] ** 2 * z[1] - y @ z, points)

    def test_slope(self):
        a, b = np.asarray(self.z).T
        expected = np.stack([2 * a * b - 1, a**2 - 1], axis=1)
        np.testing.assert_allclose(
            eqx.filter_jit(self.term.densities_and_slopes)(self.z, self.points)[1], expected, rtol=1e-14
        )

    def test_curvature(self):
        a, b = np.asarray(self.z).T
        expected = np.stack([[2 * b, 2 * a], [2 * a, 0 * a]]).transpose(2, 0, 1)
        np.testing.assert_allclose(eqx.filter_jit(self.term.hessians)(self.z, self.points), expected, rtol=1e-14)

    def test_value(self):
        a, b = np.asarray(self.z).T
        found = self.points.weights @ self.term.densities(self.z, self.points)
        np.testing.assert_allclose(found, np.mean(a**2 * b - a - b), rtol=1e-14)
