"""Auto: what its path does not depend on, what it solves, and what it says where there is nothing to solve."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import riesz
from riesz._geometry.forms import bounded, form_of
from riesz._geometry.tangent import TangentSpace
from riesz._methods.auto.trust import Trust
from riesz.experiments import extended_xor, reaction_diffusion


def wave(m=60):
    """A regression problem that no network of this size fits exactly."""
    x = jnp.linspace(-2, 2, m)
    D, theta = riesz.mlp(jax.random.key(3), (1, 4, 1))
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x) + 0.1 * x**2)), D, theta


def path(loss, D, theta, steps=8):
    return riesz.minimise(loss, D, theta, riesz.auto(), max_steps=steps)


# Invariance ----------------------------------------------------------------------------------------------------------


class Changed(eqx.Module):
    """D in other parameters; a module, so that all changes share one compiled program."""

    D: Callable
    units: jax.Array
    order: jax.Array

    def __call__(self, eta):
        return self.D(self.units * jnp.zeros_like(eta).at[self.order].set(eta))


@pytest.mark.parametrize("seed", range(3))
def test_the_path_does_not_depend_on_units_signs_and_order_of_parameters(seed):
    """theta = T eta with T a scaled, signed permutation: the same functions, up to rounding."""
    loss, D, theta = wave()
    random = np.random.default_rng(seed)
    order = random.permutation(theta.size)
    units = jnp.asarray(random.choice([-1.0, 1.0], theta.size) * 10.0 ** random.uniform(-4, 4, theta.size))
    eta0 = (theta / units)[order]
    first, second = path(loss, D, theta, 3), path(loss, Changed(D, units, jnp.asarray(order)), eta0, 3)
    np.testing.assert_allclose(second.history["loss"], first.history["loss"], rtol=1e-7)
    np.testing.assert_allclose(second.history["scale"], first.history["scale"], rtol=1e-7)


def test_a_factor_and_a_constant_in_the_loss_change_nothing():
    loss, D, theta = wave()
    constant = riesz.Integral(lambda z: 5.0 + 0.0 * jnp.sum(z), riesz.points(jnp.zeros(1)))
    first, second = path(loss, D, theta, 3), path(300.0 * loss + constant, D, theta, 3)
    np.testing.assert_allclose(second.history["loss"], 300 * first.history["loss"] + 5, rtol=1e-7)
    np.testing.assert_allclose(second.last, first.last, rtol=1e-6)


# What it solves ------------------------------------------------------------------------------------------------------


def test_a_linear_model_takes_one_step():
    x = jnp.linspace(-1, 1, 30)
    D, theta = riesz.linear(lambda x: jnp.stack([jnp.ones_like(x), 1e3 * x, 1e-3 * x**2]), 3)
    solution = path(riesz.least_squares(riesz.points(x, data=jnp.exp(x))), D, theta + 7.0, steps=1)
    coefficients = np.polynomial.polynomial.polyfit(np.asarray(x), np.exp(x), 2)
    np.testing.assert_allclose(solution.theta, coefficients * [1, 1e-3, 1e3], rtol=1e-9)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_nonlinear_pde_to_rounding(seed):
    problem = reaction_diffusion.experiment()
    solution = riesz.minimise(problem.loss, problem.D, problem.start(seed), max_steps=60)
    history = 2 * solution.history["loss"]
    assert np.argmax(history <= 1e-8) in range(1, 30)
    assert history.min() < 1e-15


def test_classification():
    problem = extended_xor.experiment()
    solution = riesz.minimise(
        problem.loss, problem.D, problem.start(0), max_steps=40, target=problem.target, metrics=problem.metrics
    )
    assert solution.result is riesz.Result.TARGET_REACHED


def promises(term, z):
    """What the model of every point promises to gain in auto's metric, far from a minimiser, and its loss."""
    densities, slopes = term.densities_and_slopes(z, term.over)
    form = bounded(form_of(term, z, term.over), densities, slopes, jnp.ones(()))
    M = form.vectors * form.eigenvalues[:, None, :] @ jnp.swapaxes(form.vectors, 1, 2)
    return jnp.sum(slopes * jnp.linalg.solve(M, slopes[:, :, None])[:, :, 0], axis=1) / 2, densities


def test_no_point_promises_more_than_its_loss():
    """Five classes, logits up to thirty: Gauss-Newton's own metric promises up to 1e20 of it."""
    random = np.random.default_rng(0)
    z = jnp.asarray(10 * random.normal(size=(100, 5)))
    promised, densities = promises(riesz.softmax(riesz.points(z, data=jnp.argmin(z, axis=1))), z)
    assert jnp.all(promised <= densities * (1 + 1e-9))


