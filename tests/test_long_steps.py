"""Long steps: the curve of damped steps, where its gain ratio crosses, and how a run goes on with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._geometry.inner_products import GaussNewton, draw_sample
from riesz._geometry.linearise import linearise
from riesz._methods.auto.damped_steps import DampedSteps
from riesz._methods.auto.long_steps import last_crossing

# The curve of damped steps -------------------------------------------------------------------------------------------


def problem(points, density):
    D, theta = riesz.mlp(jax.random.key(1), (1, 4, 1))
    x = jnp.linspace(-1.0, 1.0, points)
    over = riesz.points(x, data=jnp.sin(4 * x), weights=jnp.linspace(1.0, 2.0, points))
    return riesz.Integral(density, over), D, theta


DENSITIES = {
    "squares": lambda z, y: (z - y) ** 2 / 2,
    "cosh": lambda z, y: jnp.cosh(2 * (z - y)),
    "exponential": lambda z, y: jnp.exp(3 * z) - y * z,
}


@pytest.mark.at_once(2)
@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("points", [40, 8])
def test_a_damped_step_is_the_minimiser_of_the_damped_model(points, density):
    """delta = -(G + lambda)^-1 grad L, its length and what the model promises, against dense NumPy."""
    loss, D, theta = problem(points, DENSITIES[density])
    at = linearise(loss, D, theta, draw_sample(loss, D, theta, None, GaussNewton()))
    space = riesz.tangent_space(loss, D, theta, GaussNewton(), riesz.Shift(1e-3))
    steps = DampedSteps.of(at, space)
    G, c = np.asarray(space.gram), np.asarray(jax.grad(lambda theta: loss(D(theta)))(theta))
    for damping in (1e-2, 1e0, 1e2):
        delta = -np.linalg.solve(G + damping * np.eye(theta.size), c)
        np.testing.assert_allclose(steps(jnp.asarray(damping)), delta, rtol=1e-9, atol=1e-12)
        assert float(steps.length(jnp.asarray(damping))) == pytest.approx(np.linalg.norm(delta), rel=1e-9)
        promised = -(c @ delta) - delta @ G @ delta / 2
        assert float(steps.promised(jnp.asarray(damping))) == pytest.approx(promised, rel=1e-9)


def test_the_damping_of_a_length():
    loss, D, theta = problem(40, DENSITIES["squares"])
    at = linearise(loss, D, theta, draw_sample(loss, D, theta, None, GaussNewton()))
    steps = DampedSteps.of(at, riesz.tangent_space(loss, D, theta, GaussNewton()))
    for length in (1e-6, 1e-2, 1.0):
        damping = steps.damping(jnp.asarray(length))
        assert float(steps.length(damping)) == pytest.approx(length, rel=1e-10)
    assert float(steps.damping(jnp.asarray(1e30))) < 1e-300  # no step is so long


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.9, 0.5, 0.1, -0.3], 2**2.25),  # a quarter of the way from the third length to the fourth
        ([0.9, -0.5, 0.6, -0.2], 2**2.75),  # the last of two crossings
        ([0.9, 0.8, 0.7, 0.6], 8.0),  # none: the longest
        ([-0.1, -0.2, -0.3, -0.4], 1.0),  # none: the shortest
    ],
)
def test_the_last_crossing(ratios, expected):
    """Between two probes the ratio is linear in the logarithm of the length."""
    lengths = jnp.array([1.0, 2.0, 4.0, 8.0])
    found = last_crossing(lengths, jnp.asarray(ratios), jnp.asarray(0.0))
    assert float(found) == pytest.approx(expected, rel=1e-12)


# A run ---------------------------------------------------------------------------------------------------------------


def equation():
    """u'' = -pi^2 sin(pi x) with u = 0 at both ends, whose solution a small network meets to rounding."""
    D, _ = riesz.mlp(jax.random.key(0), (1, 12, 1), activation="tanh")
    inside = riesz.gauss_legendre(0.0, 1.0, 40)
    ends = riesz.points(jnp.array([0.0, 1.0]), weights=jnp.ones(2))
    source = lambda x: -(jnp.pi**2) * jnp.sin(jnp.pi * x)
    second = lambda v: riesz.derivative(riesz.derivative(v))
    return riesz.residual(second, source, inside) + riesz.residual(riesz.identity, 0.0, ends), D


LOSS, NETWORK = equation()
HASTY = riesz.auto(long=riesz.LongSteps(stretch=5, probes=8))
"""Short stretches, so that every phase is seen within few steps."""


def start(seed):
    return 0.5 * jax.random.normal(jax.random.key(seed), (37,))


@pytest.fixture(scope="module")
def run():
    return riesz.minimise(LOSS, NETWORK, start(1), HASTY, max_steps=160, progress=False)


def test_the_walk_begins_at_the_start(run):
    """The change of phase is an accepted step that lands at theta0: the loss there is the first loss again."""
    phases = run.history["phase"]
    assert set(np.unique(phases)) == {0, 1, 2}
    first = int(np.flatnonzero(phases == 1)[0])
    assert run.history["accepted"][first - 1]
    assert run.history["loss"][first] == pytest.approx(run.history["loss"][0], rel=1e-12)
    assert "long steps began" in run.notes[0]


def test_after_a_dive_the_walk_goes_on_where_it_was(run):
    phases, losses = run.history["phase"], run.history["loss"]
    dives = [k for k in range(1, phases.size) if phases[k - 1] == 1 and phases[k] == 2]
    backs = [k for k in range(1, phases.size) if phases[k - 1] == 2 and phases[k] == 1]
    assert dives and backs and dives[0] < backs[0]
    assert losses[backs[0]] == pytest.approx(losses[dives[0]], rel=1e-9)
    assert losses[dives[0] : backs[0]].min() < losses[dives[0]]


def test_the_best_of_all_phases_is_returned(run):
    assert float(run.loss) <= run.history["loss"].min() * (1 + 1e-12)


def test_checkpoints_go_on_through_the_phases(run, tmp_path):
    """Stopped within the quick steps, the walk and a dive, a run ends with the same bits."""
    for stop in (20, 60, 75, 100, 160):
        solution = riesz.minimise(
            LOSS, NETWORK, start(1), HASTY, max_steps=stop, progress=False, checkpoint=tmp_path / "run"
        )
    np.testing.assert_array_equal(solution.history["loss"], run.history["loss"])
    np.testing.assert_array_equal(solution.history["phase"], run.history["phase"])
    np.testing.assert_array_equal(solution.theta, run.theta)


def test_no_long_steps_after_a_minimum_that_is_not_zero():
    """A noisy fit ends with its quick steps."""
    x = jnp.linspace(0.0, 3.0, 60)
    noise = 0.1 * jax.random.normal(jax.random.key(2), (60,))
    D, theta = riesz.parametrise(lambda b, x: b[0] * jnp.exp(-b[1] * x) + b[2], jnp.array([1.0, 0.3, 0.0]))
    solution = riesz.minimise(riesz.least_squares(riesz.points(x, data=3 * jnp.exp(-x) + noise)), D, theta)
    assert solution.result.converged and solution.steps < 60
    assert np.all(solution.history["phase"] == 0) and solution.notes == ()


def test_a_solver_without_small_singular_values_has_quick_steps_only():
    solution = riesz.minimise(
        LOSS, NETWORK, start(1), riesz.auto(factorisation=riesz.Gram()), max_steps=300, progress=False
    )
    assert "phase" not in solution.history
    *_, note = riesz.auto(factorisation=riesz.Gram()).notes(LOSS, riesz.Result.STAGNATED, solution.history)
    assert "QRSVD" in note


def test_a_run_that_stagnates_near_rounding_says_how_far_it_fell():
    said = lambda last, first=2.0: riesz.auto().notes(
        LOSS, riesz.Result.STAGNATED, {"loss": np.array([first, last]), "phase": np.array([0])}
    )
    assert said(1e-5) == said(0.0, first=0.0) == ()
    (note,) = said(4e-20)
    assert "2e-20 of its first value" in note


def test_long_steps_can_be_left_out():
    solution = riesz.minimise(LOSS, NETWORK, start(1), riesz.auto(long=False), max_steps=60, progress=False)
    assert "phase" not in solution.history
    assert riesz.auto(long=False).notes(LOSS, riesz.Result.STAGNATED, {"loss": np.ones(2)}) == ()
    with pytest.raises(TypeError, match=r"^long must be riesz.LongSteps\(\), or False"):
        riesz.auto(long=3)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("start", range(6))
def test_a_run_that_has_fallen_far_does_not_give_up_without_long_steps(start):
    """-0.02 u'' + u' = 1 with a layer, which quick steps solve to a few digits and leave for infinity, or get stuck."""
    network, theta0 = riesz.mlp(jax.random.key(start), (1, 8, 8, 1), activation="tanh")
    D = lambda theta: lambda x: x * (1 - x) * network(theta)(x)
    slope = riesz.derivative
    A = lambda v: lambda x: -0.02 * slope(slope(v))(x) + slope(v)(x)
    loss = riesz.residual(A, 1.0, riesz.sobol(0.0, 1.0, 200))
    solution = riesz.minimise(loss, D, theta0, max_steps=128, progress=False, throw=False)
    losses = solution.history["loss"]
    gave_up = solution.result in (riesz.Result.STAGNATED, riesz.Result.UNBOUNDED)
    assert losses.min() < 1e-8 * losses[0], "it has fallen far"
    assert not gave_up or 1 in solution.history["phase"]
