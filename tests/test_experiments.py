"""The four problems of the paper are what they say: equations, exact solutions, data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz.experiments import advection_diffusion, extended_xor, mackey_glass, reaction_diffusion

ALL = [mackey_glass, extended_xor, advection_diffusion, reaction_diffusion]
PDES = [(advection_diffusion, (0.0, 1.0)), (reaction_diffusion, (-1.0, 1.0))]


@pytest.mark.parametrize(("module", "domain"), PDES, ids=["advection", "reaction"])
def test_the_exact_solution_solves_the_equation(module, domain):
    x = jnp.linspace(*domain, 101)
    np.testing.assert_allclose(jax.vmap(module.operator(module.exact))(x), jax.vmap(module.source)(x), atol=1e-11)


def test_the_printed_formulas_do_not_solve_their_equations():
    """The errata: the paper's solution of the first equation, and its source of the second."""
    x, mu = jnp.linspace(0.1, 0.9, 5), 0.2
    e = jnp.exp(1 / mu)
    printed = lambda x: -e / (e - 1) + x + e - 1
    assert abs(float(printed(0.0))) > 1
    minus = jnp.pi**2 * jnp.cos(jnp.pi * x) - jnp.cos(jnp.pi * x) ** 3
    assert float(jnp.max(jnp.abs(jax.vmap(reaction_diffusion.operator(reaction_diffusion.exact))(x) - minus))) > 0.1


@pytest.mark.parametrize(("module", "domain"), PDES, ids=["advection", "reaction"])
def test_models_satisfy_the_boundary_conditions(module, domain):
    problem = module.experiment()
    v = problem.D(problem.start(3))
    condition = v if module is advection_diffusion else riesz.derivative(v)
    np.testing.assert_allclose([condition(jnp.asarray(end)) for end in domain], 0.0, atol=1e-12)


def test_mackey_glass_follows_its_recursion():
    z = mackey_glass.series(200)
    assert z[0] == 1.2
    for t in range(17, 199):
        expected = 0.9 * z[t] + 0.2 * z[t - 17] / (1 + z[t - 17] ** 10)
        assert z[t + 1] == pytest.approx(expected, rel=1e-14)
    x, y = mackey_glass.pairs(z, 100, 3)
    np.testing.assert_array_equal(x[1], [z[101], z[95], z[89], z[83]])
    assert y[1] == z[107]


def test_the_clusters_are_a_checkerboard_of_unit_gaussians():
    x, labels = extended_xor.clusters(20000, spacing=5.0, seed=1)
    clusters = x.reshape(9, 20000, 2)
    centres = clusters.mean(axis=1)
    np.testing.assert_allclose(centres, np.round(centres / 5) * 5, atol=0.05)
    np.testing.assert_allclose(clusters.std(axis=1), 1.0, atol=0.03)
    board = labels.reshape(9, 20000)[:, 0].reshape(3, 3)
    assert (board[1:] != board[:-1]).all() and (board[:, 1:] != board[:, :-1]).all()
    assert sorted(np.bincount(board.ravel())) == [4, 5]


@pytest.mark.at_once(2)
@pytest.mark.parametrize("module", ALL, ids=lambda module: module.__name__.split(".")[-1])
def test_sizes_and_errors(module):
    """d and m are the paper's; the target's metric agrees with the loss where both are least squares."""
    problem = module.experiment()
    theta = problem.start(0)
    assert (
        problem.size
        == {"mackey-glass": 61, "extended-xor": 41, "advection-diffusion": 46, "reaction-diffusion": 48}[problem.name]
    )
    (term,) = problem.loss.terms
    rows = {"mackey-glass": 500, "extended-xor": 1800}.get(problem.name, 1000)
    assert term.over.x.shape[0] == rows
    assert float(term.over.weights.sum()) == pytest.approx(1.0)
    values = {name: float(metric(theta)) for name, metric in problem.metrics.items()}
    assert all(np.isfinite(value) for value in values.values())
    assert problem.error in values and set(problem.target) <= set(values)
    if module is not extended_xor:
        (name,) = problem.target
        assert values[name] == pytest.approx(2 * float(problem.loss(problem.D(theta))), rel=1e-12)


def test_starts_are_standard_normal_and_repeatable():
    problem = mackey_glass.experiment()
    starts = np.stack([problem.start(seed) for seed in range(50)])
    assert abs(starts.mean()) < 0.1 and abs(starts.std() - 1) < 0.05
    np.testing.assert_array_equal(problem.start(7), starts[7])


@pytest.mark.at_once(1)
@pytest.mark.parametrize("module", ALL, ids=lambda module: module.__name__.split(".")[-1])
def test_a_second_experiment_compiles_nothing(module, caplog):
    """Neither for its steps nor for its metrics: models and metrics of two experiments of a problem are equal."""
    first, second = module.experiment(), module.experiment()
    run = lambda problem, theta: riesz.minimise(
        problem.loss, problem.D, theta, "gd", max_steps=1, metrics=problem.metrics, progress=False
    )
    starts = first.start(0), first.start(1)
    run(first, starts[0])
    with jax.log_compiles(), caplog.at_level("WARNING"):
        run(second, starts[1])
    assert not [record for record in caplog.records if "Compiling" in record.message]