def test_a_square_promises_its_loss_and_keeps_its_metric():
    """The squares of a matrix: the least of every point is zero, so there is nothing to raise."""
    random = np.random.default_rng(0)
    root, z = random.normal(size=(3, 3)), jnp.asarray(random.normal(size=(20, 3)))
    term = riesz.Integral(lambda z: jnp.sum((root @ z) ** 2) / 2, riesz.points(z))
    densities, slopes = term.densities_and_slopes(z, term.over)
    own = form_of(term, z, term.over)
    form = bounded(own, densities, slopes, jnp.ones(()))
    np.testing.assert_allclose(form.eigenvalues, own.eigenvalues, rtol=1e-9)


def test_ten_classes_from_a_saturated_start():
    """Standard normal weights on 64 pixels: units are saturated, and images misread with confidence."""
    images, labels = (jnp.asarray(part)[::10] for part in load_digits(return_X_y=True))
    D, theta = riesz.mlp(jax.random.key(1), (64, 8, 10))
    losses = path(riesz.softmax(riesz.points(images / 16, data=labels)), D, theta).history["loss"]
    assert losses[0] > np.log(10)
    assert losses[-1] < losses[0] / 10


def test_a_large_residual():
    """Certified by NIST: Misra1a, whose data no curve of the family meets."""
    x = jnp.array([77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0])
    y = jnp.array([10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78])
    D, theta = riesz.parametrise(lambda b, x: b[0] * (1 - jnp.exp(-b[1] * x)), jnp.array([500.0, 1e-4]))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=y)), D, theta)
    assert solution.result.converged
    np.testing.assert_allclose(solution.theta, [2.3894212918e02, 5.5015643181e-04], rtol=1e-9)


def energy():
    """The Ritz energy of -u'' = pi^2 sin(pi x) on [0, 1] with u = 0 at both ends; its minimum is -pi^2/4."""
    D, theta = riesz.parametrise(
        lambda b, x: b[0] * jnp.sin(jnp.pi * x) * jnp.exp(b[1] * x + b[2] * x**2), jnp.array([-2.0, 1.0, 3.0])
    )
    pair = lambda v: lambda x: jnp.stack([v(x), riesz.derivative(v)(x), jnp.pi**2 * jnp.sin(jnp.pi * x)])
    density = lambda z: z[1] ** 2 / 2 - z[2] * z[0]
    x, weights = np.polynomial.legendre.leggauss(40)
    over = riesz.points(jnp.asarray(x + 1) / 2, weights=jnp.asarray(weights) / 2)
    return riesz.Integral(density, over, operator=pair), D, theta


def test_an_energy_that_is_negative_at_its_minimum():
    loss, D, theta = energy()
    solution = riesz.minimise(loss, D, theta)
    assert solution.result.converged
    assert float(solution.loss) == pytest.approx(-(np.pi**2) / 4, rel=1e-13)
    np.testing.assert_allclose(solution.theta, [1.0, 0.0, 0.0], atol=1e-11)


def test_fresh_points_each_step():
    """A batch of 100 points is sometimes fitted better than the function: single losses of the next batch are large."""
    network, theta = riesz.mlp(jax.random.key(0), (1, 8, 1))
    loss = riesz.residual(riesz.identity, lambda x: jnp.sin(3 * x), riesz.monte_carlo(-1.0, 1.0, 100))
    solution = riesz.minimise(loss, network, theta, max_steps=40, key=jax.random.key(0))
    assert np.median(solution.history["loss"][-10:]) < 1e-6 * solution.history["loss"][0]


def noisy(n):
    """400 noisy values of a sine, n of them at a time."""
    random = np.random.default_rng(0)
    x = jnp.linspace(-2, 2, 400)
    everything = riesz.points(x, data=jnp.sin(3 * x) + 0.2 * random.normal(size=400))
    full = riesz.least_squares(everything)
    return full, riesz.least_squares(riesz.minibatch(everything, n))


def test_mini_batches_of_noisy_data():
    """With as many points as parameters every batch could be fitted exactly; trusting it would fit the noise."""
    D, theta = riesz.mlp(jax.random.key(0), (1, 6, 1))
    full, loss = noisy(theta.size)
    best = float(riesz.minimise(full, D, theta, max_steps=200).loss)
    metrics = {"full": lambda theta: full(D(theta))}
    errors = [
        np.median(riesz.minimise(loss, D, theta, max_steps=200, key=key, metrics=metrics).history["full"][-20:])
        for key in jax.random.split(jax.random.key(1), 5)
    ]
    assert np.median(errors) < 1.2 * best
    carefree = riesz.ngd(step_size=riesz.Constant(1.0))
    other = riesz.minimise(loss, D, theta, carefree, max_steps=200, key=jax.random.key(1), metrics=metrics, throw=False)
    assert np.median(other.history["full"][-20:]) > 3 * best


