"""Christoffel sampling: its law, its weights, and how few points keep a Gram matrix well conditioned."""

import functools
import math
import pathlib
import runpy
from types import SimpleNamespace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._problem.measures import AbstractMeasure
from spoken import check_sentence

key = jax.random.key(0)
BENCHMARK = pathlib.Path(__file__).parents[1] / "benchmarks" / "christoffel.py"

M, P, D_SIZE = 40, 2, 5
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(M, P, D_SIZE)) * np.geomspace(1, 30, M)[:, None, None]
WEIGHTS = rng.uniform(0.1, 2, M)
POOL = riesz.points(np.arange(float(M)), data=np.arange(M) * 10, weights=WEIGHTS)


def law(rows, pool=POOL, **options):
    return np.asarray(riesz.christoffel(pool, 5, **options).law(jnp.asarray(rows)))


def leverage(rows, weights=WEIGHTS):
    """From the definition: w_j sum_p R_jp G^+ R_jp^T, with the Gram matrix of the pool."""
    gram = np.einsum("m,mpi,mpj->ij", weights, rows, rows)
    return weights * np.einsum("mpi,ij,mpj->m", rows, np.linalg.pinv(gram, rcond=1e-12, hermitian=True), rows)


class TestLaw:
    def test_leverage_mixed_with_weights(self):
        scores = leverage(ROWS)
        assert scores.sum() == pytest.approx(D_SIZE)
        expected = 0.9 * scores / D_SIZE + 0.1 * WEIGHTS / WEIGHTS.sum()
        np.testing.assert_allclose(law(ROWS), expected, rtol=1e-10)
        np.testing.assert_allclose(
            law(ROWS, uniform=0.5), 0.5 * scores / D_SIZE + 0.5 * WEIGHTS / WEIGHTS.sum(), rtol=1e-10
        )

    def test_the_basis_of_the_parameters_does_not_matter(self):
        change = rng.normal(size=(D_SIZE, D_SIZE)) * np.geomspace(1, 1e4, D_SIZE)
        np.testing.assert_allclose(law(ROWS @ change), law(ROWS), rtol=1e-8)

    def test_directions_of_no_length_do_not_count(self):
        """A parameter that repeats another one, and one without any effect."""
        wider = np.concatenate([ROWS, ROWS[..., :1] + 2 * ROWS[..., 1:2], np.zeros((M, P, 1))], axis=-1)
        np.testing.assert_allclose(law(wider), law(ROWS), rtol=1e-9)

    def test_the_cutoff_leaves_out_short_directions(self):
        faint = np.concatenate([ROWS, 1e-5 * rng.normal(size=(M, P, 1))], axis=-1)
        np.testing.assert_allclose(law(faint, cutoff=1e-3), law(ROWS), rtol=1e-3)
        assert np.abs(law(faint) / law(ROWS) - 1).max() > 0.1

    def test_more_parameters_than_rows(self):
        """Every row has leverage 1, so that points are drawn evenly."""
        rows = rng.normal(size=(M, P, 3 * M * P))
        np.testing.assert_allclose(law(rows), 0.9 / M + 0.1 * WEIGHTS / WEIGHTS.sum(), rtol=1e-9)

    @pytest.mark.parametrize("rows", [np.zeros((M, P, 3)), np.zeros((M, P, 0)), np.full((M, P, 3), np.inf)])
    def test_without_a_tangent_space_the_weights_decide(self, rows):
        np.testing.assert_allclose(law(rows), WEIGHTS / WEIGHTS.sum(), rtol=1e-12)

    def test_single_precision(self):
        pool = riesz.points(jnp.arange(M, dtype=jnp.float32), weights=jnp.asarray(WEIGHTS, jnp.float32))
        found = riesz.christoffel(pool, 5).law(jnp.asarray(ROWS, jnp.float32))
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, law(ROWS), rtol=1e-3)


