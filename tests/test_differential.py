"""Differential operators against closed forms and against nested derivatives, for any function that JAX can trace."""

import math
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import riesz
from compiling import ORDINARY
from riesz._problem.features import along, bend, features
from riesz._problem.models._mlp import ACTIVATIONS
from spoken import run_page

X = jnp.array([0.3, -0.7, 1.1])
A = jnp.array([[1.0, 0.3, -0.2], [0.5, -1.0, 0.4], [0.1, 0.2, 0.7]])


def nested(v):
    """The Laplacian as the trace of the Hessian."""
    return lambda x: jnp.trace(jnp.atleast_2d(jax.jacfwd(jax.jacfwd(v))(x)), axis1=-2, axis2=-1)


def smooth_step(x):
    return jax.lax.cond(x[0] > 0, lambda x: jnp.sin(x) * x[1], lambda x: jnp.cos(x), x)


@jax.custom_jvp
def wrong_by_design(x):
    return x**2


wrong_by_design.defjvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))

FUNCTIONS = {
    "a product": lambda x: x[0] * x[1] * x[2],
    "a quadratic form": lambda x: x @ A @ x,
    "a quotient": lambda x: jnp.sin(x) / (1 + x[::-1] ** 2),
    "a norm": lambda x: jnp.linalg.norm(x),
    "a Gaussian": lambda x: jnp.exp(-x @ x) * x,
    "a power": lambda x: (2 + x) ** jnp.cos(x),
    "a constant": lambda x: 3.0,
    "an affine function": lambda x: A @ x + 1,
    "a product of matrices": lambda x: (jnp.outer(x, x) @ jnp.sin(A * x[None])).ravel(),
    "a batched product": lambda x: jnp.einsum("bij,bj->bi", jnp.stack([A, A.T]) * x[0], jnp.stack([x, x**2])),
    "a residual connection": lambda x: jnp.tanh(A @ (x + jnp.tanh(A @ x))) + x,
    "cosines beside sines": lambda x: jnp.tanh(jnp.concatenate([jnp.cos(A @ x), jnp.ones(1), jnp.sin(A @ x)])),
    "a stack": lambda x: jnp.stack([x, x**2, jnp.roll(x, 1)]).T @ x,
    "a cumulative sum": lambda x: jnp.cumsum(x**2) * jnp.cumprod(x),
    "a determinant": lambda x: jnp.linalg.det(A + jnp.outer(x, x)),
    "a solve": lambda x: jnp.linalg.solve(A + jnp.diag(x**2), x),
    "the largest entry": lambda x: jnp.max(x**3) + jnp.min(x**2),
    "sorted entries": lambda x: jnp.sort(jnp.sin(3 * x)) * jnp.arange(3),
    "an index that depends on x": lambda x: x[jnp.argmax(x)] ** 2,
    "an update": lambda x: x.at[1].set(x[0] ** 2).at[2].multiply(x[1]),
    "a choice": lambda x: jnp.where(x > 0, x**3, jnp.sin(x)),
    "a branch": smooth_step,
    "a scan": lambda x: jax.lax.scan(lambda c, a: (jnp.sin(a @ c), c[0] * x), x, A[None])[1],
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(A @ c) + i * x, x),
    "a loop of unknown length": lambda x: jnp.sum(jax.lax.while_loop(lambda c: c @ c < 99, lambda c: 2 * c, x**2)),
    "a branch with such a loop": lambda x: jax.lax.cond(
        x[0] > 0, lambda x: jax.lax.fori_loop(0, jnp.argmax(x), lambda _, c: c * x[1], x[0]), jnp.sum, x
    ),
    "a checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(A @ x) * x)(x),
    "a compiled function": lambda x: jax.jit(lambda a, x: (a @ x, jnp.sin(x)))(A, x)[1] * x,
    "its own derivative rule": lambda x: wrong_by_design(A @ x),
    "a sum of exponentials": lambda x: jax.nn.logsumexp(A @ x),
    "softmax": lambda x: jax.nn.softmax(A @ x),
    "layer normalisation": lambda x: jax.nn.standardize(x**2),
    "polynomials": lambda x: jnp.polyval(jnp.array([1.0, 2.0, -1.0, 0.5]), x),
    "a gradient": lambda x: jax.grad(lambda x: jnp.sum(jnp.tanh(A @ x)) ** 2)(x),
    "a Laplacian": riesz.laplacian(lambda x: jnp.sin(x @ A @ x) * x),
}


