"""Sketches: rows mixed at random, with the gradient exact."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._linalg.rows import Stored
from riesz._linalg.solvers.sketched import mixed

KEY = jax.random.key(0)


def linear(m=400, d=5, noise=0.1):
    """A linear fit with noise: its minimiser is known."""
    x = jnp.linspace(-1.0, 1.0, m)
    basis = lambda x: x ** jnp.arange(d)
    y = jnp.sin(3 * x) + noise * jax.random.normal(jax.random.key(1), x.shape)
    D, theta = riesz.parametrise(lambda p, x: p @ basis(x), jnp.zeros(d))
    best = jnp.linalg.lstsq(jax.vmap(basis)(x), y)[0]
    return riesz.least_squares(riesz.points(x, data=y)), D, theta, best


@pytest.mark.parametrize("N", (20, 37, 400))
def test_mixing_keeps_the_gram_matrix_on_average(N):
    rows = jax.random.normal(jax.random.key(2), (N, 3))
    gram = lambda key: (lambda small: small.T @ small)(mixed(rows, 12, key))
    grams = jax.vmap(gram)(jax.random.split(KEY, 4000))
    spread = jnp.std(grams, axis=0) / jnp.sqrt(4000.0)
    assert (jnp.abs(jnp.mean(grams, axis=0) - rows.T @ rows) <= 4.5 * spread + 1e-12).all()
    assert mixed(rows, 12, KEY).shape == (12, 3)


def test_every_row_goes_to_one_place_with_a_sign():
    N, count = 50, 8
    omega = mixed(jnp.eye(N), count, KEY)
    np.testing.assert_array_equal(jnp.sum(jnp.abs(omega), axis=0), np.ones(N))
    assert set(np.unique(omega)) == {-1.0, 0.0, 1.0}
    assert int(jnp.max(jnp.sum(jnp.abs(omega), axis=1))) <= -(-N // count)


def test_few_rows_are_not_mixed():
    rows = Stored(jax.random.normal(jax.random.key(3), (12, 3)))
    filter = riesz.Shift(1e-3)
    r = jnp.arange(12.0)
    expected = riesz.QRSVD()(rows).inverse(filter).project(r)
    np.testing.assert_array_equal(riesz.Sketched(riesz.QRSVD(), 4)(rows).inverse(filter).project(r), expected)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("solver", (riesz.QRSVD(), riesz.Gram(), riesz.Cholesky(), riesz.QRSVD(64)))
def test_steps_end_where_exact_ones_end(solver):
    loss, D, theta, best = linear()
    method = riesz.ngd(
        filter=riesz.Shift(1e-10), factorisation=riesz.Sketched(solver, 8), step_size=riesz.Constant(0.5)
    )
    found = riesz.minimise(loss, D, theta, method, max_steps=150, key=KEY, progress=False)
    np.testing.assert_allclose(found.theta, best, atol=1e-9)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ("nhb", "qnhb", "auto", "nn2", "spring"))
def test_every_method(name):
    x = jnp.linspace(-1.0, 1.0, 300)
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x)))
    D, theta = riesz.mlp(jax.random.key(4), (1, 4, 1))
    solver = riesz.Sketched(riesz.QRSVD(), 8)
    make = riesz.auto if name == "auto" else functools.partial(getattr(riesz, name), filter=riesz.Shift(1e-2))
    method = make(factorisation=solver)
    found = riesz.minimise(loss, D, theta, method, max_steps=60, key=KEY, progress=False)
    exact = riesz.minimise(loss, D, theta, make(), max_steps=60, progress=False)
    assert found.loss < (2 * exact.loss if name != "auto" else 1e-5)
    again = riesz.minimise(loss, D, theta, method, max_steps=60, key=KEY, progress=False)
    np.testing.assert_array_equal(again.theta, found.theta)
    other = riesz.minimise(loss, D, theta, method, max_steps=60, key=jax.random.key(9), progress=False)
    assert not np.array_equal(other.theta, found.theta)


def test_a_run_goes_on_with_the_same_bits(tmp_path):
    loss, D, theta, _ = linear()
    method = riesz.ngd(filter=riesz.Shift(1e-10), factorisation=riesz.Sketched(), step_size=riesz.Constant(0.5))
    run = lambda steps, **more: riesz.minimise(loss, D, theta, method, max_steps=steps, key=KEY, progress=False, **more)
    run(7, checkpoint=tmp_path)
    np.testing.assert_array_equal(run(20, checkpoint=tmp_path).theta, run(20).theta)


def test_mistakes_are_told():
    loss, D, theta, _ = linear()
    with pytest.raises(ValueError, match="key must be given"):
        riesz.minimise(loss, D, theta, riesz.ngd(factorisation=riesz.Sketched()), progress=False)
    with pytest.raises(ValueError, match="Sketched itself"):
        riesz.Sketched(riesz.Sketched())
    with pytest.raises(ValueError, match="factor"):
        riesz.Sketched(riesz.QRSVD(), 0)
    with pytest.raises(ValueError, match="no spectrum"):
        riesz.ngd(factorisation=riesz.Sketched(riesz.Cholesky()))
