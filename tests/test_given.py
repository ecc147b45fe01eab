"""Models as users have them: pytrees, modules of equinox and nnx, linen, pairs of functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import riesz

x = jnp.linspace(0.0, 1.0, 20)
loss = riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x)))
wave = lambda p, x: p["a"] * jnp.sin(p["b"] * x)
START = {"a": 0.8, "b": jnp.array(2.5)}
OPTIONS = {"method": "ngd", "max_steps": 4}


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(1, 4, param_dtype=jnp.float64, rngs=rngs)
        self.last = nnx.Linear(4, 1, param_dtype=jnp.float64, rngs=rngs)
        self.shift = nnx.Variable(jnp.array(0.25))

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(x[None])))[0] + self.shift[...]


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(1, param_dtype=jnp.float64)(jnp.tanh(linen.Dense(4, param_dtype=jnp.float64)(x[None])))[0]


def test_a_pytree_is_the_parameters_of_a_function():
    solution = riesz.minimise(loss, wave, START, **OPTIONS)
    by_hand = riesz.minimise(loss, *riesz.parametrise(wave, START), **OPTIONS)
    np.testing.assert_array_equal(solution.theta, by_hand.theta)
    assert solution.params.keys() == START.keys()
    assert wave(solution.params, 0.5) == solution.function(0.5) == solution.model(0.5)


def test_a_vector_is_theta0():
    D, theta0 = riesz.parametrise(wave, START)
    np.testing.assert_array_equal(riesz.minimise(loss, D, np.asarray(theta0), **OPTIONS).theta.shape, (2,))


def test_a_module_carries_its_parameters():
    module = eqx.nn.MLP("scalar", "scalar", 4, 1, jnp.tanh, key=jax.random.key(0))
    solution = riesz.minimise(loss, module, **OPTIONS)
    assert isinstance(solution.model, eqx.nn.MLP)
    assert jax.tree.structure(eqx.filter(solution.model, eqx.is_array)) == jax.tree.structure(
        eqx.filter(module, eqx.is_array)
    )
    assert float(loss(solution.model)) < float(loss(module))


def test_a_module_of_nnx_comes_back_whole():
    module = Net(nnx.Rngs(0))
    D, theta0 = riesz.parametrise(module)
    assert theta0.size == 4 + 4 + 4 + 1  # the variable that is no parameter is left out
    np.testing.assert_allclose(D(theta0)(x[3]), module(x[3]), rtol=1e-12)
    solution = riesz.minimise(loss, module, **OPTIONS)
    assert isinstance(solution.model, Net) and solution.model.shift[...] == 0.25
    np.testing.assert_array_equal(solution.model(x[3]), solution.function(x[3]))
    assert float(loss(solution.model)) < float(loss(module))


def test_nnx_is_trained_by_its_own_filters():
    last = lambda path, value: "last" in path
    D, theta0 = riesz.parametrise(Net(nnx.Rngs(0)), trainable=last)
    assert theta0.size == 5
    same = D(theta0 + 1).first.kernel[...], D(theta0).first.kernel[...]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("of", [lambda net: net, lambda net: net.apply, lambda net: (net.init, net.apply)])
def test_linen_and_pairs(of):
    net = Dense()
    params = net.init(jax.random.key(0), x[0])
    solution = riesz.minimise(loss, of(net), params, **OPTIONS)
    assert jax.tree.structure(solution.params) == jax.tree.structure(params)
    np.testing.assert_array_equal(net.apply(solution.params, x[3]), solution.function(x[3]))


def test_a_pair_whose_function_takes_randomness():
    def apply(params, rng, x):
        assert rng is None
        return wave(params, x)

    solution = riesz.minimise(loss, (lambda rng, x: START, apply), START, **OPTIONS)
    np.testing.assert_array_equal(solution.theta, riesz.minimise(loss, wave, START, **OPTIONS).theta)


def test_only_what_is_trainable_moves():
    D, theta0 = riesz.parametrise(wave, START, trainable={"a": True, "b": False})
    assert theta0.shape == (1,)
    solution = riesz.minimise(loss, D, theta0)
    assert solution.params["b"] == 2.5
    best = jnp.sum(jnp.sin(3 * x) * jnp.sin(2.5 * x)) / jnp.sum(jnp.sin(2.5 * x) ** 2)
    np.testing.assert_allclose(solution.params["a"], best, rtol=1e-10)


def test_a_function_chooses_what_is_trainable():
    module = eqx.nn.MLP("scalar", "scalar", 4, 1, jnp.tanh, key=jax.random.key(0))
    D, theta0 = riesz.parametrise(module, trainable=lambda leaf: eqx.is_inexact_array(leaf) and leaf.ndim == 1)
    assert theta0.size == 4 + 1
    np.testing.assert_array_equal(D(theta0 + 1).layers[0].weight, module.layers[0].weight)
    np.testing.assert_array_equal(D.params(theta0).layers[0].weight, module.layers[0].weight)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: riesz.minimise(loss, riesz.mlp(jax.random.key(0), (1, 3, 1))[0]), "^theta0 must be given"),
        (lambda: riesz.minimise(loss, lambda theta: lambda x: x), "^theta0 must be given"),
        (lambda: riesz.minimise(loss, lambda theta: lambda x: x, {"a": 1.0}), "^theta0 must be an array"),
        (lambda: riesz.parametrise(wave, START, trainable={"a": False, "b": False}), "^trainable must leave something"),
        (lambda: riesz.parametrise(wave, START, trainable={"c": True}), "^trainable must be a function"),
        (
            lambda: riesz.parametrise(wave, {"a": 1.0, "n": 3}, trainable={"a": False, "n": True}),
            "^trainable must choose",
        ),
    ],
)
def test_wrong_calls(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


def test_a_model_in_single_precision_is_told_what_to_change():
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), START)
    with pytest.raises(TypeError, match=r"float32 and float64: make the model float64, by params = jax.tree.map"):
        riesz.minimise(loss, wave, single)


def test_a_log_is_any_function_of_a_dictionary():
    seen = []
    solution = riesz.minimise(loss, wave, START, log=seen.append, **OPTIONS)
    assert [row["step"] for row in seen] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal([row["loss"] for row in seen], solution.history["loss"])
    with pytest.raises(TypeError, match="^log must be a path, a function"):
        riesz.minimise(loss, wave, START, log=3)


def test_progress_is_told_by_lines_where_output_is_redirected(capfd, monkeypatch):
    from riesz._doors import lines as module

    monkeypatch.setattr(module, "SELDOM", 0.0)
    riesz.minimise(loss, wave, START, **OPTIONS)
    lines = capfd.readouterr().err.splitlines()
    assert lines and all("step" in line and "\r" not in line for line in lines)
    monkeypatch.setattr(module, "SELDOM", 60.0)
    riesz.minimise(loss, wave, START, **OPTIONS)
    assert capfd.readouterr().err == ""