COMPLEX = {
    "the modulus of exponentials": lambda x: jnp.abs(jnp.exp(1j * x[0]) + x[1] ** 2 + jnp.exp(1j * x[2] * x[1])),
    "the modulus entry by entry": lambda x: jnp.abs(2 + jnp.exp(1j * x) * x),
    "the modulus after a product of matrices": lambda x: jnp.abs(jnp.exp((A + 1j * A.T) @ x)),
    "the modulus of an activation after such a product": lambda x: jnp.abs(jnp.tanh((A + 1j * A.T) @ x / 4) + 2),
    "the squared modulus": lambda x: jnp.abs(jnp.sin(x[0] + 1j * x[1]) * x[2]) ** 2,
    "a real part": lambda x: jnp.exp((1 + 2j) * x @ A).real * x,
    "an imaginary part": lambda x: jnp.log(2 + x[0] + 1j * x[1] * x[2]).imag,
    "a real part of a function of a complex variable": lambda x: jnp.sin((x[0] + 1j * x[1]) ** 2).real,
    "a conjugate": lambda x: (jnp.conj(jnp.exp(1j * (A @ x))) * (x + 1j * x[::-1]) ** 2).real,
    "a function of a conjugate": lambda x: jnp.sin(jnp.conj((A + 1j) @ x)).imag,
    "a product with a conjugate": lambda x: jnp.sum(jnp.conj((A + 1j) @ x) * ((A - 1j) @ x) ** 2).real,
    "a complex number of two parts": lambda x: jnp.abs(jax.lax.complex(jnp.sin(x), jnp.cos(x[::-1]) * x)),
    "an angle": lambda x: jnp.angle(2 + jnp.exp(1j * x) * x[0]),
    "a power": lambda x: jnp.abs((2 + 1j * x) ** (1 + 1j * x[::-1])),
    "a quotient": lambda x: (x / (1 + 1j * (A @ x))).imag,
    "a Fourier transform": lambda x: jnp.abs(jnp.fft.fft(jnp.sin(x)) + 3),
    "a branch": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.conj, (1 + 1j) * x**2).imag,
    "a choice": lambda x: jnp.where(x > 0, jnp.exp(1j * x**2), jnp.conj(1j * x)).real,
    "a determinant": lambda x: jnp.abs(jnp.linalg.det(A + 1j * jnp.outer(x, x))),
}


def of_the_hessian(v):
    return lambda x: jnp.trace(jax.hessian(v)(x), axis1=-2, axis2=-1)


