"""Quadratures and drawn measures: what they integrate exactly, what they integrate on average, what they refuse."""

import inspect
import math
import pathlib
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

import riesz
from spoken import check_sentence, code, run_page

key = jax.random.key(0)
TRIANGLE = [(0.0, 0.0), (2.0, 0.5), (0.5, 1.5)]
BOX = (-1.0, 0.5, 2.0), (1.0, 1.5, 4.0)
DRAWS = 2000

boxes = st.lists(
    st.tuples(st.floats(-3, 3, allow_subnormal=False), st.floats(0.1, 4), st.integers(1, 3)), min_size=1, max_size=2
)


def integral(over, f):
    """sum_j w_j f(x_j), with f of the coordinates along the first axis."""
    return float(np.asarray(over.weights) @ f(np.moveaxis(np.asarray(over.x), 0, -1)))


def draws_of(measure, n=DRAWS):
    """The points of n draws, as NumPy arrays with the draws along the first axis."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda key: measure.draw(key)))(jax.random.split(key, n)))


def assert_unbiased(measure, f, exact):
    """The mean of all draws within four of its standard errors."""
    drawn = draws_of(measure)
    estimates = np.sum(drawn.weights * f(np.moveaxis(drawn.x, -1, 0)), axis=1)
    assert np.std(estimates) > 0
    assert abs(np.mean(estimates) - exact) < 4 * np.std(estimates) / math.sqrt(DRAWS)
    return estimates


class TestGaussLegendre:
    @settings(deadline=None, max_examples=10)
    @given(boxes, st.randoms(use_true_random=False))
    def test_exact_up_to_degree_2n_minus_1_in_every_coordinate(self, box, random):
        low, width, n = zip(*box, strict=True)
        high = np.add(low, width)
        factors = [Polynomial([random.uniform(-1, 1) for _ in range(2 * count)]) for count in n]
        found = integral(
            riesz.gauss_legendre(low, high, n), lambda x: math.prod(p(c) for p, c in zip(factors, x, strict=True))
        )
        primitives = [p.integ() for p in factors]
        exact = math.prod(p(b) - p(a) for p, a, b in zip(primitives, low, high, strict=True))
        # What rounding is measured by: the same polynomials with nothing cancelling, on coordinates of up to 7.
        size = math.prod(Polynomial(np.abs(p.coef))(7.0) for p in primitives)
        assert abs(found - exact) <= 1e-13 * size

    def test_not_exact_for_degree_2n(self):
        over = riesz.gauss_legendre(-1.0, 1.0, 3)
        assert integral(over, lambda x: x**5 + x**4) == pytest.approx(2 / 5, abs=1e-15)
        assert abs(integral(over, lambda x: x**6) - 2 / 7) > 1e-2

    @pytest.mark.parametrize("n", [1, 2, 7, 40, 200])
    def test_nodes_and_weights_are_numpys(self, n):
        nodes, weights = np.polynomial.legendre.leggauss(n)
        over = riesz.gauss_legendre(-1.0, 1.0, n)
        np.testing.assert_allclose(over.x, nodes, atol=1e-14)
        np.testing.assert_allclose(over.weights, weights, rtol=1e-10)

    def test_smooth_functions_converge_to_scipys_integral(self):
        f = lambda x, y: np.exp(x) * np.sin(3 * y + x)
        exact, _ = scipy.integrate.dblquad(lambda y, x: f(x, y), 0, 1, -1, 2, epsabs=1e-13)
        over = riesz.gauss_legendre((0, -1), (1, 2), 14)
        assert integral(over, lambda x: f(*x)) == pytest.approx(exact, abs=1e-12)

    def test_numbers_give_scalar_points_and_sequences_vector_points(self):
        assert riesz.gauss_legendre(0, 1, 7).x.shape == (7,)
        assert riesz.gauss_legendre((0,), (1,), 7).x.shape == (7, 1)
        assert riesz.gauss_legendre((0, 0), (1, 2), (3, 5)).x.shape == (15, 2)

    def test_single_precision_stays(self):
        over = riesz.gauss_legendre(0, jnp.float32(2), 5)
        assert over.x.dtype == over.weights.dtype == jnp.float32
        assert float(jnp.sum(over.weights)) == pytest.approx(2, rel=1e-6)


class TestSimplex:
    @pytest.mark.parametrize("k", [1, 2, 3, 4])
    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_exact_up_to_total_degree_2n_minus_1(self, k, n):
        """Int x_1^a_1 ... x_k^a_k over the unit simplex is a_1! ... a_k! / (k + a_1 + ... + a_k)!."""
        over = riesz.simplex(np.concatenate([np.zeros((1, k)), np.eye(k)]), n)
        assert over.x.shape == (n**k, k)
        assert np.all(over.weights > 0)
        for powers in np.ndindex(*(2 * n,) * k):
            if sum(powers) < 2 * n:
                found = integral(over, lambda x, a=powers: np.prod([c**p for c, p in zip(x, a, strict=True)], axis=0))
                exact = math.prod(map(math.factorial, powers)) / math.factorial(k + sum(powers))
                assert found == pytest.approx(exact, rel=1e-12)

    def test_not_exact_for_total_degree_2n(self):
        over = riesz.simplex([(0, 0), (1, 0), (0, 1)], 2)
        assert abs(integral(over, lambda x: x[1] ** 4) - 1 / 30) > 1e-4

    def test_any_triangle_against_scipy(self):
        """In the coordinates (s, t) of the triangle, with its Jacobian."""
        a, b, c = np.array(TRIANGLE)
        f = lambda x: np.cos(x[0] * x[1]) + x[1]
        edges = np.stack([b - a, c - a], axis=1)
        inner = lambda t, s: f(a + edges @ [s, t]) * abs(np.linalg.det(edges))
        exact, _ = scipy.integrate.dblquad(inner, 0, 1, 0, lambda s: 1 - s, epsabs=1e-12)
        assert integral(riesz.simplex(TRIANGLE, 10), f) == pytest.approx(exact, abs=1e-11)

    @settings(deadline=None, max_examples=10)
    @given(st.permutations(range(4)))
    def test_the_order_of_the_vertices_does_not_matter_where_the_rule_is_exact(self, order):
        vertices = np.array([(0.0, 0.0, 1.0), (1.0, 0.2, 0.0), (0.1, 2.0, 0.3), (-1.0, 0.0, 3.0)])
        f = lambda x: x[0] ** 2 * x[1] - x[2] ** 3
        expected = integral(riesz.simplex(vertices, 2), f)
        assert integral(riesz.simplex(vertices[list(order)], 2), f) == pytest.approx(expected, rel=1e-12)

    def test_a_triangle_in_space_has_its_area(self):
        over = riesz.simplex([(1, 0, 0), (0, 1, 0), (0, 0, 1)], 4)
        assert float(np.sum(over.weights)) == pytest.approx(math.sqrt(3) / 2, rel=1e-14)
        np.testing.assert_allclose(np.sum(over.x, axis=1), 1, rtol=1e-14)

    def test_two_numbers_are_a_segment_with_scalar_points(self):
        over, expected = riesz.simplex((2.0, -1.0), 5), riesz.gauss_legendre(-1.0, 2.0, 5)
        np.testing.assert_allclose(np.sort(over.x), expected.x, atol=1e-14)

    def test_drawn_points_are_uniform(self):
        """Barycentric coordinates of uniform points in a tetrahedron have the law Beta(1, 3)."""
        vertices = np.concatenate([np.zeros((1, 3)), np.eye(3)])
        drawn = draws_of(riesz.monte_carlo_simplex(vertices, 20))
        np.testing.assert_allclose(np.sum(drawn.weights, axis=1), 1 / 6, rtol=1e-12)
        for barycentric in (*np.moveaxis(drawn.x, -1, 0), 1 - drawn.x.sum(axis=-1)):
            assert scipy.stats.kstest(barycentric.ravel(), scipy.stats.beta(1, 3).cdf).pvalue > 1e-4

    def test_drawn_integrals_are_unbiased(self):
        f = lambda x: np.cos(x[0] * x[1]) + x[1]
        assert_unbiased(riesz.monte_carlo_simplex(TRIANGLE, 30), f, integral(riesz.simplex(TRIANGLE, 12), f))


class TestBoundary:
    @pytest.mark.parametrize("n", [None, 1, 5])
    def test_an_interval_has_two_ends_of_weight_one(self, n):
        over = riesz.boundary(-2.0, 3.0, n)
        np.testing.assert_array_equal(over.x, [-2, 3])
        np.testing.assert_array_equal(over.weights, [1, 1])

    def test_every_face_of_a_box_is_integrated_exactly(self):
        low, high = map(np.array, BOX)
        over = riesz.boundary(low, high, 3)
        assert over.x.shape == (6 * 9, 3)
        x, weights = np.asarray(over.x), np.asarray(over.weights)
        for axis in range(3):
            others = [i for i in range(3) if i != axis]
            exact = math.prod((high[i] ** 6 - low[i] ** 6) / 6 for i in others)
            for end in (low, high):
                face = x[:, axis] == end[axis]
                assert face.sum() == 9
                assert weights[face] @ np.prod(x[face][:, others] ** 5, axis=1) == pytest.approx(exact, rel=1e-12)

    def test_the_divergence_theorem(self):
        """Int div F over the box is the integral of F . normal over its boundary."""
        low, high = map(np.array, BOX)
        f = lambda x: np.stack([x[0] ** 2 * x[1], np.sin(x[2] + x[1]), x[0] * x[2] ** 3])
        divergence = lambda x: 2 * x[0] * x[1] + np.cos(x[2] + x[1]) + 3 * x[0] * x[2] ** 2
        inside = integral(riesz.gauss_legendre(low, high, 12), divergence)

        def flux(x):
            normal = (x == high[:, None]).astype(float) - (x == low[:, None])
            return np.sum(f(x) * normal, axis=0)

        through = lambda over: np.asarray(over.weights) @ flux(np.asarray(over.x).T)
        assert through(riesz.boundary(low, high, 12)) == pytest.approx(inside, abs=1e-11)

    def test_one_count_per_dimension(self):
        assert riesz.boundary((0, 0), (1, 2), (3, 5)).x.shape == (2 * 5 + 2 * 3, 2)

    def test_drawn_points_lie_on_faces_as_often_as_their_areas_say(self):
        low, high = map(np.array, BOX)
        drawn = draws_of(riesz.monte_carlo_boundary(low, high, 20))
        areas = np.prod(high - low) / (high - low)
        np.testing.assert_allclose(np.sum(drawn.weights, axis=1), 2 * areas.sum(), rtol=1e-12)
        x, total = drawn.x.reshape(-1, 3), drawn.x.size // 3
        on_a_face = 0
        for axis, end in ((axis, end) for axis in range(3) for end in (low, high)):
            face, share = np.sum(x[:, axis] == end[axis]), areas[axis] / (2 * areas.sum())
            on_a_face += face
            assert abs(face - total * share) < 4.5 * math.sqrt(total * share * (1 - share))
        assert on_a_face == total

    def test_drawn_integrals_are_unbiased(self):
        f = lambda x: x[0] ** 2 + x[1] * x[2]
        assert_unbiased(riesz.monte_carlo_boundary(*BOX, 30), f, integral(riesz.boundary(*BOX, 3), f))

    def test_drawn_ends_of_an_interval(self):
        drawn = draws_of(riesz.monte_carlo_boundary(0.0, 1.0, 7))
        assert set(np.unique(drawn.x)) == {0.0, 1.0}
        np.testing.assert_allclose(drawn.weights, 2 / 7, rtol=1e-14)


class TestProduct:
    def test_products_integrate_products(self):
        a, b = riesz.simplex(TRIANGLE, 5), riesz.gauss_legendre(0.0, 2.0, 4)
        over = riesz.product(a, b)
        assert over.x.shape == (100, 3)
        f, g = lambda x: x[0] ** 2 + x[1], lambda t: 1 + t**3
        expected = integral(a, f) * integral(b, g)
        assert integral(over, lambda x: f(x[:2]) * g(x[2])) == pytest.approx(expected, rel=1e-13)

    def test_a_product_of_intervals_is_a_box(self):
        found = riesz.product(riesz.grid(0, 1, 3), riesz.grid(1.0, 3.0, 4))
        expected = riesz.grid((0, 1), (1, 3), (3, 4))
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-14)

    def test_boundary_times_time(self):
        over = riesz.product(riesz.boundary(0.0, 1.0), riesz.gauss_legendre(0.0, 2.0, 3))
        assert set(np.asarray(over.x)[:, 0]) == {0.0, 1.0}
        assert float(np.sum(over.weights)) == pytest.approx(2 * 2)

    def test_data_travel_along(self):
        stations = riesz.points([1.0, 2.0], data=[10.0, 20.0])
        for over in (riesz.product(stations, riesz.grid(0, 1, 3)), riesz.product(riesz.grid(0, 1, 3), stations)):
            station = over.x[:, 0] if float(over.x[0, 0]) == 1.0 else over.x[:, 1]
            np.testing.assert_array_equal(over.data, 10 * station)

    def test_drawn_where_one_factor_is(self):
        space, time = riesz.monte_carlo((0, 0), (1, 1), 5), riesz.gauss_legendre(0.0, 2.0, 3)
        over = riesz.product(space, time)
        assert over.drawn
        drawn = draws_of(over, 3)
        assert drawn.x.shape == (3, 15, 3)
        assert len(np.unique(drawn.x[..., 0])) == 15, "5 new places a draw, each at all times"
        np.testing.assert_array_equal(np.unique(drawn.x[..., 2]), np.sort(time.x))

    def test_drawn_integrals_are_unbiased(self):
        """Int x^2 t over [0, 1] x [0, 2] is 2/3, also with both factors drawn."""
        over = riesz.product(riesz.monte_carlo(0.0, 1.0, 6), riesz.monte_carlo(0.0, 2.0, 5))
        assert_unbiased(over, lambda x: x[0] ** 2 * x[1], 2 / 3)

    def test_products_of_products(self):
        over = riesz.product(riesz.product(riesz.grid(0, 1, 2), riesz.monte_carlo(0, 1, 3)), riesz.grid(0, 1, 4))
        assert over.draw(key).x.shape == (24, 3)


class TestSobol:
    def test_every_dyadic_box_holds_one_point(self):
        """64 points of the plane: one in each of 64 boxes of every shape 2^-a x 2^-b, a + b = 6."""
        x = (np.asarray(riesz.sobol((-1, 0), (1, 4), 64).x) - [-1, 0]) / [2, 4]
        for a in range(7):
            cells = np.floor(x * [2**a, 2 ** (6 - a)]).astype(int)
            assert len({tuple(cell) for cell in cells}) == 64

    def test_weights_are_equal_and_sum_to_the_volume(self):
        over = riesz.sobol((-1, 0), (1, 4), 100)
        np.testing.assert_allclose(over.weights, 8 / 100, rtol=1e-14)

    def test_more_accurate_than_random_points(self):
        """On exp(x1 + x2 + x3), 1024 points are at least ten times as accurate as random ones are on average."""
        f, exact, n = lambda x: np.exp(x.sum(axis=0)), (math.e - 1) ** 3, 1024
        random = math.sqrt((((math.e**2 - 1) / 2) ** 3 - exact**2) / n)
        assert abs(integral(riesz.sobol((0,) * 3, (1,) * 3, n), lambda x: f(x)) - exact) < random / 10

    def test_a_seed_decides(self):
        first, again, other = (riesz.sobol(0.0, 1.0, 16, seed=seed).x for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert not np.isin(first, other).any()

    def test_shapes_and_precision(self):
        assert riesz.sobol(0, 1, 1).x.shape == (1,)
        assert riesz.sobol((0,), (1,), 9).x.shape == (9, 1)
        assert riesz.sobol(0, jnp.float32(1), 9).x.dtype == jnp.float32

    def test_shifted_points_are_uniform_and_stay_in_the_box(self):
        drawn = draws_of(riesz.quasi_monte_carlo((-1.0, 2.0), (1.0, 5.0), 8))
        for axis, (low, width) in enumerate([(-1, 2), (2, 3)]):
            single = drawn.x[:, 3, axis]  # points of one draw are not independent
            assert scipy.stats.kstest(single, scipy.stats.uniform(low, width).cdf).pvalue > 1e-4
            assert drawn.x[..., axis].min() >= low and drawn.x[..., axis].max() <= low + width

    def test_shifted_integrals_are_unbiased_with_less_variance_than_random_ones(self):
        f, exact = lambda x: np.exp(x.sum(axis=0)), (math.e - 1) ** 2
        estimates = assert_unbiased(riesz.quasi_monte_carlo((0, 0), (1, 1), 64), f, exact)
        random = assert_unbiased(riesz.monte_carlo((0, 0), (1, 1), 64), f, exact)
        assert np.var(estimates) < np.var(random) / 10


class TestImportance:
    @staticmethod
    def propose(key, n):
        return 2 * jax.random.normal(key, (n,))

    @staticmethod
    def density(x):
        return jax.scipy.stats.norm.pdf(x, scale=2)

    def test_integrals_of_dx_are_unbiased(self):
        """Int exp(-x^2/2) dx = sqrt(2 pi), on the whole line."""
        over = riesz.importance(self.propose, self.density, 20)
        drawn = draws_of(over)
        estimates = np.sum(drawn.weights * np.exp(-(drawn.x**2) / 2), axis=1)
        assert abs(np.mean(estimates) - math.sqrt(2 * math.pi)) < 4 * np.std(estimates) / math.sqrt(DRAWS)

    def test_integrals_of_a_target_are_unbiased(self):
        """The variance of a standard normal variable is 1."""
        over = riesz.importance(self.propose, self.density, 20, target=jax.scipy.stats.norm.pdf)
        drawn = draws_of(over)
        estimates = np.sum(drawn.weights * drawn.x**2, axis=1)
        assert abs(np.mean(estimates) - 1) < 4 * np.std(estimates) / math.sqrt(DRAWS)

    def test_the_right_density_leaves_no_variance(self):
        over = riesz.importance(self.propose, self.density, 5, target=lambda x: 3 * self.density(x))
        np.testing.assert_allclose(draws_of(over).weights, 3 / 5, rtol=1e-12)

    def test_numbers_inside_a_module_are_not_compiled_in(self):
        """A sampler may be a module: its arrays stay leaves of the measure, so changing them compiles nothing."""

        class Normal(eqx.Module):
            scale: jax.Array

            def __call__(self, key, n):
                return self.scale * jax.random.normal(key, (n,))

        over = riesz.importance(Normal(jnp.asarray(2.0)), self.density, 5)
        assert any(leaf is over.propose.scale for leaf in jax.tree.leaves(over))


DRAWN = {
    "simplex": riesz.monte_carlo_simplex(TRIANGLE, 8),
    "boundary": riesz.monte_carlo_boundary((0, 0), (1, 1), 8),
    "shifted": riesz.quasi_monte_carlo((0, 0), (1, 1), 8),
    "importance": riesz.importance(lambda key, n: jax.random.uniform(key, (n, 2)), lambda x: jnp.ones(()), 8),
    "product": riesz.product(riesz.monte_carlo(0, 1, 4), riesz.grid(0, 1, 2)),
}


@pytest.mark.parametrize("measure", DRAWN.values(), ids=DRAWN)
class TestDrawn:
    def test_a_loss_needs_a_key(self, measure):
        loss = riesz.residual(riesz.identity, 0.0, measure)
        with pytest.raises(ValueError, match=r"^key must be given"):
            loss(lambda x: x[0])
        assert float(loss(lambda x: x[0], key=key)) > 0

    def test_draws_are_fresh_and_a_key_decides_them(self, measure):
        drawn = draws_of(measure, 50)
        rows = {tuple(np.ravel(x)) for x in drawn.x}
        assert len(rows) == 50
        again = measure.draw(jax.random.split(key, 50)[7])
        np.testing.assert_array_equal(again.x, drawn.x[7])

    @pytest.mark.at_once(2)
    def test_minimise_runs_with_them(self, measure):
        D, theta = riesz.mlp(key, (2, 3, 1))
        loss = riesz.residual(riesz.identity, lambda x: x[0] * x[1], measure)
        solution = riesz.minimise(loss, D, theta, riesz.ngd(), max_steps=3, key=key, progress=False)
        assert solution.steps == 3 and np.isfinite(solution.theta).all()


normal = lambda key, n: jax.random.normal(key, (n,))
one = lambda x: jnp.ones(())
nan = float("nan")
interval = riesz.grid(0.0, 1.0, 3)
labelled = riesz.points([1.0], data=[1.0])
single = riesz.grid(0, jnp.float32(1), 3)

# What is wrong, the call, the exception, and a pattern of its message with the name of the argument.
CALLS = [
    ("no Gauss points", lambda: riesz.gauss_legendre(0, 1, 0), ValueError, r"^n must be at least 1"),
    ("text for counts", lambda: riesz.gauss_legendre((0, 0), (1, 1), "ab"), TypeError, r"^n must be a whole number"),
    (
        "counts for another box",
        lambda: riesz.gauss_legendre((0, 0), (1, 1), (3,)),
        ValueError,
        r"^n must be one number",
    ),
    ("empty Gauss box", lambda: riesz.gauss_legendre(1, 1, 3), ValueError, r"^low must lie below high"),
    ("flat triangle", lambda: riesz.simplex([(0, 0), (1, 1), (2, 2)], 3), ValueError, r"^vertices must span a simplex"),
    ("a point twice", lambda: riesz.simplex([(3, 4), (3, 4), (0, 1)], 3), ValueError, r"^vertices must span a simplex"),
    ("a square", lambda: riesz.simplex([(0, 0), (1, 0), (1, 1), (0, 1)], 3), ValueError, r"^vertices must be 2 to n"),
    ("one vertex", lambda: riesz.simplex([(0, 0)], 3), ValueError, r"^vertices must be .* \(1, 2\)"),
    ("a number", lambda: riesz.simplex(1.0, 3), ValueError, r"^vertices must be 2 to n"),
    ("text for vertices", lambda: riesz.simplex("abc", 3), TypeError, r"^vertices must be a number"),
    ("NaN vertex", lambda: riesz.simplex([(0, 0), (nan, 0), (0, 1)], 3), ValueError, r"^vertices must be finite"),
    ("no simplex points", lambda: riesz.simplex(TRIANGLE, 0), ValueError, r"^n must be at least 1"),
    ("half a draw", lambda: riesz.monte_carlo_simplex(TRIANGLE, 0.5), TypeError, r"^n must be a whole number"),
    ("flat draws", lambda: riesz.monte_carlo_simplex([1.0, 1.0], 5), ValueError, r"^vertices must span"),
    ("no count on faces", lambda: riesz.boundary((0, 0), (1, 1)), ValueError, r"^n must be given"),
    ("no points on faces", lambda: riesz.boundary((0, 0), (1, 1), 0), ValueError, r"^n must be at least 1"),
    ("upside-down boundary", lambda: riesz.boundary(1, 0), ValueError, r"^low must lie below high"),
    ("no draws on faces", lambda: riesz.monte_carlo_boundary(0, 1, 0), ValueError, r"^n must be at least 1"),
    ("product with an array", lambda: riesz.product(jnp.ones(3), interval), TypeError, r"^a must be a measure"),
    ("product with nothing", lambda: riesz.product(interval, None), TypeError, r"^b must be a measure"),
    ("two data", lambda: riesz.product(labelled, labelled), ValueError, r"^a and b must not both carry data"),
    ("two precisions", lambda: riesz.product(interval, single), TypeError, r"^a and b must have one dtype"),
    ("points are matrices", lambda: riesz.product(interval, riesz.points(jnp.ones((3, 2, 2)))), ValueError, r"^b must"),
    (
        "product of Christoffel points",
        lambda: riesz.product(riesz.christoffel(interval, 2), interval),
        ValueError,
        r"^a must draw its points without the tangent space: at must be given",
    ),
    ("no Sobol points", lambda: riesz.sobol(0, 1, 0), ValueError, r"^n must be at least 1"),
    ("negative seed", lambda: riesz.sobol(0, 1, 4, seed=-1), ValueError, r"^seed must be at least 0"),
    ("seed is a key", lambda: riesz.sobol(0, 1, 4, seed=key), TypeError, r"^seed must be a whole number"),
    ("empty Sobol box", lambda: riesz.sobol(0, 0, 4), ValueError, r"^low must lie below high"),
    ("no shifted points", lambda: riesz.quasi_monte_carlo(0, 1, 0), ValueError, r"^n must be at least 1"),
    ("no sampler", lambda: riesz.importance(None, one, 5), TypeError, r"^propose must be a function"),
    ("sampler without n", lambda: riesz.importance(lambda key: key, one, 5), ValueError, r"^propose must be .* \(key,"),
    ("too few", lambda: riesz.importance(lambda key, n: jnp.ones(3), one, 5), ValueError, r"^propose must return 5"),
    ("whole points", lambda: riesz.importance(lambda key, n: jnp.arange(n), one, 5), ValueError, r"^propose must"),
    ("no density", lambda: riesz.importance(normal, 1.0, 5), TypeError, r"^density must be a function"),
    (
        "density fails",
        lambda: riesz.importance(normal, lambda x: x[0], 5),
        ValueError,
        r"^density must be .* point",
    ),
    ("two densities", lambda: riesz.importance(normal, lambda x: x[None], 5), ValueError, r"^density must return one"),
    ("target is a number", lambda: riesz.importance(normal, one, 5, 2.0), TypeError, r"^target must be a function"),
    ("two targets", lambda: riesz.importance(normal, one, 5, lambda x: x[None]), ValueError, r"^target must return"),
    ("no importance draws", lambda: riesz.importance(normal, one, 0), ValueError, r"^n must be at least 1"),
]


@pytest.mark.parametrize(("call", "error", "pattern"), [pytest.param(*rest, id=name) for name, *rest in CALLS])
def test_a_wrong_call_is_answered_with_one_sentence(call, error, pattern):
    check_sentence(call, error, pattern)


class TestDocs:
    page = (pathlib.Path(__file__).parents[1] / "docs" / "measures.md").read_text()
    public = [name for name in vars(riesz._problem.measures) if name.islower() and hasattr(riesz, name)]
    names = [name for name in public if not name.startswith("_")]

    def test_the_table_shows_every_measure_with_its_arguments(self):
        found = re.findall(r"^\| `(\w+)\((.*?)\)`", self.page, re.MULTILINE)
        assert {name for name, _ in found} == set(self.names)
        for name, arguments in found:
            parameters = list(inspect.signature(getattr(riesz, name)).parameters)
            assert set(arguments.split(", ")) <= set(parameters)

    @pytest.mark.slow
    def test_its_examples_run_and_show_every_measure(self, tmp_path):
        program = code("docs/measures.md")
        names = run_page("docs/measures.md", tmp_path)
        measures = {
            name: value for name, value in names.items() if isinstance(value, riesz._problem.measures.AbstractMeasure)
        }
        shown = {call for call in re.findall(r"riesz\.(\w+)\(", program) if hasattr(riesz._problem.measures, call)}
        assert shown == set(self.names)
        volumes = {"line": 1, "square": 1, "cube": 1, "triangle": 1 / 2, "sides": 4, "corner": 1 / 2, "edges": 4}
        volumes |= {"inside": 1, "even": 1, "interior": 2, "walls": 8, "start": 1}
        volumes |= {"ell": 3, "around": 8, "plate": math.pi, "rim": 2 * math.pi, "bulged": 3, "both": 8 + 2 * math.pi}
        volumes |= {"anywhere": 3 + math.pi, "fresh": 3}
        for name, volume in volumes.items():
            over = measures[name]
            weights = over.draw(key).weights if over.drawn else over.weights
            assert float(jnp.sum(weights)) == pytest.approx(volume, rel=1e-12)
        assert float(names["loss"](jnp.sin, key=key)) > 0
        assert float(names["energy"]) == pytest.approx(-math.pi / 16, rel=1e-13)
        assert float(names["between"]) == pytest.approx(2.0, rel=0.1)