def test_trust_follows_what_the_next_points_keep():
    """Promises of 1 from a loss of 10: kept in full, then not at all."""
    trust, loss = Trust.start(float), 10.0
    for _ in range(5):
        trust = trust.after_new_points(jnp.asarray(loss)).after_step(jnp.asarray(1.0))
        loss -= 1.0
    assert float(trust.caution) == 1.0
    for _ in range(60):
        trust = trust.after_new_points(jnp.asarray(loss)).after_step(jnp.asarray(1.0))
    assert float(trust.caution) > 1e3
    cautious = trust.caution
    np.testing.assert_array_equal(
        trust.after_step(jnp.asarray(0.0)).after_new_points(jnp.asarray(99.0)).caution, cautious
    )
    for _ in range(60):
        trust = trust.after_new_points(jnp.asarray(loss)).after_step(jnp.asarray(1.0))
        loss -= 1.0
    assert float(trust.caution) < 1e-2 * float(cautious)


def test_momentum_is_for_drawn_points_only():
    """On fixed points the path has the same bits whatever the momentum; on drawn points it has not."""
    loss, D, theta = wave()
    (everything,) = loss.draw(None, D, theta)
    few = riesz.least_squares(riesz.minibatch(everything, 5))
    for problem, same in ((loss, True), (few, False)):
        first, second = (
            riesz.minimise(problem, D, theta, riesz.auto(riesz.QuickSteps(momentum=beta)), 8, key=jax.random.key(0))
            for beta in (0.0, 0.9)
        )
        assert np.array_equal(first.last, second.last) == same


def test_momentum_of_one_step():
    """With the row (1, 0), lambda = S = 1 and the last displacement (2, 2), (I - G/(G + 1)) leaves (1, 2)."""
    D = lambda theta: lambda x: theta[0] + theta[1] * x
    loss = riesz.least_squares(riesz.points(jnp.zeros(1), data=jnp.zeros(1)))
    space = riesz.tangent_space(loss, D, jnp.zeros(2), filter=riesz.Shift(1.0))
    steps, last = riesz.QuickSteps(momentum=0.5), jnp.full(2, 2.0)
    np.testing.assert_allclose(steps._kept(space, jnp.array([10.0, 0.0]), last), [0.5, 1.0], rtol=1e-14)
    # Longer than half of the step of these points it may not be; of no displacement nothing is kept.
    short = steps._kept(space, jnp.array([0.1, 0.0]), last)
    np.testing.assert_allclose(short, 0.05 * np.array([1.0, 2.0]) / np.sqrt(5), rtol=1e-14)
    np.testing.assert_array_equal(steps._kept(space, jnp.zeros(2), jnp.zeros(2)), np.zeros(2))


def test_momentum_keeps_to_the_damped_system():
    """(G + lambda S^2) delta = -c + lambda S^2 beta delta_{k-1}, in scaled coordinates, with a null space."""
    random = np.random.default_rng(0)
    theta = jnp.asarray(random.normal(size=5))
    D = lambda theta: lambda x: theta @ jnp.cos(jnp.arange(5.0) * x)
    loss = riesz.least_squares(riesz.points(jnp.asarray([0.3, 0.8]), data=jnp.asarray([5.0, 7.0])))
    plain = riesz.tangent_space(loss, D, theta)
    S, shift, beta = jnp.asarray(random.uniform(0.5, 2, 5)), 0.3, 0.9
    space = TangentSpace.of(plain.blocks, plain.psi, riesz.QRSVD(), riesz.Shift(shift), S)
    c, last = plain.psi.T @ jnp.asarray([5.0, 7.0]), jnp.asarray(random.normal(size=5))
    g = space.riesz(c)
    delta = riesz.QuickSteps(momentum=beta)._kept(space, 100 * g, last) - g
    left = plain.gram @ delta + shift * S**2 * delta
    np.testing.assert_allclose(left, -c + shift * S**2 * beta * last, rtol=1e-12, atol=1e-12)


# Hard cases ----------------------------------------------------------------------------------------------------------


def test_a_start_at_the_solution_stays_there():
    x = jnp.linspace(0, 1, 10)
    D, theta = riesz.parametrise(lambda b, x: b[0] * jnp.exp(b[1] * x), jnp.array([2.0, -1.0]))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=jax.vmap(D(theta))(x))), D, theta)
    assert solution.result.converged and solution.steps <= 5
    np.testing.assert_array_equal(solution.theta, theta)