B = jnp.array([[0.4 + 0.3j, -0.2j, 0.1], [0.5j, 0.3, -0.2], [0.2, 0.1 - 0.4j, 0.3j]])
# Each of them takes numbers of the closed unit disc to such numbers, and is smooth there.
ENTRIES = {
    "sin": lambda a, b: 0.5 * jnp.sin(a),
    "exp": lambda a, b: 0.3 * jnp.exp(1j * a),
    "tanh": lambda a, b: 0.5 * jnp.tanh(a),
    "power": lambda a, b: a**3,
    "root": lambda a, b: 0.5 * jnp.sqrt(2 + a),
    "logarithm": lambda a, b: 0.3 * jnp.log(2 + a),
    "modulus": lambda a, b: 0.3 * jnp.abs(2 + a),
    "squared modulus": lambda a, b: 0.1 * jnp.abs(2 + 1j * a) ** 2,
    "conjugate": lambda a, b: jnp.conj(a),
    "real part": lambda a, b: jnp.real(a),
    "imaginary part": lambda a, b: jnp.imag(a),
    "angle": lambda a, b: 0.2 * jnp.angle(2 + a),
    "parts": lambda a, b: 0.7 * jax.lax.complex(jnp.real(a), jnp.imag(b) + 0.1),
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a / (2 + b),
    "mean": lambda a, b: (a + b) / 2,
    "choice": lambda a, b: jnp.where(jnp.arange(3) == 1, a, jnp.conj(b)),
    "matrix": lambda a, b: B @ a,
    "real matrix": lambda a, b: A.T @ a / 2,
    "cumulative sum": lambda a, b: jnp.cumsum(a) / 3,
    "shift": lambda a, b: jnp.roll(a, 1),
}
compositions = st.lists(
    st.tuples(st.sampled_from(sorted(ENTRIES)), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=7
)
points = hnp.arrays(float, 3, elements=st.floats(-1, 1))


def composed(composition):
    """The function of x whose steps are given, each by its name and by which two of the values before it it takes.

    Counting goes back from the last value. The values before the first step are x and a complex multiple of it.
    """

    def v(x):
        values = [x, B @ x]
        for name, i, j in composition:
            values.append(ENTRIES[name](values[-1 - i % len(values)], values[-1 - j % len(values)]))
        return values[-1] + 0j

    return v


class TestForwardLaplacian:
    @pytest.mark.at_once(12)
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_is_the_trace_of_the_hessian(self, name):
        v = lambda x: jnp.asarray(FUNCTIONS[name](x))
        found, expected = jax.jit(lambda x: (riesz.laplacian(v)(x), nested(v)(x)))(X)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)

    @pytest.mark.at_once(8)
    @pytest.mark.parametrize("name", COMPLEX)
    def test_through_complex_numbers_is_the_trace_of_the_hessian(self, name):
        found, expected = jax.jit(lambda x: (riesz.laplacian(COMPLEX[name])(x), of_the_hessian(COMPLEX[name])(x)))(X)
        assert found.shape == expected.shape and found.dtype == expected.dtype == float
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)

    def test_of_a_modulus_by_hand(self):
        """|exp(i a) + b^2| = sqrt(1 + 2 b^2 cos(a) + b^4), differentiated twice in a and in b."""
        a, b = 0.3, 0.7
        q = 1 + 2 * b**2 * np.cos(a) + b**4
        slopes = np.array([-2 * b**2 * np.sin(a), 4 * b * np.cos(a) + 4 * b**3])
        expected = (-2 * b**2 * np.cos(a) + 4 * np.cos(a) + 12 * b**2) / (2 * q**0.5) - slopes @ slopes / (4 * q**1.5)
        found = riesz.laplacian(lambda x: jnp.abs(jnp.exp(1j * x[0]) + x[1] ** 2))(jnp.array([a, b]))
        np.testing.assert_allclose(found, expected, rtol=1e-13)

    @settings(deadline=None, max_examples=15)
    @given(compositions, points)
    def test_of_random_compositions(self, composition, x):
        v = composed(composition)
        expected = of_the_hessian(lambda x: v(x).real)(x) + 1j * of_the_hessian(lambda x: v(x).imag)(x)
        np.testing.assert_allclose(riesz.laplacian(v)(x), expected, rtol=1e-9, atol=1e-9)

    def test_of_functions_of_a_scalar(self):
        for v in (jnp.sin, lambda x: x**3, lambda x: jnp.stack([x, x**2]), lambda x: jnp.exp(x) * jnp.ones(4)):
            expected = jax.jacfwd(jax.jacfwd(v))(0.7)
            np.testing.assert_allclose(riesz.laplacian(v)(0.7), expected, rtol=1e-13)

    @pytest.mark.at_once(6)
    @pytest.mark.parametrize("sizes", [(3, 8, 1), (2, 5, 4, 3, 2)], ids=str)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_of_networks(self, activation, sizes):
        D, theta = riesz.mlp(jax.random.key(1), sizes, activation)
        x = jax.random.normal(jax.random.key(2), (7, sizes[0]))
        found, expected = jax.jit(jax.vmap(lambda x: (riesz.laplacian(D(theta))(x), nested(D(theta))(x))))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)

    @pytest.mark.at_once(1)
    @pytest.mark.parametrize("activation", ["tanh", "softplus", "gelu", "swish"])
    def test_rows_and_their_derivatives_are_those_of_nested_derivatives(self, activation):
        """In reverse mode, as rows need it; along theta; twice along theta, as second-order retractions need it."""
        D, theta = riesz.mlp(jax.random.key(1), (3, 6, 5, 2), activation)
        x = jax.random.normal(jax.random.key(2), (7, 3))
        delta = jax.random.normal(jax.random.key(3), theta.shape)
        for quantity in (
            lambda operator: features(D, operator, theta, x).jacobians,
            lambda operator: along(D, operator, theta, delta, x),
            lambda operator: bend(D, operator, theta, delta, x),
        ):
            found, expected = jax.jit(lambda: quantity(riesz.laplacian))(), jax.jit(lambda: quantity(nested))()  # noqa: B023
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(expected))))

    def test_a_second_order_step_is_that_of_nested_derivatives(self):
        D, theta = riesz.mlp(jax.random.key(1), (2, 6, 1))
        over = riesz.gauss_legendre((0.0, 0.0), (1.0, 1.0), 4)
        method = riesz.ngd(filter=riesz.Floor(1e-3), retraction=riesz.SecondOrder())
        moved = []
        for operator in (riesz.laplacian, nested):
            loss = riesz.residual(operator, -1.0, over)
            sample = method.draw(loss, D, theta)
            moved.append(eqx.filter_jit(method.step)(loss, D, theta, method.init(theta), sample)[0])
        np.testing.assert_allclose(moved[0], moved[1], rtol=1e-9)

    def test_of_tensor_trains(self):
        D, theta = riesz.tensor_train(jax.random.key(0), (2, 2), riesz.Legendre(-2.0, 2.0, 4))
        found, expected = jax.jit(lambda x: (riesz.laplacian(D(theta))(x), nested(D(theta))(x)))(X)
        np.testing.assert_allclose(found, expected, rtol=1e-11)

    def test_keeps_single_precision(self):
        D, theta = riesz.mlp(jax.random.key(1), (3, 6, 1))
        assert riesz.laplacian(D(theta.astype(jnp.float32)))(X.astype(jnp.float32)).dtype == jnp.float32

    def test_takes_whole_numbers(self):
        np.testing.assert_allclose(riesz.laplacian(lambda x: x[0] ** 3 * x[1])(np.array([2, 3])), 36.0)


