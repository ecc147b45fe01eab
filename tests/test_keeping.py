"""What is kept of a run: its problem, its state and its parameters as users know them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import riesz

X = jnp.linspace(0.0, 1.0, 20)
LOSS = riesz.least_squares(riesz.points(X, data=jnp.sin(4 * X)))


def apply(params, x):
    return params["a"] * jnp.sin(params["b"] * x)


class TestParametersAndModel:
    def test_the_pytree_of_a_function_comes_back(self):
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        solution = riesz.minimise(LOSS, D, theta0, max_steps=20)
        assert solution.params["a"] == pytest.approx(1.0) and solution.params["b"] == pytest.approx(4.0)
        np.testing.assert_array_equal(solution.model(X[3]), apply(solution.params, X[3]))

    def test_a_module_of_equinox_comes_back_trained(self):
        D, theta0 = riesz.parametrise(eqx.nn.MLP("scalar", "scalar", 3, 1, jnp.tanh, key=jax.random.key(0)))
        solution = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3)
        assert isinstance(solution.model, eqx.nn.MLP)
        leaves = jax.tree.leaves(eqx.filter(solution.model, eqx.is_inexact_array))
        np.testing.assert_array_equal(jnp.concatenate([leaf.ravel() for leaf in leaves]), solution.theta)

    def test_a_module_of_flax_comes_back_trained(self):
        D, theta0 = riesz.parametrise(nnx.Linear(1, 1, rngs=nnx.Rngs(0), param_dtype=jnp.float64))
        loss = riesz.least_squares(riesz.points(X[:, None], data=2 * X[:, None] + 1))
        solution = riesz.minimise(loss, D, theta0, max_steps=5)
        assert isinstance(solution.model, nnx.Linear)
        assert solution.params["kernel"].get_value()[0, 0] == pytest.approx(2.0)

    def test_parameters_of_many_starts_are_stacked(self):
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        solution = riesz.minimise_many(LOSS, D, jnp.stack([theta0, 1.1 * theta0]), max_steps=2)
        assert solution.params["a"].shape == (2,)
        np.testing.assert_array_equal(solution.params["b"], solution.theta[:, 1])
        assert solution.model(X[0]).shape == (2,) and solution.problem is not None and solution.state is None

    def test_a_function_of_ones_own_has_no_pytree(self):
        solution = riesz.minimise(LOSS, lambda theta: lambda x: theta[0] * jnp.sin(4 * x), jnp.ones(1), max_steps=0)
        with pytest.raises(AttributeError, match=r"solution.params needs a D that has D.params"):
            _ = solution.params
        assert not hasattr(solution, "params")


def test_a_solution_knows_its_problem_and_state_also_in_a_callback():
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 3, 1))
    seen = []
    solution = riesz.minimise(
        LOSS, D, theta0, "nhb", max_steps=3, callback=lambda steps, so_far: seen.append((steps, so_far))
    )
    for steps, so_far in [*seen, (3, solution)]:
        assert so_far.problem.D == D and isinstance(so_far.problem.loss, riesz.Loss)
        assert int(so_far.state.inner.k) == steps + 1
    assert "problem" not in repr(solution)
    assert jax.tree.map(lambda leaf: leaf, solution).steps == 3
