"""Measures: what they integrate, what they draw, and that draws are fresh and unbiased."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz

boxes = st.lists(
    st.tuples(st.floats(-5, 5, allow_subnormal=False), st.floats(0.1, 4), st.integers(2, 3)), min_size=1, max_size=2
)


def keys(n):
    return jax.random.split(jax.random.key(0), n)


def draws_of(measure, n):
    """The points of n draws, as NumPy arrays with the draws along the first axis."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(measure.draw))(keys(n)))


class TestPoints:
    def test_weights_make_an_average(self):
        over = riesz.points(jnp.arange(8.0))
        np.testing.assert_array_equal(over.weights, np.full(8, 1 / 8))
        assert over.data is None

    def test_given_weights_and_data_are_kept(self):
        weights = [0.0, 2.0, 5.0]
        over = riesz.points([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], data=[7.0, 8.0, 9.0], weights=weights)
        assert over.x.shape == (3, 2)
        np.testing.assert_array_equal(over.data, [7, 8, 9])
        np.testing.assert_array_equal(over.weights, weights)

    def test_integer_points_become_floating_and_integer_labels_stay(self):
        over = riesz.points(np.arange(3), data=np.arange(3))
        assert over.x.dtype == jnp.float64
        assert jnp.issubdtype(over.data.dtype, jnp.integer)

    def test_single_precision_stays(self):
        over = riesz.points(jnp.arange(3, dtype=jnp.float32), weights=[1, 2, 3])
        assert over.x.dtype == over.weights.dtype == jnp.float32


class TestGrid:
    @settings(deadline=None, max_examples=10)
    @given(boxes)
    def test_every_combination_of_equispaced_coordinates_with_both_ends_and_equal_weights(self, box):
        low, width, n = zip(*box, strict=True)
        high = np.add(low, width)
        over = riesz.grid(low, high, n)
        assert np.ptp(over.weights) == 0
        np.testing.assert_allclose(np.sum(over.weights), np.prod(high - low), rtol=1e-12)

        axes = [np.linspace(a, b, m) for a, b, m in zip(low, high, n, strict=True)]
        found = np.asarray(over.x)
        expected = np.array(sorted(itertools.product(*axes)))
        np.testing.assert_allclose(found[np.lexsort(found.T[::-1])], expected, atol=1e-12)
        np.testing.assert_array_equal(found.min(axis=0), low)
        np.testing.assert_array_equal(found.max(axis=0), high)

    def test_numbers_give_scalar_points_and_sequences_vector_points(self):
        assert riesz.grid(0, 1, 7).x.shape == (7,)
        assert riesz.grid((0,), (1,), 7).x.shape == (7, 1)
        assert riesz.grid((0, 0), (1, 2), 7).x.shape == (49, 2)

    def test_one_count_per_dimension(self):
        over = riesz.grid((0, 0), (1, 2), (3, 5))
        assert len(set(np.asarray(over.x)[:, 0])) == 3
        assert len(set(np.asarray(over.x)[:, 1])) == 5

    def test_a_number_takes_the_precision_of_the_other_corner(self):
        assert riesz.grid(0, jnp.float32(1), 5).x.dtype == jnp.float32


