"""Momentum rules: k counts from 1, an optax schedule from 0."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import riesz
from riesz._methods.momentum import as_momentum

steps = np.arange(1, 30)


def values(beta):
    rule = as_momentum(beta)
    return np.array([float(rule(jnp.asarray(k))) for k in steps])


def path(beta, n=4, alpha=0.1):
    """theta_0, ..., theta_n of NHB on L = theta^2 / 2, whose natural gradient is theta itself."""
    D = lambda theta: lambda x: theta[0] * jnp.ones_like(x)
    loss = riesz.residual(riesz.identity, 0.0, riesz.points(jnp.zeros(1)))
    method = riesz.nhb(beta=beta, step_size=riesz.Constant(alpha))
    theta = jnp.ones(1)
    state, sample, thetas = method.init(theta), method.draw(loss, D, theta), [1.0]
    step = jax.jit(lambda theta, state: method.step(loss, D, theta, state, sample)[:2])
    for _ in range(n):
        theta, state = step(theta, state)
        thetas.append(float(theta[0]))
    return np.array(thetas)


def path_by_hand(betas, alpha=0.1):
    thetas = [1.0]
    for k, beta in enumerate(betas):
        last = thetas[k] - thetas[k - 1] if k else 0.0
        thetas.append(thetas[k] + beta * last - alpha * thetas[k])
    return np.array(thetas)


@pytest.mark.parametrize("offset", [1, 2, 0.5])
@pytest.mark.parametrize("scale", [1.0, 0.75])
def test_nesterov(offset, scale):
    expected = scale * (steps - 1) / (steps + offset)
    np.testing.assert_allclose(values(riesz.NesterovMomentum(offset=offset, scale=scale)), expected, rtol=1e-14)


def test_nesterov_by_default_is_the_printed_one():
    np.testing.assert_allclose(values(riesz.NesterovMomentum())[:4], [0, 1 / 3, 2 / 4, 3 / 5], rtol=1e-14)


@pytest.mark.parametrize(("offset", "limit"), [(1, 2), (2, 3)])
def test_nesterov_approaches_one_as_one_minus_a_multiple_of_one_over_k(offset, limit):
    k = 10**6
    beta = float(riesz.NesterovMomentum(offset=offset)(jnp.asarray(k)))
    np.testing.assert_allclose(k * (1 - beta), limit, rtol=1e-5)


def test_a_number_is_constant():
    np.testing.assert_array_equal(values(0.9), np.full(len(steps), 0.9))
    np.testing.assert_array_equal(values(riesz.ConstantMomentum()), np.full(len(steps), 0.5))


def test_a_rule_is_left_as_it_is():
    rule = riesz.NesterovMomentum()
    assert as_momentum(rule) is rule


def test_a_function_counts_from_one():
    np.testing.assert_array_equal(values(lambda k: 1.0 * k), steps)


@pytest.mark.parametrize(
    "schedule",
    [
        optax.linear_schedule(0.1, 0.9, transition_steps=10),
        optax.exponential_decay(0.9, transition_steps=3, decay_rate=0.5),
        optax.constant_schedule(0.3),
        optax.join_schedules([optax.constant_schedule(0.1), optax.cosine_decay_schedule(0.9, 20)], [5]),
    ],
    ids=["linear", "exponential", "constant", "joined"],
)
def test_an_optax_schedule_counts_from_zero(schedule):
    expected = [float(schedule(k - 1)) for k in steps]
    np.testing.assert_allclose(values(schedule), expected, rtol=1e-14)
    np.testing.assert_allclose(values(functools.partial(schedule)), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("beta", "betas"),
    [
        (0.4, [0.4] * 4),
        (lambda k: 0.1 * k, [0.1, 0.2, 0.3, 0.4]),
        (optax.linear_schedule(0.0, 1.0, 10), [0.0, 0.1, 0.2, 0.3]),
        (riesz.NesterovMomentum(offset=2), [0, 1 / 4, 2 / 5, 3 / 6]),
    ],
    ids=["number", "function", "optax", "nesterov"],
)
def test_the_steps_of_a_method_use_beta_k(beta, betas):
    np.testing.assert_allclose(path(beta), path_by_hand(betas), rtol=1e-12)