class TestGradient:
    @pytest.mark.at_once(12)
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_is_the_jacobian(self, name):
        """Of functions with one value too, which take reverse mode where there is one."""
        for v in (lambda x: jnp.asarray(FUNCTIONS[name](x)), lambda x: jnp.sum(jnp.sin(FUNCTIONS[name](x)))):
            operators = (riesz.gradient, jax.jacfwd, riesz.value_and_gradient, riesz.identity)
            found, expected, pair, value = jax.jit(lambda x: [A(v)(x) for A in operators])(X)  # noqa: B023
            assert found.shape == expected.shape and found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(pair, np.concatenate([value[..., None], expected], axis=-1), 1e-11, 1e-11)

    @pytest.mark.at_once(5)
    @pytest.mark.parametrize("name", ["gradient", "value_and_gradient", "hessian", "divergence"])
    @pytest.mark.parametrize("sizes", [(3, 6, 1), (4, 5, 6, 2), (2, 5, 3), (3, 4, 3)], ids=str)
    def test_rows_are_those_of_forward_derivatives(self, name, sizes):
        """In forward mode throughout: in the point, then in theta."""
        D, theta = riesz.mlp(jax.random.key(1), sizes)
        x = jax.random.normal(jax.random.key(2), (7, sizes[0]))
        g = lambda theta, x: jax.jacfwd(D(theta))(x)
        oracle = {
            "gradient": g,
            "value_and_gradient": lambda theta, x: jnp.concatenate([D(theta)(x)[..., None], g(theta, x)], axis=-1),
            "hessian": lambda theta, x: jax.jacfwd(g, 1)(theta, x),
            "divergence": lambda theta, x: jnp.trace(jax.jacfwd(g, 1)(theta, x), axis1=-2, axis2=-1),
        }[name]
        divergence = lambda v: riesz.divergence(riesz.gradient(v))
        operator = divergence if name == "divergence" else getattr(riesz, name)
        found = jax.jit(lambda theta: features(D, operator, theta, x))(theta)
        values, rows = jax.jit(lambda theta: jax.vmap(lambda x: (oracle(theta, x), jax.jacfwd(oracle)(theta, x)))(x))(
            theta
        )
        np.testing.assert_allclose(found.values, values, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found.jacobians, rows.reshape(7, -1, theta.size), rtol=1e-10, atol=1e-10)

    def test_of_functions_with_a_reverse_rule_of_their_own(self):
        square = jax.custom_vjp(lambda x: x @ x)
        square.defvjp(lambda x: (x @ x, x), lambda x, covector: (2 * covector * x,))
        np.testing.assert_allclose(riesz.gradient(square)(X), 2 * X, rtol=1e-14)

    def test_takes_whole_numbers_and_constants(self):
        np.testing.assert_allclose(riesz.gradient(lambda x: x[0] ** 3 * x[1])(np.array([2, 3])), [36.0, 8.0])
        np.testing.assert_allclose(riesz.value_and_gradient(lambda x: 3.0)(X), [3.0, 0.0, 0.0, 0.0])