def test_a_flat_start_is_left_alone():
    """The gradient vanishes, the tangent space does not: an even function at its symmetric point."""
    x = jnp.array([-1.0, 1.0])
    D, theta = riesz.parametrise(lambda b, x: b[0] * x, jnp.zeros(1))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=jnp.ones(2))), D, theta)
    assert solution.result.converged
    np.testing.assert_allclose(solution.theta, 0.0, atol=1e-12)


def test_a_tangent_space_of_rank_zero_has_its_own_code():
    D = lambda theta: lambda x: x + 0 * theta[0]
    loss = riesz.least_squares(riesz.points(jnp.ones(3), data=jnp.zeros(3)))
    solution = riesz.minimise(loss, D, jnp.ones(2), throw=False)
    assert solution.result is riesz.Result.RANK_COLLAPSE
    np.testing.assert_array_equal(solution.theta, [1.0, 1.0])


def test_unused_parameters_are_left_alone():
    loss, D, theta = wave()
    wider = lambda eta: D(eta[: theta.size])
    solution = path(loss, wider, jnp.append(theta, jnp.array([5.0, -3.0])), 60)
    np.testing.assert_array_equal(solution.last[theta.size :], [5.0, -3.0])
    assert float(solution.loss) < 0.01 * float(loss(D(theta)))


def test_a_residual_that_overflows_in_half_of_all_directions():
    """The full step from the flat side of an exponential would be 1e5 times too long."""
    D, theta = riesz.parametrise(lambda b, x: jnp.exp(2000 * b[0] * x), jnp.array([-0.0075]))
    loss = riesz.least_squares(riesz.points(jnp.linspace(0.5, 1, 5), data=jnp.ones(5)))
    assert not np.isfinite(loss(D(theta + 1)))
    solution = riesz.minimise(loss, D, theta)
    assert np.isfinite(solution.history["loss"]).all()
    np.testing.assert_allclose(solution.theta, 0.0, atol=1e-15)


def test_fewer_points_than_parameters():
    loss, D, theta = wave(m=6)
    solution = riesz.minimise(loss, D, theta, max_steps=60)
    assert float(solution.loss) < 1e-20


def test_one_parameter():
    D, theta = riesz.parametrise(lambda b, x: jnp.cos(b[0] * x), jnp.array([1.7]))
    x = jnp.linspace(0, 3, 20)
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=jnp.cos(2 * x))), D, theta)
    np.testing.assert_allclose(solution.theta, 2.0, rtol=1e-12)


def test_float32():
    x = jnp.linspace(-2, 2, 60, dtype=jnp.float32)
    D, theta = riesz.mlp(jax.random.key(3), (1, 6, 1))
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(2 * x)))
    solution = riesz.minimise(loss, D, theta.astype(jnp.float32), max_steps=60)
    assert solution.theta.dtype == jnp.float32
    assert float(solution.loss) < 1e-5


def test_a_loss_without_curvature_is_refused():
    linear = riesz.Integral(lambda z: z, riesz.points(jnp.ones(3)))
    D, theta = riesz.mlp(jax.random.key(0), (1, 3, 1))
    with pytest.raises(ValueError, match=r"method=riesz.auto\(\), with W=GaussNewton\(\) has no metric here"):
        riesz.minimise(linear, D, theta)


def test_a_second_call_compiles_nothing(caplog):
    loss, D, theta = wave()
    other = theta + 0.1
    path(loss, D, theta)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        path(loss, D, other)
    assert not [record for record in caplog.records if "Compiling" in record.message]


@jax.custom_jvp
def deceiving(z):
    """z^2, which says that it falls where it rises."""
    return z**2


@deceiving.defjvp
def _(primals, tangents):
    return deceiving(*primals), deceiving_slope(*primals) * tangents[0]


@jax.custom_jvp
def deceiving_slope(z):
    return -2 * z


@deceiving_slope.defjvp
def _(primals, tangents):
    return deceiving_slope(*primals), 2 * tangents[0]


def test_a_gradient_that_promises_what_does_not_come_is_stagnation():
    """Steps are rejected, or lead uphill and back; the run ends by itself, and does not call that convergence."""
    loss = riesz.Integral(deceiving, riesz.points(jnp.ones(3)))
    D, _ = riesz.linear(lambda x: jnp.ones(1), size=1)
    solution = riesz.minimise(loss, D, jnp.ones(1), max_steps=300, progress=False)
    assert solution.result is riesz.Result.STAGNATED and not solution.result.converged and solution.steps < 300
    assert float(solution.loss) <= 1.0
