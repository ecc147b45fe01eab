"""Residual vectors: one function of theta, its Jacobian in the shorter mode, densities entry by entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import riesz
from programs import inner
from spoken import check_sentence

T = np.arange(1, 100) / 100
Y = 25 + (-50 * np.log(T)) ** (2 / 3)
START = jnp.array([5.0, 2.5, 0.15])


def parameters(theta):
    """The constant function with the parameters as its value, for residuals of theta itself."""
    return lambda: theta


def gulf(theta):
    """99 residuals of 3 parameters (Gulf research and development)."""
    return jnp.exp(-(jnp.abs(Y - theta[1]) ** theta[2]) / theta[0]) - T


def decay(v):
    return v()[0] * jnp.exp(-v()[1] * jnp.asarray(T)) - jnp.asarray(T) ** 2


def test_99_residuals_are_solved():
    loss = riesz.ResidualVector(lambda v: gulf(v()))
    solution = riesz.minimise(loss, parameters, START, progress=False)
    assert solution.result.converged and float(solution.loss) < 1e-25
    np.testing.assert_allclose(solution.theta, [50.0, 25.0, 1.5], rtol=1e-6)


def test_least_squares_with_a_residual_that_stays():
    solution = riesz.minimise(riesz.ResidualVector(decay), parameters, jnp.ones(2), progress=False)
    known = scipy.optimize.least_squares(
        lambda theta: np.asarray(decay(lambda: theta)), np.ones(2), xtol=1e-15, ftol=1e-15
    )
    np.testing.assert_allclose(solution.theta, known.x, rtol=1e-7)
    assert float(solution.loss) == pytest.approx(known.cost, rel=1e-12)


def test_it_is_the_integral_over_its_indices():
    """The same loss, weights and data as points: the same steps of every kind of method."""
    weights, data = np.linspace(1.0, 2.0, 99), np.cos(T)
    model = lambda theta: lambda t: theta[0] * jnp.exp(-theta[1] * t)
    points = riesz.Integral(lambda z, y: jnp.cosh(z - y), riesz.points(T, data=data, weights=weights))
    vector = riesz.ResidualVector(
        lambda v: jax.vmap(v)(jnp.asarray(T)), density=lambda z, y: jnp.cosh(z - y), data=data, weights=weights
    )
    for method in (riesz.auto(), riesz.nhb(), riesz.nn2(W=riesz.GaussNewton()), riesz.gd(), riesz.newton()):
        one, other = (
            riesz.minimise(0.5 * loss, model, jnp.ones(2), method, max_steps=3, progress=False)
            for loss in (points, vector)
        )
        np.testing.assert_allclose(other.history["loss"], one.history["loss"], rtol=1e-10)
        np.testing.assert_allclose(other.last, one.last, rtol=1e-8)


def test_it_adds_to_integrals_and_in_chunks():
    model, theta = riesz.mlp(jax.random.key(0), (1, 4, 1))
    x = jnp.linspace(-1.0, 1.0, 20)
    mean = riesz.ResidualVector(lambda v: jnp.mean(jax.vmap(v)(x)) - 0.3)
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(x))) + 10.0 * mean
    steps = lambda solver: riesz.minimise(
        loss, model, theta, riesz.nhb(filter=riesz.Shift(1e-3), factorisation=solver), max_steps=4, progress=False
    )
    expected = steps(riesz.QRSVD())
    for solver in (riesz.QRSVD(8), riesz.Gram(8), riesz.Cholesky(8)):
        np.testing.assert_allclose(steps(solver).theta, expected.theta, rtol=1e-8)


def test_data_take_the_precision_of_the_residuals():
    single = lambda v: v()[0] * jnp.exp(-v()[1] * jnp.asarray(T, jnp.float32))
    loss = riesz.ResidualVector(single, data=np.arange(99), weights=np.ones(99))
    solution = riesz.minimise(loss, parameters, jnp.ones(2, jnp.float32), max_steps=5, progress=False)
    assert solution.theta.dtype == solution.loss.dtype == jnp.float32


@pytest.mark.parametrize("entries", [99, 2])
def test_the_shorter_mode_is_taken_and_no_hessian_formed(entries):
    """Nothing has entries x entries numbers, and the rows take as many passes as the shorter side."""
    loss = riesz.ResidualVector(lambda v: gulf(v())[:entries])
    method = riesz.ngd(W=riesz.GaussNewton())
    sample = method.draw(loss, parameters, START)
    program = jax.make_jaxpr(lambda theta: method.step(loss, parameters, theta, method.init(theta), sample))(START)
    sizes = [v.aval.size for equation in inner(program.jaxpr) for v in equation.outvars]
    assert max(sizes) <= 3 * 99


def test_many_outputs_at_few_points_stay_small(tmp_path):
    """4000 values at each of 4 points: no p x p Hessian, and the rows in forward mode."""
    p = 4000
    B = jax.random.normal(jax.random.key(0), (3, p))
    loss = riesz.least_squares(riesz.points(jnp.linspace(0, 1, 4), data=jnp.zeros((4, p))))
    model = lambda t: lambda x: jnp.tanh(t * x) @ B
    method = riesz.auto()
    sample = method.draw(loss, model, jnp.ones(3))
    step = lambda theta: method.step(loss, model, theta, method.init(theta), sample)
    sizes = [v.aval.size for equation in inner(jax.make_jaxpr(step)(jnp.ones(3)).jaxpr) for v in equation.outvars]
    assert max(sizes) <= 16 * p
    solution = riesz.minimise(loss, model, jnp.ones(3), max_steps=2, memory=2e7, progress=False)
    assert float(solution.loss) < 0.1


@pytest.mark.parametrize(
    ("call", "error", "pattern"),
    [
        (lambda: riesz.ResidualVector(3.0), TypeError, "^residual must be a function"),
        (
            lambda: riesz.ResidualVector(decay, data=np.ones((2, 3))),
            ValueError,
            "^data must have one number per residual",
        ),
        (lambda: riesz.ResidualVector(decay, weights=-np.ones(99)), ValueError, "^weights must be at least 0"),
        (
            lambda: riesz.minimise(riesz.ResidualVector(lambda v: decay(v)[:0]), parameters, jnp.ones(2)),
            ValueError,
            "residual must return at least one floating-point number, not 0",
        ),
        (
            lambda: riesz.minimise(
                riesz.ResidualVector(decay), parameters, jnp.ones(2), riesz.ngd(W=riesz.InnerProduct())
            ),
            ValueError,
            "^over must be given to W: a ResidualVector",
        ),
        (
            lambda: riesz.tangent_space(riesz.ResidualVector(decay), parameters, jnp.ones(2), W=riesz.InnerProduct()),
            ValueError,
            "^over must be given to an InnerProduct",
        ),
        (
            lambda: riesz.minimise(riesz.ResidualVector(decay, weights=np.ones(3)), parameters, jnp.ones(2)),
            ValueError,
            "weights must have one number per residual, so 99 of them, not 3",
        ),
    ],
)
def test_a_wrong_call_is_answered_with_one_sentence(call, error, pattern):
    check_sentence(call, error, pattern)