def arrays(program):
    """The shapes of everything that a traced program makes, its inner programs included."""
    for step in program.eqns:
        yield from (v.aval.shape for v in step.outvars)
        for value in step.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from arrays(inner)


class TestCost:
    M, N, WIDTH = 29, 5, 7

    def problem(self):
        D, theta = riesz.mlp(jax.random.key(0), (self.N, self.WIDTH, 1))
        return D, theta, jax.random.normal(jax.random.key(1), (self.M, self.N))

    def flops(self, f, theta):
        return jax.jit(f).lower(theta).compile(ORDINARY).cost_analysis()["flops"]

    def test_a_laplacian_takes_one_pass_and_no_hessian(self):
        D, theta, x = self.problem()
        program = jax.jit(lambda theta: features(D, riesz.laplacian, theta, x))
        assert program.lower(theta).compile(ORDINARY).cost_analysis()["transcendentals"] == self.M * self.WIDTH
        flops = lambda operator: self.flops(lambda theta: features(D, operator, theta, x), theta)
        assert flops(riesz.laplacian) < flops(nested) / 3

    @pytest.mark.parametrize("sizes", [(12, 7, 1), (12, 7, 7, 1)], ids=str)
    def test_rows_of_a_gradient_take_one_pass_for_each_of_them(self, sizes):
        """In forward mode they take one for each of them and each direction."""
        D, theta = riesz.mlp(jax.random.key(0), sizes)
        x = jax.random.normal(jax.random.key(1), (self.M, sizes[0]))
        flops = lambda operator: self.flops(lambda theta: features(D, operator, theta, x), theta)
        rows = sizes[0] * self.M * theta.size
        assert flops(riesz.gradient) < 7 * rows < flops(jax.jacfwd) / 4
        assert flops(riesz.value_and_gradient) < 7 * (rows + self.M * theta.size)

    def test_slopes_of_a_first_layer_are_not_repeated_at_every_point(self):
        """They are the weights: no array of points by dimensions by neurons appears, at fixed time either."""
        D, theta, x = self.problem()
        for operator in (riesz.laplacian, riesz.spatial(riesz.laplacian)):
            seen = lambda theta: jax.vmap(operator(D(theta)))(x)  # noqa: B023
            compiled = jax.jit(seen).lower(theta).compile(ORDINARY).as_text()
            for shape in ((self.M, self.N, self.WIDTH), (self.M, self.WIDTH, self.N), (self.M, self.N - 1, self.WIDTH)):
                assert f"f64[{','.join(map(str, shape))}]" not in compiled

    @pytest.mark.parametrize("name", ["laplacian", "value_and_gradient", "hessian", "time_derivative"])
    def test_rows_hold_no_array_of_points_by_points(self, name):
        D, theta, x = self.problem()
        program = jax.make_jaxpr(lambda theta: features(D, getattr(riesz, name), theta, x))(theta)
        shapes = list(arrays(program.jaxpr))
        assert shapes and all(shape.count(self.M) <= 1 for shape in shapes)


