"""Parametrisations: pytrees go in and come back, and networks and linear models follow their formulas."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import riesz
from riesz._problem.models._mlp import ACTIVATIONS

key = jax.random.key(0)


class Model(eqx.Module):
    """A module with something of everything."""

    weight: jax.Array
    index: jax.Array
    nested: dict[str, jax.Array]
    activation: Callable
    name: str = eqx.field(static=True)

    def __call__(self, x):
        return self.activation(self.weight @ x) + self.nested["bias"] + self.index[0]


def model(scale=1.0):
    weight = scale * jnp.arange(6.0).reshape(2, 3)
    return Model(weight, jnp.array([4, 5]), {"bias": scale * jnp.array([0.5, -0.5])}, jnp.tanh, "a model")


shapes = st.sampled_from([(), (2, 3)])
arrays = hnp.arrays(float, shapes, elements=st.floats(-10, 10, allow_subnormal=False))
pytrees = st.recursive(
    arrays,
    lambda leaves: (
        st.lists(leaves, min_size=1, max_size=3) | st.dictionaries(st.text("ab", min_size=1), leaves, min_size=1)
    ),
    max_leaves=4,
)


class TestModules:
    def test_the_inexact_arrays_become_theta(self):
        _, theta0 = riesz.parametrise(model())
        np.testing.assert_array_equal(theta0, [0, 1, 2, 3, 4, 5, 0.5, -0.5])

    def test_the_module_comes_back(self):
        D, theta0 = riesz.parametrise(model())
        assert eqx.tree_equal(D(theta0), model())
        assert eqx.tree_equal(D(3 * theta0), model(scale=3.0))

    def test_integers_and_static_fields_stay(self):
        D, theta0 = riesz.parametrise(model())
        moved = D(theta0 + 1)
        assert moved.index.tolist() == [4, 5]
        assert (moved.name, moved.activation) == ("a model", jnp.tanh)

    def test_params_are_the_inexact_arrays_alone(self):
        D, theta0 = riesz.parametrise(model())
        assert eqx.tree_equal(D.params(theta0), eqx.filter(model(), eqx.is_inexact_array))

    def test_d_is_a_function_of_a_point(self):
        D, theta0 = riesz.parametrise(model())
        x = jnp.array([0.1, 0.2, 0.3])
        np.testing.assert_array_equal(D(theta0)(x), model()(x))

    def test_single_precision_stays(self):
        D, theta0 = riesz.parametrise(jax.tree.map(lambda a: a.astype(jnp.float32), eqx.filter(model(), eqx.is_array)))
        assert theta0.dtype == D.params(theta0).weight.dtype == jnp.float32


class TestApply:
    @settings(deadline=None, max_examples=8)
    @given(pytrees)
    def test_any_pytree_comes_back_and_so_does_theta(self, params):
        D, theta0 = riesz.parametrise(lambda p, x: x, params)
        assert theta0.shape == (sum(leaf.size for leaf in jax.tree.leaves(params)),)
        back = D.params(theta0)
        assert jax.tree.structure(back) == jax.tree.structure(params)
        jax.tree.map(np.testing.assert_array_equal, back, params)
        np.testing.assert_array_equal(riesz.parametrise(lambda p, x: x, D.params(-theta0))[1], -theta0)

    def test_parameters_in_the_other_byte_order_are_the_same_parameters(self):
        a, b = np.arange(3.0), np.ones((2, 2))
        swap = lambda array: array.astype(array.dtype.newbyteorder())
        D, theta0 = riesz.parametrise(lambda p, x: p["a"] @ x, {"a": swap(a), "b": [swap(b)]})
        np.testing.assert_array_equal(theta0, [0, 1, 2, 1, 1, 1, 1])
        assert theta0.dtype == float and D(theta0)(jnp.ones(3)) == 3.0
        line = eqx.tree_at(lambda m: m.weight, eqx.nn.Linear(1, 1, False, key=key), swap(np.array([[2.0]])))
        np.testing.assert_array_equal(riesz.parametrise(line)[1], [2.0])

    def test_d_applies_the_parameters(self):
        D, theta0 = riesz.parametrise(lambda p, x: p["a"] * jnp.exp(-p["b"] * x), {"a": 2.0, "b": 0.5})
        np.testing.assert_allclose(D(theta0)(3.0), 2 * np.exp(-1.5), rtol=1e-14)
        np.testing.assert_allclose(D(jnp.array([1.0, 2.0]))(3.0), np.exp(-6.0), rtol=1e-14)

    def test_a_module_with_parameters_is_a_function_of_both(self):
        class Line(eqx.Module):
            def __call__(self, p, x):
                return p[0] + p[1] * x

        D, theta0 = riesz.parametrise(Line(), [1.0, 2.0])
        assert D(theta0)(3.0) == 7.0


class TestLayout:
    def test_two_parametrisations_of_one_structure_are_equal(self):
        apply = lambda p, x: x
        first, _ = riesz.parametrise(apply, {"a": jnp.zeros(2), "b": jnp.ones((2, 3))})
        second, _ = riesz.parametrise(apply, {"a": jnp.ones(2), "b": jnp.zeros((2, 3))})
        assert first.layout == second.layout
        assert hash(first.layout) == hash(second.layout)
        assert jax.tree.structure(first) == jax.tree.structure(second)

    def test_two_parametrisations_of_one_module_are_equal(self):
        first, second = riesz.parametrise(model())[0], riesz.parametrise(model(scale=2.0))[0]
        assert first.layout == second.layout
        assert jax.tree.structure(first) == jax.tree.structure(second)

    @pytest.mark.parametrize(
        "other", [{"a": jnp.zeros(3)}, {"b": jnp.zeros(2)}, {"a": jnp.zeros((2, 1))}, [jnp.zeros(2)]]
    )
    def test_another_structure_is_another_layout(self, other):
        layout = lambda params: riesz.parametrise(lambda p, x: x, params)[0].layout
        assert layout({"a": jnp.zeros(2)}) != layout(other)


class TestNetworks:
    def test_follows_its_formula(self):
        D, theta = riesz.mlp(key, (3, 5, 2), activation="sigmoid")
        params = D.params(theta)
        x = np.array([0.3, -1.0, 2.0])
        z = x
        for weight, bias in zip(params.weights[:-1], params.biases[:-1], strict=True):
            z = scipy.special.expit(np.asarray(weight) @ z + np.asarray(bias))
        expected = np.asarray(params.weights[-1]) @ z + np.asarray(params.biases[-1])
        assert theta.shape == (3 * 5 + 5 + 5 * 2 + 2,)
        np.testing.assert_allclose(eqx.filter_jit(D(theta))(x), expected, rtol=1e-13)

    def test_sizes_of_one_are_scalars(self):
        D, theta = riesz.mlp(key, (1, 3, 1))
        number, vector = jax.jit(lambda x: (D(theta)(x), D(theta)(x[None])))(0.5)
        assert number.shape == vector.shape == ()
        assert number == vector

    @pytest.mark.parametrize(
        ("sizes", "point", "value"), [((1, 3, 2), (), (2,)), ((2, 3, 1), (2,), ()), ((2, 3), (2,), (3,))]
    )
    def test_other_sizes_are_vectors(self, sizes, point, value):
        D, theta = riesz.mlp(key, sizes)
        assert jax.eval_shape(D(theta), jnp.zeros(point)).shape == value

    @pytest.mark.parametrize("point", [(), (1,), (3,), (2, 1)])
    def test_a_point_of_another_shape_is_refused(self, point):
        D, theta = riesz.mlp(key, (2, 3, 1))
        with pytest.raises(ValueError, match=r"^x must hold points of shape \(2,\)"):
            D(theta)(jnp.zeros(point))

    def test_starts_standard_normal(self):
        D, theta = riesz.mlp(key, (40, 40, 40))
        n = theta.size
        assert np.abs(scipy.special.ndtr(np.sort(theta)) - np.arange(n) / n).max() < 1.95 / np.sqrt(n)  # Kolmogorov
        for array in jax.tree.leaves(D.params(theta)):
            # The mean of n entries has variance 1/n; the sum of their squares is chi-squared with n degrees of freedom.
            assert abs(np.mean(array)) < 4 / np.sqrt(array.size)
            assert 1e-4 < scipy.special.chdtr(array.size, np.sum(np.square(array))) < 1 - 1e-4

    def test_every_entry_is_drawn_anew(self):
        first, second = riesz.mlp(key, (40, 40, 40))[1], riesz.mlp(jax.random.key(1), (40, 40, 40))[1]
        both = np.concatenate([first, second])
        assert len(np.unique(both)) == both.size
        np.testing.assert_array_equal(first, riesz.mlp(key, (40, 40, 40))[1])

    @pytest.mark.parametrize("name", ACTIVATIONS)
    def test_an_activation_by_name_or_as_a_function(self, name):
        z = np.linspace(-2, 2, 5)
        expected = {
            "elu": np.where(z > 0, z, np.expm1(z)),
            "gelu": z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
            "identity": z,
            "relu": np.maximum(z, 0),
            "sigmoid": scipy.special.expit(z),
            "sin": np.sin(z),
            "softplus": np.logaddexp(0, z),
            "swish": z * scipy.special.expit(z),
            "tanh": np.tanh(z),
        }
        np.testing.assert_allclose(ACTIVATIONS[name](jnp.asarray(z)), expected[name], atol=1e-14)
        for activation in (name, ACTIVATIONS[name]):
            D, theta = riesz.mlp(key, (1, 3, 1), activation)
            assert D(theta).activation is ACTIVATIONS[name]


class TestLinear:
    def test_is_a_combination_of_its_features(self):
        D, theta0 = riesz.linear(lambda x: x ** jnp.arange(3), size=3)
        np.testing.assert_array_equal(theta0, np.zeros(3))
        assert D(jnp.array([1.0, 2.0, 3.0]))(2.0) == 1 + 4 + 12

    def test_of_vectors(self):
        D, _ = riesz.linear(lambda x: jnp.stack([x, jnp.flip(x)]), size=2)
        np.testing.assert_array_equal(D(jnp.array([1.0, 10.0]))(jnp.array([2.0, 3.0])), [32.0, 23.0])

    def test_its_parameters_are_theta(self):
        D, theta0 = riesz.linear(lambda x: x ** jnp.arange(3), size=3)
        assert D.params(theta0) is theta0
