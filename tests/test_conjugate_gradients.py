"""Conjugate gradients: the answers of a direct solver, by products alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._linalg.rows import Stored, evenly

SHIFT = riesz.Shift(1e-3)
CG = riesz.ConjugateGradients(tolerance=1e-13, max_steps=400, points=16, chunk=16)


@pytest.mark.parametrize("shape", ((60, 20), (20, 60)))
@pytest.mark.parametrize("eps", (1e-1, 1e-4))
def test_it_solves_the_damped_system(shape, eps):
    rows = Stored(jax.random.normal(jax.random.key(0), shape) / 8)
    G = rows.gram() + eps * jnp.eye(shape[1])
    inverse = CG(rows).inverse(riesz.Shift(eps))
    c, r = jnp.arange(1.0, shape[1] + 1), jnp.cos(jnp.arange(shape[0]))
    np.testing.assert_allclose(inverse.riesz(c), jnp.linalg.solve(G, c), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(inverse.project(r), jnp.linalg.solve(G, rows.T @ r), rtol=1e-8, atol=1e-8)


def fit(widths, m):
    x = jnp.linspace(-1.0, 1.0, m)
    D, theta = riesz.mlp(jax.random.key(0), widths)
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x))), D, theta


@pytest.mark.at_once(2)
@pytest.mark.parametrize("method", ("ngd", "qnhb", "nhb", "nn2", "spring"))
@pytest.mark.parametrize("widths", ((1, 6, 1), (1, 30, 1)))
def test_every_method_with_a_shift(method, widths):
    problem, make = fit(widths, 40), getattr(riesz, method)
    expected, found = (
        riesz.minimise(*problem, make(filter=SHIFT, factorisation=solver), max_steps=10, progress=False)
        for solver in (riesz.QRSVD(), CG)
    )
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-6, atol=1e-7)
    assert found.history["solver_residual"].max() < 1e-11 and not any("solved" in note for note in found.notes)


def test_what_was_not_reached_is_told():
    solver = riesz.ConjugateGradients(tolerance=1e-12, max_steps=1, points=1)
    method = riesz.ngd(filter=riesz.Shift(1e-6), factorisation=solver)
    found = riesz.minimise(*fit((1, 30, 1), 40), method, max_steps=3, progress=False)
    assert any("linear systems were solved to" in note for note in found.notes)


@pytest.mark.slow
def test_two_terms_and_operators():
    D, theta = riesz.mlp(jax.random.key(1), (2, 6, 1))
    edge = riesz.points(jnp.stack([jnp.zeros(13), jnp.linspace(0.0, 1.0, 13)], axis=1), data=jnp.zeros(13))
    inside = riesz.grid([0.0, 0.0], [1.0, 1.0], 7)
    loss = riesz.residual(riesz.laplacian, lambda x: -jnp.sin(x[0]), inside) + 10.0 * riesz.least_squares(edge)
    expected, found = (
        riesz.minimise(loss, D, theta, riesz.ngd(filter=SHIFT, factorisation=solver), max_steps=5, progress=False)
        for solver in (riesz.QRSVD(), CG)
    )
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-6, atol=1e-7)


def test_no_matrix_of_either_side_is_made():
    """The compiled step holds no N x N or d x d numbers."""
    loss, D, theta = fit((1, 300, 1), 700)
    method = riesz.ngd(filter=SHIFT, factorisation=riesz.ConjugateGradients(points=16, chunk=64))
    step = lambda theta: method.step(loss, D, theta, method.init(theta), method.draw(loss, D, theta))[0]
    shapes = {v.aval.shape for e in jax.make_jaxpr(step)(theta).jaxpr.eqns for v in e.outvars}
    assert max(int(np.prod(shape)) for shape in shapes) < 700 * 700


@pytest.mark.parametrize("count, wanted", ((10, 3), (3, 10), (7, 7)))
def test_evenly(count, wanted):
    found = evenly(count, wanted)
    assert found.size == min(count, wanted) and (np.diff(found) > 0).all() and found[-1] < count


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="no spectrum"):
        riesz.ngd(factorisation=riesz.ConjugateGradients())
    with pytest.raises(ValueError, match="not be ConjugateGradients"):
        riesz.auto(factorisation=riesz.ConjugateGradients())
    with pytest.raises(ValueError, match="tolerance"):
        riesz.ConjugateGradients(tolerance=0.0)