class TestPartial:
    v = staticmethod(lambda x: x[0] ** 2 * jnp.sin(x[1]) * jnp.exp(x[2]))

    @pytest.mark.parametrize(
        "axes, expected",
        [
            ((0,), lambda a, b, c: 2 * a * math.sin(b) * math.exp(c)),
            ((0, 0), lambda a, b, c: 2 * math.sin(b) * math.exp(c)),
            ((0, 1), lambda a, b, c: 2 * a * math.cos(b) * math.exp(c)),
            ((1, -1, 0), lambda a, b, c: 2 * a * math.cos(b) * math.exp(c)),
            ((-3, -2, 1), lambda a, b, c: -2 * a * math.sin(b) * math.exp(c)),
        ],
        ids=["x", "xx", "xy", "yzx", "xyy"],
    )
    def test_of_a_product(self, axes, expected):
        np.testing.assert_allclose(riesz.partial(*axes)(self.v)(X), expected(*map(float, X)), rtol=1e-13)

    def test_of_a_vector_function(self):
        v = lambda x: jnp.stack([x[0] * x[1], x[1] ** 2 * x[2]])
        np.testing.assert_allclose(riesz.partial(1)(v)(X), [X[0], 2 * X[1] * X[2]], rtol=1e-14)

    @pytest.mark.parametrize("x", [0.4, jnp.array([0.4])], ids=["scalar", "shape one"])
    def test_in_one_dimension_is_the_derivative(self, x):
        v = lambda x: jnp.sin(jnp.reshape(x, ()))
        np.testing.assert_allclose(riesz.partial(0, 0)(v)(x), -np.sin(0.4), rtol=1e-14)

    def test_two_of_the_same_axes_are_equal_so_that_nothing_compiles_twice(self):
        assert riesz.partial(0, 1) == riesz.partial(0, 1) and hash(riesz.partial(0, 1)) == hash(riesz.partial(0, 1))
        assert riesz.partial(0, 1) != riesz.partial(0)
        traces = []

        @eqx.filter_jit
        def value(loss):
            traces.append(1)
            return loss(lambda x: x[0] * x[1])

        for _ in range(2):
            over = riesz.grid((0.0, 0.0), (1.0, 1.0), 3)
            terms = [riesz.residual(A, 1.0, over) for A in (riesz.partial(0, 1), riesz.spatial(riesz.laplacian))]
            value(terms[0] + terms[1])
        assert len(traces) == 1

    @pytest.mark.parametrize("axes, x", [((1,), 0.3), ((3,), X), ((0, -4), X), ((0,), jnp.ones((2, 2)))], ids=str)
    def test_refuses_coordinates_that_points_lack(self, axes, x):
        with pytest.raises(ValueError, match=r"axes must name coordinates of the points, whose shape is \("):
            riesz.partial(*axes)(jnp.sum)(x)

    def test_the_sentence_reaches_those_who_minimise(self):
        D, theta = riesz.mlp(jax.random.key(0), (1, 3, 1))
        loss = riesz.residual(riesz.partial(1), 0.0, riesz.grid(0.0, 1.0, 5))
        with pytest.raises(ValueError, match="^axes must name coordinates of the points"):
            riesz.minimise(loss, D, theta, max_steps=1, progress=False)

    def test_refuses_what_is_no_axis(self):
        with pytest.raises(ValueError, match="axes must name at least one coordinate"):
            riesz.partial()
        for axis in (jnp.sin, 1.0, True, "x"):
            with pytest.raises(TypeError, match="axes must be whole numbers"):
                riesz.partial(axis)


