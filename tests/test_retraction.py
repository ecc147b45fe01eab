"""The second-order retraction: its equation densely transcribed, its order, its limit."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._geometry.inner_products import draw_sample
from riesz._geometry.linearise import linearise


@pytest.fixture(params=["least_squares", "logistic"])
def problem(request):
    """A network with a tangent system of full rank, under two losses."""
    x = jnp.linspace(-2, 2, 60)
    D, theta = riesz.mlp(jax.random.key(2), (1, 3, 1))
    if request.param == "logistic":
        return riesz.logistic(riesz.points(x, data=(jnp.sin(3 * x) > 0).astype(int))), D, theta, riesz.GaussNewton()
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x))), D, theta, riesz.L2()


@eqx.filter_jit
def derivatives(D, theta, x):
    """The values at points, their Jacobian and their Hessians."""
    z = lambda theta: jax.vmap(D(theta))(x)
    return z(theta), jax.jacfwd(z)(theta), jax.jacfwd(jax.jacfwd(z))(theta)


def dense(loss, D, theta, delta, eps, limit, W):
    """The docstring's equation with explicit Hessians and Gram matrices."""
    (term,) = loss.terms
    x, weights = term.over.x, np.asarray(term.over.weights)
    z, J, H = map(np.asarray, derivatives(D, theta, x))
    if isinstance(W, riesz.GaussNewton):
        p = 1 / (1 + np.exp(-z))
        weights = weights * p * (1 - p)
    eigenvalues, vectors = np.linalg.eigh(J.T @ (weights[:, None] * J))
    bent = np.einsum("mij,i,j->m", H, delta, delta)
    a = -vectors @ (vectors.T @ (J.T @ (weights * bent)) / np.maximum(eigenvalues, eps))
    s = min(1.0, limit * np.linalg.norm(delta) / np.linalg.norm(a))
    return theta + s * delta + s**2 / 2 * a, s


@pytest.mark.at_once(20)
@pytest.mark.parametrize("limit", [1e-2, 0.75, 1e6])
@pytest.mark.parametrize("name", ["ngd", "nhb", "nhb_fd", "nn2", "nn1"])
def test_the_first_step_of_every_scheme_is_the_dense_formula(problem, name, limit):
    loss, D, theta, W = problem
    choices = {"W": W, "filter": riesz.Floor(1e-4), "step_size": riesz.Constant(0.7)}
    straight = riesz.minimise(loss, D, theta, riesz.METHODS[name](**choices), max_steps=1).last - theta
    method = riesz.METHODS[name](**choices, retraction=riesz.SecondOrder(limit))
    solution = riesz.minimise(loss, D, theta, method, max_steps=1)
    expected, s = dense(loss, D, theta, np.asarray(straight), 1e-4, limit, W)
    np.testing.assert_allclose(solution.last, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(solution.history["scale"], [s], rtol=1e-8)
    assert (s < 1) == (limit == 1e-2) or limit == 0.75


@pytest.mark.at_once(2)
def test_the_path_leaves_the_tangent_direction_at_right_angles(problem):
    """P_T (D(R(t delta)) - v) = t psi^T delta + O(t^3), where a straight line has O(t^2)."""
    loss, D, theta, W = problem
    (term,) = loss.terms
    space = riesz.tangent_space(loss, D, theta, W=W, filter=riesz.Floor(1e-14))
    delta = jax.random.normal(jax.random.key(1), theta.shape) / 10

    def tangential(retraction, t):
        at = linearise(loss, D, theta, draw_sample(loss, D, theta, None, W))
        landed = retraction(at, space, t * delta).theta
        moved = space.rows(lambda block: jax.vmap(D(landed))(block.over.x) - jax.vmap(D(theta))(block.over.x))
        return float(space.norm(space.project(moved) - t * delta))

    for retraction, order in ((riesz.Straight(), 2), (riesz.SecondOrder(1e9), 3)):
        errors = [tangential(retraction, t) for t in (0.1, 0.05)]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


def test_a_linear_model_is_never_bent():
    x = jnp.linspace(-1, 1, 20)
    D, theta = riesz.linear(lambda x: jnp.stack([jnp.ones_like(x), x, x**2]), 3)
    loss = riesz.least_squares(riesz.points(x, data=jnp.exp(x)))
    method = riesz.ngd(retraction=riesz.SecondOrder(), step_size=riesz.Constant(1.0))
    solution = riesz.minimise(loss, D, theta, method, max_steps=2)
    np.testing.assert_array_equal(solution.history["scale"], [1.0, 1.0])
    coefficients = np.polynomial.polynomial.polyfit(np.asarray(x), np.exp(x), 2)
    np.testing.assert_allclose(solution.theta, coefficients, rtol=1e-10)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "much"])
def test_a_wrong_limit_is_refused(limit):
    with pytest.raises((TypeError, ValueError), match="limit"):
        riesz.SecondOrder(limit)


def test_corrections_lead_to_the_orthographic_retraction(problem):
    """P_T (D(R) - v) = psi^T delta: each correction brings it closer."""
    loss, D, theta, W = problem
    filter = riesz.Floor(1e-14)
    at = linearise(loss, D, theta, draw_sample(loss, D, theta, None, W))
    space = riesz.tangent_space(loss, D, theta, W=W, filter=filter)
    delta = jax.random.normal(jax.random.key(1), theta.shape) / 100

    def miss(corrections):
        landing = riesz.SecondOrder(1e9, corrections)(at, space, delta)
        moved = lambda block: jax.vmap(D(landing.theta))(block.over.x) - jax.vmap(D(theta))(block.over.x)
        return float(space.norm(space.project(space.rows(moved)) - delta))

    misses = [miss(corrections) for corrections in (0, 1, 2, 3)]
    assert all(after < before / 2 for before, after in zip(misses, misses[1:], strict=False))