class TestDraws:
    """5000 draws of 6 of 40 points."""

    n, draws = 6, 5000

    @staticmethod
    @functools.cache
    def drawn():
        measure = riesz.christoffel(POOL, TestDraws.n)
        at = SimpleNamespace(features=lambda x: jnp.asarray(ROWS)[x.astype(int)])
        keys = jax.random.split(key, TestDraws.draws)
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda key: measure.draw(key, at)))(keys))

    def test_points_are_drawn_by_the_law_and_bring_data_and_weights(self):
        drawn, probabilities = self.drawn(), law(ROWS)
        index = drawn.x.astype(int)
        np.testing.assert_array_equal(drawn.data, 10 * index)
        np.testing.assert_allclose(drawn.weights, WEIGHTS[index] / (self.n * probabilities[index]), rtol=1e-10)
        counts, total = np.bincount(index.ravel(), minlength=M), index.size
        assert np.all(np.abs(counts - total * probabilities) < 4.5 * np.sqrt(total * probabilities))

    def test_draws_are_fresh(self):
        assert len({tuple(row) for row in self.drawn().x}) > 0.99 * self.draws

    def test_no_weight_is_larger_than_the_mass_over_its_uniform_share(self):
        assert self.drawn().weights.max() <= WEIGHTS.sum() / (0.1 * self.n) * (1 + 1e-12)

    def test_integrals_and_gram_matrix_are_unbiased(self):
        """Every entry within 4.5 standard errors of the mean of all draws."""
        drawn = self.drawn()
        index = drawn.x.astype(int)
        values = np.concatenate(
            [np.cos(np.arange(M))[:, None], np.einsum("mpi,mpj->mij", ROWS, ROWS).reshape(M, -1)], axis=1
        )
        estimates = np.einsum("kn,knv->kv", drawn.weights, values[index])
        error = np.std(estimates, axis=0) / math.sqrt(self.draws)
        assert np.all(np.abs(np.mean(estimates, axis=0) - WEIGHTS @ values) < 4.5 * error)

    def test_points_of_weight_zero_are_never_drawn(self):
        weights = np.where(np.arange(M) % 2, WEIGHTS, 0)
        measure = riesz.christoffel(riesz.points(np.arange(float(M)), weights=weights), 2000)
        drawn = measure.draw(key, SimpleNamespace(features=lambda x: jnp.asarray(ROWS)))
        assert np.all(np.asarray(drawn.x) % 2 == 1)
        assert np.isfinite(drawn.weights).all()


@functools.cache
def benchmark():
    return runpy.run_path(str(BENCHMARK))


class TestConditioning:
    """The tangent space of 5 tanh neurons with slopes from 1 to 300: d = 15, 10 d log d = 407 points."""

    @staticmethod
    def kept(make, factor):
        D, theta = benchmark()["network"](300.0)
        n = math.ceil(10 * theta.size * math.log(theta.size))
        return benchmark()["kept"](D, theta, benchmark()[make](factor * n))

    def test_10_d_log_d_points_keep_the_condition_number_below_3_in_95_of_100_draws(self):
        assert self.kept("adapted", 1) >= 0.95

    def test_uniform_points_need_more_than_5_times_as_many(self):
        assert self.kept("uniform", 5) < 0.9

    def test_with_enough_uniform_points_it_is_reached(self):
        """The failure above is that of the points, not of the condition number that is measured."""
        assert self.kept("uniform", 40) >= 0.95


class Watched(AbstractMeasure):
    """A measure that writes down the shape of the rows that it is given."""

    inner: AbstractMeasure
    seen: list
    drawn: ClassVar[bool] = True

    def draw(self, key, at=None):
        self.seen.append(at.features(self.inner.pool.x).shape)
        return self.inner.draw(key, at)


