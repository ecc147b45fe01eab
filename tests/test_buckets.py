"""Points of small problems are filled up to a few numbers: programs are shared, and sums stay what they are."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._running.buckets import bucket, in_buckets
from riesz._running.prepare import Options, prepare
from test_minimise import COMPILATIONS

THETA = jnp.asarray([0.3, -0.2, 0.1])


def D(theta):
    return lambda x: jnp.tanh(theta[0] * x[0] + theta[1]) + theta[2] * x[1]


def losses(m):
    x = jnp.asarray(np.random.default_rng(m).normal(size=(m, 2)))
    labels = jnp.arange(m) % 2
    yield riesz.least_squares(riesz.points(x, data=x[:, 0] ** 2))
    yield riesz.logistic(riesz.points(x, data=labels, weights=jnp.linspace(0.0, 1.0, m)))
    smooth = riesz.residual(riesz.gradient, 0.0, riesz.points(x[:7]))
    yield riesz.least_squares(riesz.points(x, data=jnp.sin(x[:, 0]))) + 0.1 * smooth


def test_buckets_are_four_to_the_octave():
    found = [bucket(count) for count in range(1, 1000)]
    assert found[:8] == list(range(1, 9))
    assert sorted(set(found))[-4:] == [640, 768, 896, 1024]
    for count, filled in enumerate(found, start=1):
        assert count <= filled <= 1.25 * count
        assert bucket(filled) == filled


@eqx.filter_jit
def one_step(method, loss):
    """Where a step leads, and what it saw."""
    theta, _, info = method.step(loss, D, THETA, method.init(THETA), method.draw(loss, D, THETA))
    return theta, info.loss, info.gradient_norm, info.rank


@pytest.mark.at_once(1)
@pytest.mark.parametrize("m", [9, 21, 50])
def test_points_of_weight_zero_change_no_loss_and_no_step(m):
    """One step of a method sees the same gradient, Gram matrix and loss."""
    for loss in losses(m):
        filled = in_buckets(loss)
        assert [term.over.x.shape[0] for term in filled.terms] == [bucket(t.over.x.shape[0]) for t in loss.terms]
        np.testing.assert_allclose(filled(D(THETA)), loss(D(THETA)), rtol=1e-14)
        # auto scales the parameter that is linear by sqrt(eps), so that the SVD knows the others up to about that.
        for method, rtol in ((riesz.nhb(filter=riesz.Floor(1e-3)), 1e-12), (riesz.auto(), 1e-8)):
            found = []
            for each in (loss, filled):
                found.append(one_step(method, each))
            for a, b in zip(*found, strict=True):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


def test_one_point_more_compiles_nothing():
    problems = [next(losses(m)) for m in (50, 51, 56)]
    riesz.minimise(problems[0], D, THETA, max_steps=3, progress=False)
    before = COMPILATIONS.count
    for loss in problems[1:]:
        riesz.minimise(loss, D, THETA, max_steps=3, progress=False)
    assert COMPILATIONS.count == before


@pytest.mark.parametrize(("parameters", "points"), [(10, 9), (9, 10)])
def test_fewer_rows_than_parameters_stay_fewer(parameters, points):
    """More rows would change the side on which they are solved; where rows are many already, they are filled up."""
    x = jnp.linspace(0.0, 1.0, 9)
    loss = riesz.least_squares(riesz.points(x, data=x))
    wide = lambda theta: lambda x: jnp.sum(theta * x ** jnp.arange(1.0 * parameters))
    theta = jnp.zeros(parameters)
    options = Options.checked(theta, 5, None, None, None, None, False)
    problem, _, _ = prepare(loss, wide, theta, "ngd", None, options, None)
    assert problem.loss.terms[0].over.x.shape == (points,)
