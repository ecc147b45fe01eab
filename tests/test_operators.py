"""Operators against closed forms: scalar and vector points, scalar and vector values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import riesz
from riesz._problem.checks import check_problem

matrices = hnp.arrays(float, (3, 3), elements=st.floats(-3, 3))
vectors = hnp.arrays(float, 3, elements=st.floats(-3, 3))


def test_identity_leaves_a_function_as_it_is():
    assert riesz.identity(jnp.sin) is jnp.sin


class TestDerivative:
    @pytest.mark.parametrize("x", [0.3, np.float64(-1.2), jnp.asarray(2.0)])
    def test_of_a_scalar_function(self, x):
        np.testing.assert_allclose(riesz.derivative(jnp.sin)(x), np.cos(x), rtol=1e-14)

    def test_nests(self):
        third = riesz.derivative(riesz.derivative(riesz.derivative(jnp.sin)))
        np.testing.assert_allclose(third(0.7), -np.cos(0.7), rtol=1e-13)

    def test_keeps_the_shape_of_the_value_at_a_point_of_shape_one(self):
        x = jnp.array([0.4])
        assert riesz.derivative(lambda x: jnp.sin(x[0]))(x).shape == ()
        np.testing.assert_allclose(riesz.derivative(jnp.sin)(x), np.cos([0.4]), rtol=1e-14)

    def test_of_a_vector_function(self):
        curve = lambda t: jnp.stack([jnp.cos(t), jnp.sin(t), t**2])
        np.testing.assert_allclose(riesz.derivative(curve)(0.5), [-np.sin(0.5), np.cos(0.5), 1.0], rtol=1e-14)

    def test_refuses_vector_points(self):
        with pytest.raises(ValueError, match="use gradient"):
            riesz.derivative(jnp.sum)(jnp.ones(2))


class TestGradient:
    @settings(deadline=None, max_examples=8)
    @given(matrices, vectors)
    def test_of_a_quadratic_form(self, A, x):
        found = riesz.gradient(lambda x: x @ A @ x)(x)
        np.testing.assert_allclose(found, (A + A.T) @ x, atol=1e-11)

    @settings(deadline=None, max_examples=8)
    @given(matrices, vectors)
    def test_of_a_vector_function_has_the_axis_of_points_last(self, A, x):
        found = riesz.gradient(lambda x: jnp.sin(A[:2] @ x))(x)
        np.testing.assert_allclose(found, np.cos(A[:2] @ x)[:, None] * A[:2], atol=1e-11)

    def test_at_scalar_points_is_the_derivative(self):
        np.testing.assert_allclose(riesz.gradient(jnp.exp)(0.3), np.exp(0.3), rtol=1e-14)

    def test_at_points_of_shape_one(self):
        found = riesz.gradient(lambda x: jnp.exp(x[0]))(jnp.array([0.3]))
        np.testing.assert_allclose(found, [np.exp(0.3)], rtol=1e-14)


class TestLaplacian:
    @settings(deadline=None, max_examples=8)
    @given(matrices, vectors)
    def test_of_a_quadratic_form(self, A, x):
        np.testing.assert_allclose(riesz.laplacian(lambda x: x @ A @ x)(x), 2 * np.trace(A), atol=1e-11)

    @settings(deadline=None, max_examples=8)
    @given(vectors)
    def test_of_a_plane_wave(self, k):
        x = jnp.array([0.1, -0.4, 0.7])
        found = riesz.laplacian(lambda x: jnp.sin(k @ x))(x)
        np.testing.assert_allclose(found, -(k @ k) * np.sin(k @ np.asarray(x)), atol=1e-11)

    def test_of_a_harmonic_function_is_zero(self):
        harmonic = lambda x: x[0] ** 3 - 3 * x[0] * x[1] ** 2
        np.testing.assert_allclose(riesz.laplacian(harmonic)(jnp.array([1.3, -0.7])), 0, atol=1e-13)

    def test_of_a_vector_function(self):
        v = lambda x: jnp.stack([x[0] ** 2, jnp.sin(x[1]), x[0] * x[1]])
        np.testing.assert_allclose(riesz.laplacian(v)(jnp.array([0.2, 0.9])), [2, -np.sin(0.9), 0], atol=1e-14)

    @pytest.mark.parametrize("x", [0.4, jnp.array([0.4])], ids=["scalar", "shape one"])
    def test_in_one_dimension_is_the_second_derivative(self, x):
        found = riesz.laplacian(lambda x: jnp.sin(3 * jnp.reshape(x, ())))(x)
        assert found.shape == ()
        np.testing.assert_allclose(found, -9 * np.sin(1.2), rtol=1e-13)

    def test_of_a_network(self):
        """The sum over neurons of a tanh''(w x + b) |w|^2, with tanh'' = -2 tanh (1 - tanh^2)."""
        D, theta = riesz.mlp(jax.random.key(0), (2, 3, 1))
        params = jax.tree.map(np.asarray, D.params(theta))
        x = np.array([0.1, -0.4])
        t = np.tanh(params.weights[0] @ x + params.biases[0])
        expected = params.weights[1] @ (-2 * t * (1 - t**2) * np.sum(params.weights[0] ** 2, axis=1))
        np.testing.assert_allclose(jax.jit(riesz.laplacian(D(theta)))(x), expected[0], rtol=1e-12)


def test_rows_are_the_derivatives_of_the_operators_values():
    """For v = a sin(b x): v'' = -a b^2 sin(b x), differentiated in a and b by hand."""
    x = jnp.linspace(0.1, 1.0, 5)
    a, b = 1.5, 2.0
    D = lambda theta: lambda x: theta[0] * jnp.sin(theta[1] * x)
    loss = riesz.residual(riesz.laplacian, 0.0, riesz.points(x))
    psi = jax.jit(lambda theta: riesz.tangent_space(loss, D, theta).psi)(jnp.array([a, b]))
    rows = np.stack([-(b**2) * np.sin(b * x), -2 * a * b * np.sin(b * x) - a * b**2 * x * np.cos(b * x)], axis=1)
    np.testing.assert_allclose(psi, rows / np.sqrt(5), rtol=1e-12)


SECOND = {
    "laplacian": riesz.laplacian,
    "hessian": riesz.hessian,
    "partial": riesz.partial(0, 0),
    "divergence": lambda v: riesz.divergence(riesz.gradient(v)),
    "space": riesz.spatial(riesz.laplacian),
    "fourth order": lambda v: riesz.laplacian(riesz.laplacian(v)),
    "with a coefficient": lambda v: lambda x: -(1 + x[0]) * riesz.laplacian(v)(x),
}
OTHER = {
    "identity": riesz.identity,
    "gradient": riesz.gradient,
    "heat": lambda v: lambda x: riesz.time_derivative(v)(x) - riesz.spatial(riesz.laplacian)(v)(x),
    "a product": lambda v: lambda x: riesz.laplacian(lambda x: x[0] ** 2 * v(x))(x),
}
STRAIGHT = {
    "relu": "relu",
    "identity": "identity",
    "maximum": lambda x: jnp.maximum(x, 0),
    "leaky relu": jax.nn.leaky_relu,
    "clip": lambda x: jnp.clip(x, -1, 1),
    "modulus": jnp.abs,
}


class TestDependenceOnTheParameters:
    """Whether an operator leaves anything of the parameters is seen before anything is compiled."""

    square = riesz.grid((0.0, 0.0), (1.0, 1.0), 3)

    def idle(self, operator, activation, sizes=(2, 4, 3, 1)):
        D, theta = riesz.mlp(jax.random.key(0), sizes, activation)
        return check_problem(riesz.residual(operator, 1.0, self.square), D, theta, None)

    @pytest.mark.at_once(14)
    @pytest.mark.parametrize("operator", SECOND.values(), ids=SECOND.keys())
    @pytest.mark.parametrize("activation", STRAIGHT.values(), ids=STRAIGHT.keys())
    def test_second_derivatives_leave_nothing_of_a_piecewise_linear_network(self, operator, activation):
        assert self.idle(operator, activation) == ("the loss",)

    @pytest.mark.parametrize("operator", OTHER.values(), ids=OTHER.keys())
    def test_other_operators_leave_something_of_it(self, operator):
        assert self.idle(operator, "relu") == ()

    @pytest.mark.parametrize("operator", (SECOND | OTHER).values(), ids=(SECOND | OTHER).keys())
    def test_every_operator_leaves_something_of_a_smooth_network(self, operator):
        assert self.idle(operator, "tanh") == ()

    def test_a_term_that_is_idle_is_named_and_the_others_are_minimised(self):
        D, theta = riesz.mlp(jax.random.key(0), (2, 4, 1), "relu")
        sides = riesz.residual(riesz.identity, 0.5, riesz.boundary((0.0, 0.0), (1.0, 1.0), 3))
        loss = sides + riesz.residual(riesz.laplacian, 0.0, self.square)
        with pytest.warns(UserWarning, match="^In term 1 of the loss the operator's values do not depend on the param"):
            both = riesz.minimise(loss, D, theta, "ngd", max_steps=3, progress=False)
        alone = riesz.minimise(sides, D, theta, "ngd", max_steps=3, progress=False)
        np.testing.assert_allclose(both.theta, alone.theta, rtol=1e-8)

    def test_a_model_without_parameters_is_not_blamed_on_the_operator(self):
        loss = riesz.residual(riesz.laplacian, 1.0, self.square)
        assert check_problem(loss, lambda theta: lambda x: x[0] * x[1], jnp.ones(2), None) == ()