class TestLosses:
    D, theta = riesz.mlp(key, (1, 6, 1))
    pool = riesz.grid(-1.0, 1.0, 200)

    def test_a_loss_at_a_function_uses_the_weights(self):
        """A function has no tangent space; the integral of x^2 / 2 is 1/3 up to the grid and chance."""
        loss = riesz.residual(riesz.identity, 0.0, riesz.christoffel(self.pool, 50))
        values = jax.jit(jax.vmap(lambda key: loss(lambda x: x, key=key)))(jax.random.split(key, 400))
        assert abs(np.mean(values) - 1 / 3) < 0.005 + 4 * np.std(values) / math.sqrt(400)
        with pytest.raises(ValueError, match=r"^key must be given"):
            loss(lambda x: x)

    def test_the_points_follow_the_operator_of_their_term(self):
        """Rows of shape (m, p, d) with p = 2, from an operator with two values."""

        def value_and_slope(v):
            return lambda x: jnp.stack([v(x), riesz.derivative(v)(x)])

        term = riesz.Integral(jnp.sum, Watched(riesz.christoffel(self.pool, 30), seen := []), operator=value_and_slope)
        (over,) = jax.jit(lambda key: term.draw(key, self.D, self.theta))(key)
        assert seen == [(200, 2, self.theta.size)]
        assert over.x.shape == (30,)

    def test_minimise_reaches_what_the_whole_pool_reaches(self):
        data = riesz.points(self.pool.x, data=jnp.sin(3 * self.pool.x))
        loss = riesz.least_squares(riesz.christoffel(data, 60))
        solution = riesz.minimise(loss, self.D, self.theta, max_steps=80, key=key, progress=False)
        assert float(riesz.least_squares(data)(solution.function)) < 1e-8

    def test_inner_products_may_have_christoffel_points(self):
        W = riesz.InnerProduct(over=riesz.christoffel(self.pool, 60))
        loss = riesz.least_squares(riesz.points(self.pool.x, data=jnp.sin(3 * self.pool.x)))
        solution = riesz.minimise(loss, self.D, self.theta, riesz.ngd(W=W), max_steps=3, key=key, progress=False)
        assert float(solution.loss) < float(loss(self.D(self.theta)))

    def test_numbers_are_leaves(self):
        measure = riesz.christoffel(riesz.points(self.pool.x), 5)
        assert {float(leaf) for leaf in jax.tree.leaves(eqx.filter(measure, lambda a: jnp.ndim(a) == 0))} == {0.1, 1e-8}


pool = riesz.grid(0.0, 1.0, 10)
adapted = riesz.christoffel(pool, 5)
first = lambda v: lambda x: v(x)[0]

# What is wrong, the call, the exception, and a pattern of its message with the name of the argument.
CALLS = [
    ("pool of an array", lambda: riesz.christoffel(jnp.ones(3), 5), TypeError, r"^pool must be fixed points"),
    ("pool of draws", lambda: riesz.christoffel(riesz.monte_carlo(0, 1, 9), 5), TypeError, r"^pool must be fixed"),
    ("no points", lambda: riesz.christoffel(pool, 0), ValueError, r"^n must be at least 1"),
    ("half a point", lambda: riesz.christoffel(pool, 0.5), TypeError, r"^n must be a whole number"),
    ("no uniform share", lambda: riesz.christoffel(pool, 5, uniform=0), ValueError, r"^uniform must be greater than 0"),
    ("uniform only", lambda: riesz.christoffel(pool, 5, uniform=1), ValueError, r"^uniform must be less than 1"),
    ("text", lambda: riesz.christoffel(pool, 5, uniform="a"), TypeError, r"^uniform must be a number"),
    ("two shares", lambda: riesz.christoffel(pool, 5, uniform=[0.1, 0.2]), ValueError, r"^uniform must be a single"),
    ("cutoff of 1", lambda: riesz.christoffel(pool, 5, cutoff=1.0), ValueError, r"^cutoff must be less than 1"),
    ("negative cutoff", lambda: riesz.christoffel(pool, 5, cutoff=-1e-8), ValueError, r"^cutoff must be at least 0"),
    (
        "no mass",
        lambda: riesz.christoffel(riesz.points([1.0], weights=[0.0]), 5),
        ValueError,
        r"^pool must have a positive weight",
    ),
    ("no features", lambda: riesz.christoffel(pool, 5).draw(key), ValueError, r"^at must be given"),
    (
        "a model of other points",
        lambda: riesz.tangent_space(riesz.residual(first, 0.0, adapted), *riesz.mlp(key, (1, 3, 1)), key=key),
        ValueError,
        r"^D and operator must accept the points that the loss draws from",
    ),
]


@pytest.mark.parametrize(("call", "error", "pattern"), [pytest.param(*rest, id=name) for name, *rest in CALLS])
def test_a_wrong_call_is_answered_with_one_sentence(call, error, pattern):
    check_sentence(call, error, pattern)