class TestMonteCarlo:
    """2000 draws of 50 points on a box of volume 6."""

    over = riesz.monte_carlo((-1.0, 2.0), (1.0, 5.0), 50)

    @staticmethod
    @functools.cache
    def draws():
        return draws_of(TestMonteCarlo.over, 2000)

    def test_weights_are_equal_and_sum_to_the_volume(self):
        draws = self.draws()
        np.testing.assert_allclose(draws.weights, np.full((2000, 50), 6 / 50), rtol=1e-14)

    def test_points_lie_in_the_box_and_fill_it(self):
        draws = self.draws()
        for axis, (low, high) in enumerate([(-1, 1), (2, 5)]):
            coordinate = draws.x[..., axis]
            assert low <= coordinate.min() < low + 0.001 * (high - low)
            assert high - 0.001 * (high - low) < coordinate.max() <= high

    def test_draws_are_fresh(self):
        draws = self.draws()
        assert len(np.unique(draws.x)) == draws.x.size

    def test_a_key_decides_the_draw(self):
        draws = self.draws()
        np.testing.assert_array_equal(self.over.draw(keys(2000)[7]).x, draws.x[7])

    def test_integrals_are_unbiased(self):
        """Int (x0 + x0^2 x1) dx = 7, within four standard errors of the mean of all draws."""
        draws = self.draws()
        x0, x1 = draws.x[..., 0], draws.x[..., 1]
        estimates = np.sum(draws.weights * (x0 + x0**2 * x1), axis=1)
        mean_square = 1 / 3 + (1 / 5) * 13  # the mixed term is odd in x0
        error = 6 * np.sqrt((mean_square - (7 / 6) ** 2) / 50)
        assert abs(np.mean(estimates) - 7) < 4 * error / np.sqrt(2000)
        np.testing.assert_allclose(np.std(estimates), error, rtol=0.1)

    def test_numbers_give_scalar_points(self):
        assert riesz.monte_carlo(0, 1, 9).draw(jax.random.key(0)).x.shape == (9,)

    def test_two_terms_on_one_measure_see_different_points(self):
        term = riesz.residual(riesz.identity, 0.0, riesz.monte_carlo(0, 1, 9))
        first, second = (term + term).draw(jax.random.key(0), lambda theta: jnp.sin, jnp.zeros(0))
        assert not np.isin(first.x, second.x).any()


class TestMinibatch:
    """4000 draws of 5 of 12 points, with weights and data of their own."""

    m, n = 12, 5
    x = np.arange(12.0)
    weights = np.linspace(0.5, 2.0, 12)
    points = riesz.points(x, data=x**2, weights=weights)

    @staticmethod
    @functools.cache
    def draws():
        return draws_of(riesz.minibatch(TestMinibatch.points, TestMinibatch.n), 4000)

    def test_points_are_drawn_without_replacement(self):
        draws = self.draws()
        assert draws.x.shape == (4000, self.n)
        assert all(len(set(row)) == self.n for row in draws.x)

    def test_points_bring_their_data_and_weights(self):
        draws = self.draws()
        np.testing.assert_array_equal(draws.data, draws.x**2)
        np.testing.assert_allclose(draws.weights, self.weights[draws.x.astype(int)] * self.m / self.n, rtol=1e-14)

    def test_draws_are_fresh(self):
        draws = self.draws()
        subsets = {frozenset(row) for row in draws.x}
        assert len(subsets) > 0.98 * math.comb(self.m, self.n)

    def test_integrals_are_unbiased(self):
        """With the variance m^2 (1 - n/m) s^2 / n of sampling without replacement."""
        draws = self.draws()
        estimates = np.sum(draws.weights * np.sin(draws.x), axis=1)
        summands = self.weights * np.sin(self.x)
        error = self.m * np.sqrt((1 - self.n / self.m) * np.var(summands, ddof=1) / self.n)
        assert abs(np.mean(estimates) - np.sum(summands)) < 4 * error / np.sqrt(4000)
        np.testing.assert_allclose(np.std(estimates), error, rtol=0.1)

    def test_every_point_is_drawn_equally_often(self):
        draws = self.draws()
        counts = np.bincount(draws.x.astype(int).ravel(), minlength=self.m)
        share = self.n / self.m
        assert np.abs(counts - 4000 * share).max() < 4.5 * np.sqrt(4000 * share * (1 - share))

    def test_the_whole_batch_is_the_full_sum(self):
        drawn = draws_of(riesz.minibatch(self.points, self.m), 1)
        np.testing.assert_allclose(np.sum(drawn.weights * np.sin(drawn.x)), self.weights @ np.sin(self.x), rtol=1e-13)
