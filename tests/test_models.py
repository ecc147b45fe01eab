"""Initialisations, and wrappers that build periods, boundaries and frequencies into any parametrisation."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import riesz
from spoken import check_sentence, run_page

key = jax.random.key(0)


class TestInitialisations:
    @pytest.mark.parametrize("sizes", [(60, 40, 1), (60, 50, 40, 30, 20)], ids=["shallow", "deep"])
    @pytest.mark.parametrize("init", ["glorot", "he", "lecun"])
    def test_weights_have_their_variances_and_biases_are_zero(self, init, sizes):
        D, theta = riesz.mlp(key, sizes, init=init)
        for weight, bias in zip(D.params(theta).weights, D.params(theta).biases, strict=True):
            n_out, n_in = weight.shape
            variance = {"glorot": 2 / (n_in + n_out), "he": 2 / n_in, "lecun": 1 / n_in}[init]
            # The sum of n squared standard normals is chi-squared with n degrees of freedom.
            assert 1e-4 < scipy.special.chdtr(weight.size, np.sum(np.square(weight)) / variance) < 1 - 1e-4
            assert abs(np.mean(weight)) < 4 * np.sqrt(variance / weight.size)
            np.testing.assert_array_equal(bias, np.zeros(n_out))

    def test_the_default_is_standard_normal(self):
        for arguments in ({}, {"init": "normal"}):
            D, theta = riesz.mlp(key, (3, 5, 2), **arguments)
            np.testing.assert_array_equal(theta, jax.random.normal(key, (32,)))

    @pytest.mark.parametrize(("init", "activation"), [("lecun", "identity"), ("he", "relu"), ("glorot", "identity")])
    def test_values_keep_their_size_through_deep_networks(self, init, activation):
        def mean_square(k):
            D, theta = riesz.mlp(k, (64,) * 8, activation, init)
            return jnp.mean(D(theta)(jnp.ones(64)) ** 2)

        squares = np.asarray(jax.vmap(mean_square)(jax.random.split(key, 200)))
        last = 2 if init == "he" else 1  # no activation follows the last layer, whose weights are as large
        assert abs(squares.mean() - last) < 4 * squares.std() / np.sqrt(200)

    def test_they_are_one_model(self):
        models = [riesz.mlp(key, (1, 3, 1), init=init)[0] for init in ("normal", "glorot", "he", "lecun")]
        assert len({jax.tree.structure(D) for D in models}) == 1


class TestSines:
    def parts(self, sizes, frequency, seed=0):
        D, theta = riesz.sine_mlp(jax.random.key(seed), sizes, frequency)
        return D.params(theta)

    def test_weights_and_phases_are_uniform(self):
        network = self.parts((2, 2000, 60, 60, 3), (5.0, 0.5))
        bounds = [(network.weights[0][:, 0], 5.0), (network.weights[0][:, 1], 0.5), (network.biases[0], np.pi)]
        for n in (1, 2, 3):
            bounds.append((network.weights[n], np.sqrt(6 / network.weights[n].shape[1])))
        bounds += [(network.biases[n], 1 / np.sqrt(network.weights[n].shape[1])) for n in (1, 2)]
        for found, bound in bounds:
            found = np.ravel(found) / bound
            assert scipy.stats.kstest(found, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3
        np.testing.assert_array_equal(network.biases[3], np.zeros(3))

    def test_values_keep_their_size_at_any_depth(self):
        """Normal angles of variance s have E sin^2 = (1 - exp(-2 s))/2, the next ones twice that: 0.80 at last."""

        def mean_square(k):
            D, theta = riesz.sine_mlp(k, (2, *(64,) * 6, 1), 4.0)
            return D(theta)(jnp.array([0.3, -0.2])) ** 2

        squares = np.asarray(jax.vmap(mean_square)(jax.random.split(key, 500)))
        fixed = scipy.optimize.brentq(lambda s: 1 - np.exp(-2 * s) - s, 0.5, 1.0)
        assert abs(squares.mean() - fixed) < 4 * squares.std() / np.sqrt(500)

    def test_is_a_network_of_sines(self):
        D, theta = riesz.sine_mlp(key, (1, 3, 2, 1), 7.0)
        a, b = D.params(theta).weights, D.params(theta).biases
        inner = np.sin(a[1] @ np.sin(a[0] @ np.array([0.4]) + b[0]) + b[1])
        np.testing.assert_allclose(D(theta)(0.4), (a[2] @ inner + b[2])[0], rtol=1e-14)
        np.testing.assert_array_equal(D.start(key), theta)

    def test_frequencies_are_numbers_of_the_start_alone(self):
        models = [riesz.sine_mlp(key, (2, 3, 1), frequency) for frequency in (1.0, 3, (2.0, 4.0))]
        assert len({jax.tree.structure(D) for D, _ in models}) == 1
        first = [D.params(theta).weights[0] for D, theta in models]
        np.testing.assert_allclose(first[1], 3 * first[0], rtol=1e-15)
        np.testing.assert_allclose(first[2], np.asarray(first[0]) * [2.0, 4.0], rtol=1e-15)

    def test_a_trainable_frequency_would_add_nothing_to_the_tangent_space(self):
        """Of a layer s(a (w x + b)), whatever s is: a dv/da = w dv/dw + b dv/db."""
        sloped = lambda p, x: jnp.tanh(p["a"][1] * (p["v"] @ jnp.sin(p["a"][0] * (p["w"] * x + p["b"])) + p["d"]))
        draw = lambda n, shape: jax.random.normal(jax.random.fold_in(key, n), shape)
        params = {"a": draw(0, (2,)), "w": draw(1, (3,)), "b": draw(2, (3,)), "v": draw(3, (2, 3)), "d": draw(4, (2,))}
        rows = jax.vmap(jax.jacrev(sloped), in_axes=(None, 0))(params, jnp.linspace(-1, 1, 9))
        first = rows["w"] @ params["w"] + rows["b"] @ params["b"]
        second = jnp.einsum("mpij,ij->mp", rows["v"], params["v"]) + rows["d"] @ params["d"]
        np.testing.assert_allclose(
            np.asarray(rows["a"]) * np.asarray(params["a"]), jnp.stack([first, second], axis=-1), rtol=1e-11
        )

    @pytest.mark.slow
    def test_find_fine_scales_that_a_tanh_network_misses(self):
        f = lambda x: jnp.sin(2 * jnp.pi * x) + jnp.sin(30 * jnp.pi * x) / 10
        x = jnp.linspace(-1.0, 1.0, 500)
        loss = riesz.least_squares(riesz.points(x, data=f(x)))
        found = [riesz.minimise(loss, *riesz.mlp(key, (1, 12, 12, 1), init="glorot"), max_steps=100)]
        found.append(riesz.minimise(loss, *riesz.sine_mlp(key, (1, 12, 12, 1), 30.0), max_steps=100))
        plain, sines = (float(jnp.sqrt(2 * solution.loss)) for solution in found)
        assert plain > 0.03  # the fine waves alone have 0.07
        assert sines < 1e-4


# ----------------------------------------------------------------------------------------------------- wrappers


def plain(theta):
    """A parametrisation that is nothing but a function."""
    return lambda x: jnp.sum(jnp.sin(theta[0] * x)) + theta[1]


class TestFourierFeatures:
    B = np.array([[1.0, 2.0], [0.5, -3.0], [0.0, 7.0]])

    def test_is_the_model_behind_the_map(self):
        D, theta = riesz.mlp(key, (6, 4, 1))
        x = np.array([0.3, -0.2])
        expected = D(theta)(np.concatenate([np.cos(self.B @ x), np.sin(self.B @ x)]))
        np.testing.assert_allclose(riesz.fourier_features(D, self.B)(theta)(x), expected, rtol=1e-13)

    def test_takes_scalars_where_there_is_one_dimension(self):
        D, theta = riesz.mlp(key, (4, 3, 1))
        v = riesz.fourier_features(D, [[1], [2]])(theta)
        assert v(0.3) == v(jnp.array([0.3])) == D(theta)(jnp.array([*np.cos([0.3, 0.6]), *np.sin([0.3, 0.6])]))

    def test_frequencies_are_not_fitted(self):
        """A linear model behind the map finds cos(x_0 + 2 x_1), its first feature, in one step."""
        D, theta = riesz.linear(lambda z: z, 6)
        x = jax.random.normal(key, (30, 2))
        loss = riesz.least_squares(riesz.points(x, data=jnp.cos(x[:, 0] + 2 * x[:, 1])))
        method = riesz.ngd(filter=riesz.Cutoff(1e-12), step_size=riesz.Constant(1.0))
        solution = riesz.minimise(loss, riesz.fourier_features(D, self.B), theta, method, max_steps=1)
        np.testing.assert_allclose(solution.theta, [1, 0, 0, 0, 0, 0], atol=1e-13)


class TestPeriodic:
    def model(self):
        D, theta = riesz.mlp(key, (2, 4, 1))
        return riesz.periodic(D, 3.0), theta, D

    def test_is_the_model_on_a_circle(self):
        wrapped, theta, D = self.model()
        angle = 2 * np.pi * 0.7 / 3
        np.testing.assert_allclose(wrapped(theta)(0.7), D(theta)(np.array([np.cos(angle), np.sin(angle)])), rtol=1e-14)

    def test_repeats_with_all_its_derivatives(self):
        wrapped, theta, _ = self.model()
        v, x = wrapped(theta), jnp.linspace(-1.4, 1.4, 9)
        for _ in range(4):
            values = jax.jit(jax.vmap(v))
            here, there, far = (np.asarray(values(x + shift)) for shift in (0.0, 3.0, -30.0))
            assert np.ptp(here) > 1e-2
            np.testing.assert_allclose(there, here, atol=1e-12 * np.abs(here).max())
            np.testing.assert_allclose(far, here, atol=1e-11 * np.abs(here).max())
            v = riesz.derivative(v)

    def test_a_dimension_may_be_left_as_it_is(self):
        D, theta = riesz.mlp(key, (5, 4, 1))
        v = riesz.periodic(D, (2.0, None, 0.5))(theta)
        x = np.array([0.3, 0.4, 0.1])
        angles = np.array([0.3 * np.pi, 0.4 * np.pi])
        expected = D(theta)(np.array([*np.cos(angles), *np.sin(angles), 0.4]))
        np.testing.assert_allclose(v(x), expected, rtol=1e-14)
        both = jax.jit(lambda x: (*riesz.gradient(v)(x), riesz.laplacian(v)(x)))
        np.testing.assert_allclose(both(x + [4, 0, 1.5]), both(x), rtol=1e-11)
        assert abs(v(x + [0, 2, 0]) - v(x)) > 1e-3

    def test_harmonics_are_multiples_of_the_angles(self):
        D, theta = riesz.mlp(key, (13, 4, 1))
        v = riesz.periodic(D, (2.0, None, 0.5), harmonics=3)(theta)
        x = np.array([0.3, 0.4, 0.1])
        angles = np.outer([1, 2, 3], [0.3 * np.pi, 0.4 * np.pi]).ravel()
        np.testing.assert_allclose(v(x), D(theta)(np.array([*np.cos(angles), *np.sin(angles), 0.4])), rtol=1e-13)
        assert abs(v(x + [4, 0, 1.5]) - v(x)) < 1e-12

    def test_periods_of_a_sequence_take_vectors(self):
        D, theta = riesz.mlp(key, (2, 4, 1))
        assert riesz.periodic(D, [3.0])(theta)(jnp.array([0.7])) == riesz.periodic(D, 3.0)(theta)(0.7)


class TestHardBoundary:
    box = riesz.box_bubble((0.0, -1.0), (2.0, 1.0))

    def test_has_the_lift_on_the_boundary_and_the_model_inside(self):
        D, theta = riesz.mlp(key, (2, 4, 1))
        lift = lambda x: jnp.exp(x[0]) + x[1]
        v = riesz.hard_boundary(D, self.box, lift)(theta)
        for x in ([0.0, 0.3], [2.0, 0.3], [0.7, -1.0], [0.7, 1.0], [2.0, 1.0]):
            assert v(jnp.array(x)) == lift(jnp.array(x))
        x = jnp.array([0.5, 0.5])
        np.testing.assert_allclose(v(x), lift(x) + 0.75 * 0.75 * D(theta)(x), rtol=1e-14)

    def test_the_laplacian_is_that_of_the_product(self):
        """Laplacian(b v) = v Laplacian(b) + 2 grad b . grad v + b Laplacian(v)."""
        D, theta = riesz.mlp(key, (2, 4, 1))
        b, v, x = self.box, D(theta), jnp.array([0.4, 0.2])
        expected = v(x) * riesz.laplacian(b)(x) + b(x) * riesz.laplacian(v)(x)
        expected += 2 * riesz.gradient(b)(x) @ riesz.gradient(v)(x)
        found = jax.jit(riesz.laplacian(riesz.hard_boundary(D, b, 3.0)(theta)))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_a_squared_bubble_clamps_the_slope(self):
        D, theta = riesz.mlp(key, (1, 4, 1))
        bubble = riesz.box_bubble(0.0, 1.0)
        v = riesz.hard_boundary(D, lambda x: bubble(x) ** 2, jnp.sin)(theta)
        for x in (0.0, 1.0):
            assert v(x) == jnp.sin(x)
            assert riesz.derivative(v)(x) == jnp.cos(x)

    def test_of_vectors(self):
        """One bubble and lift for all components, or one for each."""
        D, theta = riesz.mlp(key, (1, 4, 2))
        inner = D(theta)(0.5)
        np.testing.assert_array_equal(riesz.hard_boundary(D, lambda x: 1 - x, 2.0)(theta)(0.5), 2 + 0.5 * inner)
        v = riesz.hard_boundary(D, lambda x: jnp.stack([x, 0 * x]), lambda x: jnp.stack([x, 2 * x]))(theta)
        np.testing.assert_array_equal(v(0.5), [0.5 + 0.5 * inner[0], 1.0])

    def test_solves_a_boundary_value_problem_with_one_term(self):
        """u'' = -pi^2 sin(pi x), u(0) = 0, u(1) = 1: u = sin(pi x) + x; linear, so that one step solves it."""
        D, theta = riesz.linear(riesz.Legendre(0.0, 1.0, 14), 14)
        wrapped = riesz.hard_boundary(D, riesz.box_bubble(0, 1), lift=lambda x: x)
        source = lambda x: -(jnp.pi**2) * jnp.sin(jnp.pi * x)
        second = lambda v: riesz.derivative(riesz.derivative(v))
        loss = riesz.residual(second, source, riesz.grid(0.0, 1.0, 60))
        method = riesz.ngd(filter=riesz.Cutoff(1e-12), step_size=riesz.Constant(1.0))
        v = riesz.minimise(loss, wrapped, theta, method, max_steps=1).function
        x = np.linspace(0, 1, 33)
        np.testing.assert_allclose(jax.vmap(v)(x), np.sin(np.pi * x) + x, atol=1e-11)
        assert (v(0.0), v(1.0)) == (0, 1)


class TestStage:
    def pair(self):
        (D, theta), network = (riesz.mlp(k, (1, 4, 1)) for k in jax.random.split(key))
        return D, theta, network

    def test_adds_a_scaled_network_to_what_is_known(self):
        D, theta, (N, theta0) = self.pair()
        staged, start = riesz.stage(D, theta, (N, theta0), 1e-3)
        np.testing.assert_array_equal(start, theta0)
        np.testing.assert_allclose(staged(start)(0.3), D(theta)(0.3) + 1e-3 * N(theta0)(0.3), rtol=1e-15)
        np.testing.assert_array_equal(staged.start(key), N.start(key))
        third, again = riesz.stage(staged, start, (D, theta), 1e-6)
        np.testing.assert_allclose(third(again)(0.3), staged(start)(0.3) + 1e-6 * D(theta)(0.3), rtol=1e-15)

    def test_a_linear_second_stage_fits_the_residual_of_the_first(self):
        x, y = np.linspace(-1, 1, 40), np.exp(np.linspace(-1, 1, 40))
        first, theta = riesz.linear(lambda x: x ** jnp.arange(3), 3)
        second = riesz.linear(lambda x: jnp.sin(x * jnp.arange(1, 5)), 4)
        staged, theta0 = riesz.stage(first, theta + 1, second, 1e-2)
        method = riesz.ngd(filter=riesz.Cutoff(1e-14), step_size=riesz.Constant(1.0))
        solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=y)), staged, theta0, method, max_steps=1)
        left = y - np.sum(x[:, None] ** np.arange(3), axis=1)
        expected = np.linalg.lstsq(1e-2 * np.sin(np.outer(x, np.arange(1, 5))), left)[0]
        np.testing.assert_allclose(solution.theta, expected, rtol=1e-9)

    def test_the_step_of_natural_gradients_does_not_depend_on_the_scale(self):
        """The step, as a function, is the residual projected onto a tangent space that is the same for all scales."""
        D, theta, network = self.pair()
        loss = riesz.least_squares(riesz.points(jnp.linspace(-1.0, 1.0, 30), data=jnp.zeros(30)))

        def move(scale):
            staged, theta0 = riesz.stage(D, theta, network, scale)
            space = riesz.tangent_space(loss, staged, theta0, filter=riesz.Cutoff(1e-13 * scale**2))
            return space.psi @ space.riesz(space.psi.T @ jnp.ones(30))

        np.testing.assert_allclose(move(2.0**-10), move(1.0), rtol=1e-9)

    def test_takes_any_function_of_theta(self):
        staged, theta0 = riesz.stage(plain, jnp.ones(2), (plain, jnp.zeros(2)), 0.1)
        assert staged(theta0)(0.3) == jnp.sin(0.3) + 1


class TestBoxBubble:
    def test_vanishes_on_the_sides_and_is_one_in_the_middle(self):
        b = riesz.box_bubble((0, -1, 2), (2, 1, 5))
        assert b(jnp.array([1.0, 0.0, 3.5])) == 1
        for i, side in ((0, 0), (0, 2), (1, -1), (1, 1), (2, 2), (2, 5)):
            assert b(jnp.array([0.3, 0.4, 2.1]).at[i].set(side)) == 0
        np.testing.assert_allclose(riesz.gradient(b)(jnp.array([1.0, 0.0, 3.5])), np.zeros(3))

    def test_a_side_may_be_free(self):
        b = riesz.box_bubble((-1.0, 0.0, None), (1.0, None, None))
        np.testing.assert_allclose(b(jnp.array([0.5, 3.0, 7.0])), 0.75 * 3.0, rtol=1e-14)
        assert riesz.box_bubble(None, 2.0)(0.5) == 1.5

    def test_corners_may_be_arrays(self):
        b = riesz.box_bubble(np.zeros(2), jnp.array([1.0, 2.0]))
        assert b(jnp.array([0.5, 1.0])) == 1

    def test_keeps_single_precision(self):
        assert riesz.box_bubble((0, 0), (1, 1))(jnp.zeros(2, jnp.float32)).dtype == jnp.float32


UNIT = riesz.box_bubble(0.0, 1.0)
WRAPPERS = {
    "fourier_features": lambda D, scale: riesz.fourier_features(D, scale * jnp.ones((1, 1))),
    "periodic": lambda D, scale: riesz.periodic(D, scale),
    "hard_boundary": lambda D, scale: riesz.hard_boundary(D, riesz.box_bubble(0.0, scale), jnp.sin),
    "stage": lambda D, scale: riesz.stage(plain, [scale, 1.0], (D, jnp.ones(1)), scale)[0],
    "all": lambda D, scale: riesz.hard_boundary(riesz.periodic(riesz.periodic(D, (1.0, None)), scale), UNIT, scale),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
class TestEveryWrapper:
    def test_keeps_the_parameters(self, wrap):
        D, theta = riesz.mlp(key, (2, 4, 1))
        assert jax.tree.all(jax.tree.map(jnp.array_equal, wrap(D, 2.0).params(theta), D.params(theta)))

    def test_takes_any_function_of_theta(self, wrap):
        D = wrap(plain, 2.0)
        assert jnp.shape(D(jnp.array([1.0, 2.0]))(0.3)) == ()
        assert not hasattr(plain, "params")

    def test_compiles_once(self, wrap, caplog):
        """Other keys, periods, frequencies and corners are other numbers in the same program."""
        loss = riesz.residual(riesz.derivative, 0.0, riesz.grid(0.0, 1.0, 7))

        size = {WRAPPERS["all"]: 3, WRAPPERS["hard_boundary"]: 1, WRAPPERS["stage"]: 1}.get(wrap, 2)

        def compiles(seed, scale):
            D, theta = riesz.mlp(jax.random.key(seed), (size, 4, 1))
            D = wrap(D, scale)
            caplog.clear()
            with jax.log_compiles(), caplog.at_level("WARNING"):
                riesz.minimise(loss, D, theta, riesz.gd(), max_steps=2)
            return any("Compiling" in record.message for record in caplog.records)

        assert compiles(0, 2.0)
        assert not compiles(1, 3.0)


# ---------------------------------------------------------------------------------------------------- bad input

D, theta = riesz.mlp(key, (2, 4, 1))
bubble = riesz.box_bubble((0, 0), (1, 1))
pair = riesz.mlp(key, (2, 4, 2))
point = jnp.zeros(2)
WRONG = {
    "init": (lambda: riesz.mlp(key, (1, 1), init="zero"), ValueError, "init must be .*normal, glorot, he, lecun, not"),
    "no init": (lambda: riesz.mlp(key, (1, 1), init=jnp.ones), ValueError, "init must be one of"),
    "features of a pair": (lambda: riesz.fourier_features((D, theta), [[1.0]]), TypeError, "D must be a function"),
    "row": (lambda: riesz.fourier_features(D, [1.0, 2.0]), ValueError, "frequencies must have two axes"),
    "empty": (lambda: riesz.fourier_features(D, np.ones((0, 2))), ValueError, "frequencies must have two axes"),
    "nan": (lambda: riesz.fourier_features(D, [[1.0], [np.nan]]), ValueError, "frequencies must be finite.*row 1"),
    "text": (lambda: riesz.fourier_features(D, "many"), TypeError, "frequencies must be an array of numbers"),
    "features' point": (lambda: riesz.fourier_features(D, [[1.0]])(theta)(point), ValueError, r"x must .*\(1,\) for"),
    "network": (lambda: riesz.fourier_features(D, [[1.0] * 2] * 2)(theta)(point), ValueError, "x must hold points"),
    "periodic pair": (lambda: riesz.periodic((D, theta), 1.0), TypeError, "D must be a function"),
    "no period": (lambda: riesz.periodic(D, None), TypeError, "period must be a number, not None"),
    "period zero": (lambda: riesz.periodic(D, 0.0), ValueError, "period must be greater than 0"),
    "one period zero": (lambda: riesz.periodic(D, (1.0, 0.0)), ValueError, "period must be greater than 0"),
    "no periods": (lambda: riesz.periodic(D, (None, None)), ValueError, "period must hold at least one number"),
    "period text": (lambda: riesz.periodic(D, "ab"), TypeError, "period must be a number, not 'a'"),
    "no harmonics": (lambda: riesz.periodic(D, 1.0, harmonics=0), ValueError, "harmonics must be at least 1"),
    "half a harmonic": (lambda: riesz.periodic(D, 1.0, harmonics=1.5), TypeError, "harmonics must be a whole number"),
    "no sines": (lambda: riesz.sine_mlp(key, (2, 1), 1.0), ValueError, "sizes must list a layer of sines between"),
    "frequency zero": (lambda: riesz.sine_mlp(key, (2, 3, 1), 0.0), ValueError, "frequency must be greater than 0"),
    "three frequencies": (
        lambda: riesz.sine_mlp(key, (2, 3, 1), [1.0] * 3),
        ValueError,
        "frequency must be a number or",
    ),
    "frequency text": (lambda: riesz.sine_mlp(key, (2, 3, 1), "high"), TypeError, "frequency must be a number"),
    "sines by a seed": (lambda: riesz.sine_mlp(0, (2, 3, 1), 1.0), TypeError, "key must be one random key"),
    "stage of a pair": (lambda: riesz.stage((D, theta), theta, (D, theta), 0.1), TypeError, "D must be a function"),
    "no network": (lambda: riesz.stage(D, theta, D, 0.1), TypeError, "network must be a pair of a parametrisation"),
    "network of text": (
        lambda: riesz.stage(D, theta, ("D", theta), 0.1),
        TypeError,
        r"network\[0\] must be a function",
    ),
    "scale zero": (lambda: riesz.stage(D, theta, (D, theta), 0.0), ValueError, "scale must be greater than 0"),
    "starts": (lambda: riesz.stage(D, theta[None], (D, theta), 0.1), ValueError, "theta must have one axis"),
    "theta nan": (lambda: riesz.stage(D, theta * np.nan, (D, theta), 0.1), ValueError, "theta must be finite"),
    "theta's shape": (
        lambda: riesz.stage(D, theta[1:], (D, theta), 0.1)[0](theta),
        ValueError,
        "theta must have shape",
    ),
    "stage of pairs": (
        lambda: riesz.stage(D, theta, pair, 0.1)[0](pair[1])(point),
        ValueError,
        r"network must match D, but a point gives shapes \(2,\) and \(\)",
    ),
    "circle's point": (lambda: riesz.periodic(D, 1.0)(theta)(point), ValueError, r"x must hold points of shape \(\)"),
    "hard pair": (lambda: riesz.hard_boundary((D, theta), bubble), TypeError, "D must be a function"),
    "bubble": (lambda: riesz.hard_boundary(D, 1.0), TypeError, "bubble must be a function, not 1.0"),
    "lift": (lambda: riesz.hard_boundary(D, bubble, "zero"), TypeError, "lift must be a number"),
    "vector lift": (lambda: riesz.hard_boundary(D, bubble, lambda x: x)(theta)(point), ValueError, "lift must match D"),
    "vector bubble": (lambda: riesz.hard_boundary(D, lambda x: x)(theta)(point), ValueError, "bubble must match D"),
    "lengths": (lambda: riesz.box_bubble((0, 0), (1, 1, 1)), ValueError, "low and high must be two"),
    "mixed": (lambda: riesz.box_bubble((0,), 1), ValueError, "low and high must be two"),
    "order": (
        lambda: riesz.box_bubble((0, 1), (1, 1)),
        ValueError,
        "low must lie below high, but they are 1.0 and 1.0",
    ),
    "corner": (lambda: riesz.box_bubble(0, "one"), TypeError, "high must be a number"),
    "no sides": (lambda: riesz.box_bubble((None,), (None,)), ValueError, "low and high must hold at least one number"),
    "box's point": (lambda: bubble(0.0), ValueError, r"x must hold points of shape \(2,\) for this bubble"),
}


@pytest.mark.parametrize(("call", "error", "pattern"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_call_is_answered_with_one_sentence(call, error, pattern):
    check_sentence(call, error, f"^{pattern}")


# --------------------------------------------------------------------------------------------------------- docs

PAGE = (pathlib.Path(__file__).parents[1] / "docs/models.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_models_page_run(tmp_path):
    names = run_page("docs/models.md", tmp_path)
    assert names["solution"].result.converged
    assert names["error"] < 1e-10
    assert names["jump"] < 1e-12
    assert names["edge"] == 0


def test_the_models_page_names_every_model():
    rows = set(re.findall(r"^\| `riesz\.(\w+)\(", PAGE, re.MULTILINE))
    public = {name for name in vars(riesz._problem.models) if not name.startswith("_") and hasattr(riesz, name)}
    assert rows == (public | {"parametrise", "Truncation"}) - {"TensorTrain"}
