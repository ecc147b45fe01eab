"""Step sizes: their formulas, and what they do where the loss is not a number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from riesz._methods.step_sizes import Search

one = jnp.ones(1)


def search(trial, value=1.0, slope=1.0, direction=one):
    return Search(direction, trial, jnp.asarray(value), jnp.asarray(slope))


def tried(rule, trial, **options):
    return float(jax.jit(lambda: rule(search(trial, **options)))())


def quadratic(alpha):
    """L(theta - alpha g) with L = theta^2 / 2, theta = 1 and g = 1: lowest at alpha = 1."""
    return 0.5 * (1 - alpha) ** 2


class TestConstant:
    def test_is_constant(self):
        assert float(riesz.Constant(0.3)(search(quadratic))) == 0.3

    def test_takes_the_precision_of_the_parameters(self):
        for rule in (riesz.Constant(0.3), riesz.Clipped(), riesz.GridSearch(), riesz.Armijo()):
            alpha = jax.eval_shape(lambda g, rule=rule: rule(Search(g, jnp.sum, g[0], g[0])), jnp.ones(2, jnp.float32))
            assert (alpha.shape, alpha.dtype) == ((), jnp.float32)


class TestClipped:
    @settings(deadline=None, max_examples=20)
    @given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e6))
    def test_is_the_smaller_of_one_over_the_norm_and_alpha(self, alpha, length):
        direction = length * jnp.array([0.6, -0.8])
        found = float(riesz.Clipped(alpha)(search(quadratic, direction=direction)))
        np.testing.assert_allclose(found, min(1 / length, alpha), rtol=1e-13)
        assert found * length <= 1 + 1e-13

    def test_is_a_tenth_by_default(self):
        assert float(riesz.Clipped()(search(quadratic))) == 0.1

    def test_of_no_direction_is_alpha(self):
        assert float(riesz.Clipped(0.2)(search(quadratic, direction=jnp.zeros(3)))) == 0.2


class TestGridSearch:
    def test_tries_powers_of_two_by_default(self):
        np.testing.assert_array_equal(riesz.GridSearch().grid, 2.0 ** -np.arange(31))

    @settings(deadline=None, max_examples=10)
    @given(st.lists(st.floats(0.01, 3), min_size=5, max_size=5), st.floats(0.01, 3))
    def test_takes_the_lowest_loss(self, grid, best):
        found = float(riesz.GridSearch(grid)(search(lambda alpha: (alpha - best) ** 2)))
        assert found in np.asarray(grid)
        assert (found - best) ** 2 <= min((a - best) ** 2 for a in grid) * (1 + 1e-12)

    def test_takes_the_best_of_the_numbers_where_some_are_none(self):
        trial = lambda alpha: jnp.where(alpha > 0.3, jnp.nan, quadratic(alpha))
        assert tried(riesz.GridSearch(), trial) == 0.25

    def test_is_positive_where_no_loss_is_a_number(self):
        assert tried(riesz.GridSearch([0.5, 0.25]), lambda alpha: alpha * jnp.nan) == 0.5


class TestArmijo:
    backtracked = staticmethod(jax.jit(lambda *numbers: riesz.Armijo(*numbers)(search(quadratic, value=0.5))))

    def test_takes_the_first_try_where_it_will_do(self):
        assert tried(riesz.Armijo(), quadratic, value=0.5) == 1.0

    @settings(deadline=None, max_examples=15)
    @given(st.floats(0.2, 50), st.floats(0.3, 0.8), st.floats(1e-4, 0.4))
    def test_takes_the_first_step_with_sufficient_decrease(self, initial, shrink, decrease):
        sufficient = lambda alpha: quadratic(alpha) <= 0.5 - decrease * alpha
        expected = initial
        while not sufficient(expected):
            expected *= shrink
        found = float(self.backtracked(initial, shrink, decrease))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found <= 2 * (1 - decrease) * (1 + 1e-12)  # where the inequality holds, by hand

    @pytest.mark.parametrize("worst", [jnp.nan, jnp.inf])
    def test_backtracks_from_where_the_loss_is_not_finite(self, worst):
        trial = lambda alpha: jnp.where(alpha > 0.3, worst, quadratic(alpha))
        assert tried(riesz.Armijo(), trial, value=0.5) == 0.25

    def test_takes_the_lowest_loss_tried_where_none_will_do(self):
        """As with momentum uphill: every trial is above the loss, and alpha = 1/8 is the lowest."""
        trial = lambda alpha: 2 + (jnp.log2(alpha) + 3) ** 2
        assert tried(riesz.Armijo(), trial, value=0.5) == 0.125

    def test_ends_after_so_many_halvings(self):
        assert tried(riesz.Armijo(halvings=3), lambda alpha: 2 + alpha, value=0.5) == 0.125

    def test_is_positive_where_no_loss_is_a_number(self):
        assert 0 < tried(riesz.Armijo(), lambda alpha: alpha * jnp.nan, value=0.5) <= 1


class TestInARun:
    x = jnp.linspace(-1, 1, 30)
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x)))
    D, theta0 = riesz.mlp(jax.random.key(2), (1, 3, 1))

    def run(self, step_size):
        method = riesz.ngd(step_size=step_size, filter=riesz.Floor(1e-3))
        return riesz.minimise(self.loss, self.D, self.theta0, method, max_steps=8).history

    def test_clipped_steps_of_natural_gradient_are_at_most_one_long(self):
        history = self.run(riesz.Clipped(0.9))
        alpha, lengths = history["alpha"], history["step_norm"]
        clipped = alpha < 0.9
        assert clipped.any() and not clipped.all()
        np.testing.assert_allclose(lengths[clipped], 1, rtol=1e-12)
        assert (lengths[~clipped] <= 1).all()

    def test_backtracking_lowers_the_loss_at_every_step(self):
        history = self.run(riesz.Armijo())
        assert (np.diff(history["loss"]) < 0).all()
        assert np.isin(history["alpha"], 2.0 ** -np.arange(31)).all()
