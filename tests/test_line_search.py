"""Line searches look at the whole trial point: momentum, and the ratio h_k/h_{k-1}, included. A sweep is a vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz

X = jnp.linspace(-1.0, 1.0, 25)
LOSS = riesz.logistic(riesz.points(X, data=(jnp.sin(4 * X) > 0).astype(int)))
D, THETA = riesz.mlp(jax.random.key(3), (1, 4, 1))
GRID = 2.0 ** -jnp.arange(8.0)


def moved(name):
    """The parameters and state after two steps, so that there is a momentum."""
    method = riesz.METHODS[name](step_size=riesz.Constant(0.05))
    theta, state = THETA, method.init(THETA)
    sample = method.draw(LOSS, D, THETA)
    step = eqx.filter_jit(method.step)
    for _ in range(2):
        theta, state, _ = step(LOSS, D, theta, state, sample)
    return theta, state, sample


@eqx.filter_jit
def one_step(method, theta, state, sample):
    theta, _, info = method.step(LOSS, D, theta, state, sample)
    return theta, LOSS(D(theta)), info.alpha


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ["nhb", "nn1_fd", "nn2", "heavy_ball"])
def test_grid_search_takes_the_best_of_all_constant_steps(name):
    theta, state, sample = moved(name)
    step = lambda alpha: one_step(riesz.METHODS[name](step_size=riesz.Constant(alpha)), theta, state, sample)
    thetas, losses, _ = jax.vmap(step)(GRID)
    best = int(jnp.argmin(losses))
    found, loss, alpha = one_step(riesz.METHODS[name](step_size=riesz.GridSearch(GRID)), theta, state, sample)
    assert float(alpha) == float(GRID[best])
    np.testing.assert_allclose(found, thetas[best], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(loss, losses[best], rtol=1e-8)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ["ngd", "nhb", "nn1", "qnn2"])
def test_armijo_takes_the_first_step_that_decreases_enough(name):
    """Against the rule written out on constant steps: L(trial) <= L(base) - c alpha L'(g)."""
    theta, state, sample = moved(name)
    method = riesz.METHODS[name]()
    here = method.choices.linearise(LOSS, D, theta, sample)
    d = method.choices.transport(here, method.choices.momentum_space(here, sample), state)
    beta = method.choices.momentum(state.k)
    y = theta + beta * d if name in ("nn1", "qnn2") else theta
    there = method.choices.linearise(LOSS, D, y, sample)
    where = there if name == "nn1" else here
    W = method.choices.gradient_space(where, sample)
    slope = where.covector(there.slopes) @ W.represent(where, there.slopes).coefficients
    constant = lambda alpha: one_step(riesz.METHODS[name](step_size=riesz.Constant(alpha)), theta, state, sample)
    alphas = 2.0 ** -jnp.arange(31.0)
    _, losses, _ = jax.vmap(constant)(alphas)
    enough = np.asarray(losses <= there.loss - 1e-4 * alphas * slope)
    expected = float(alphas[int(np.argmax(enough))]) if enough.any() else float(alphas[int(jnp.argmin(losses))])
    _, _, alpha = one_step(riesz.METHODS[name](step_size=riesz.Armijo()), theta, state, sample)
    assert float(alpha) == expected