class TestSpaceAndTime:
    wave = staticmethod(lambda x: jnp.exp(-5 * x[2]) * jnp.sin(x[0]) * jnp.cos(2 * x[1]))

    def test_the_heat_equation_holds_for_a_decaying_wave(self):
        rate, diffusion = riesz.time_derivative(self.wave), riesz.spatial(riesz.laplacian)(self.wave)
        np.testing.assert_allclose(rate(X), -5 * self.wave(X), rtol=1e-14)
        np.testing.assert_allclose(diffusion(X), -5 * self.wave(X), rtol=1e-14)

    @pytest.mark.at_once(6)
    @pytest.mark.parametrize("sizes", [(3, 8, 1), (2, 4, 4, 2)], ids=str)
    def test_of_networks(self, sizes):
        D, theta = riesz.mlp(jax.random.key(1), sizes)
        v, x = D(theta), X[: sizes[0]]
        H, g = jax.hessian(v)(x), jax.jacfwd(v)(x)
        found = jax.jit(riesz.spatial(riesz.laplacian)(v))(x)
        np.testing.assert_allclose(found, jnp.trace(H[..., :-1, :-1], axis1=-2, axis2=-1), rtol=1e-11)
        np.testing.assert_allclose(riesz.spatial(riesz.gradient)(v)(x), g[..., :-1], rtol=1e-12)
        np.testing.assert_allclose(riesz.time_derivative(v)(x), g[..., -1], rtol=1e-12)

    def test_one_space_dimension_has_points_of_shape_one(self):
        v = lambda x: x[0] ** 3 * x[1]
        np.testing.assert_allclose(riesz.spatial(riesz.derivative)(v)(jnp.array([2.0, 5.0])), 60.0)

    @pytest.mark.parametrize("x", [0.3, jnp.ones(1), jnp.ones((2, 2))], ids=["scalar", "shape one", "matrix"])
    def test_spatial_refuses_points_without_time(self, x):
        with pytest.raises(ValueError, match=r"spatial takes points \(x, t\)"):
            riesz.spatial(riesz.laplacian)(jnp.sum)(x)

    def test_spatial_refuses_what_is_no_operator(self):
        with pytest.raises(TypeError, match="operator must be a function"):
            riesz.spatial(3)


class TestDivergence:
    def test_of_a_field(self):
        field = lambda x: jnp.stack([x[0] ** 2, x[0] * x[1], jnp.sin(x[2])])
        np.testing.assert_allclose(riesz.divergence(field)(X), 3 * X[0] + jnp.cos(X[2]), rtol=1e-14)

    def test_of_a_gradient_is_the_laplacian(self):
        D, theta = riesz.mlp(jax.random.key(1), (3, 6, 4, 2))
        found = riesz.divergence(riesz.gradient(D(theta)))(X)
        np.testing.assert_allclose(found, riesz.laplacian(D(theta))(X), rtol=1e-11)

    def test_of_a_curl_is_zero(self):
        D, theta = riesz.mlp(jax.random.key(1), (2, 6, 1))
        curl = lambda x: riesz.gradient(D(theta))(x)[::-1] * jnp.array([1.0, -1.0])
        np.testing.assert_allclose(riesz.divergence(curl)(X[:2]), 0, atol=1e-13)

    @pytest.mark.parametrize("x", [0.4, jnp.array([0.4])], ids=["scalar", "shape one"])
    def test_in_one_dimension_is_the_derivative(self, x):
        found = riesz.divergence(jnp.sin)(x)
        assert found.shape == ()
        np.testing.assert_allclose(found, np.cos(0.4), rtol=1e-14)

    @pytest.mark.parametrize("v, shape", [(jnp.sum, r"\(\)"), (lambda x: x[:2], r"\(2,\)")], ids=["scalar", "short"])
    def test_refuses_what_is_no_field(self, v, shape):
        with pytest.raises(ValueError, match=rf"values of shape \(3,\), as x has, not {shape}"):
            riesz.divergence(v)(X)


class TestHessianAndValueAndGradient:
    def test_hessian_of_a_quadratic_form(self):
        np.testing.assert_allclose(riesz.hessian(lambda x: x @ A @ x)(X), A + A.T, rtol=1e-13)

    def test_hessian_of_a_vector_function_has_the_axes_of_points_last(self):
        found = riesz.hessian(lambda x: jnp.stack([x[0] * x[1], x[2] ** 2]))(X)
        expected = np.zeros((2, 3, 3))
        expected[0, 0, 1] = expected[0, 1, 0] = 1
        expected[1, 2, 2] = 2
        np.testing.assert_allclose(found, expected)

    def test_value_and_gradient(self):
        v = lambda x: jnp.sin(x @ A @ x)
        np.testing.assert_allclose(riesz.value_and_gradient(v)(X), [v(X), *jax.grad(v)(X)], rtol=1e-13)

    def test_value_and_gradient_of_a_vector_function(self):
        v = lambda x: jnp.sin(A[:2] @ x)
        expected = np.concatenate([v(X)[:, None], jax.jacfwd(v)(X)], axis=1)
        np.testing.assert_allclose(riesz.value_and_gradient(v)(X), expected, rtol=1e-13)

    @pytest.mark.parametrize("x", [0.4, jnp.array([0.4])], ids=["scalar", "shape one"])
    def test_in_one_dimension(self, x):
        v = lambda x: jnp.exp(2 * jnp.reshape(x, ()))
        np.testing.assert_allclose(riesz.value_and_gradient(v)(x), np.exp(0.8) * np.array([1, 2]), rtol=1e-14)
        np.testing.assert_allclose(np.ravel(riesz.hessian(v)(x)), [4 * np.exp(0.8)], rtol=1e-14)

    def test_the_value_takes_one_pass(self):
        D, theta = riesz.mlp(jax.random.key(0), (5, 7, 1))
        cost = jax.jit(riesz.value_and_gradient(D(theta))).lower(jnp.ones(5)).compile(ORDINARY).cost_analysis()
        assert cost["transcendentals"] == 7


PAGE = (pathlib.Path(__file__).parents[1] / "docs/operators.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_operators_page_run(tmp_path):
    names = run_page("docs/operators.md", tmp_path)
    assert float(names["solution"].loss) < 1e-8
    x = jnp.array([0.4, 0.7])
    np.testing.assert_allclose(names["burgers"](lambda x: x[0] / (1 + x[1]))(x), 0, atol=1e-15)
    flow = lambda x: jnp.stack([x[1] * (1 - x[1]), 0 * x[0], -2 * x[0]])
    np.testing.assert_allclose(names["stokes"](flow)(x), np.zeros(3), atol=1e-14)


def test_the_operators_page_names_every_operator():
    rows = set(re.findall(r"^\| `riesz\.(\w+)", PAGE, re.MULTILINE))
    public = {name for name in vars(riesz._problem.operators) if callable(getattr(riesz, name, None))} - {"_check"}
    assert rows == public
