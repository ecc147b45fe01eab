"""Kinks under second derivatives: which models and operators get the sentence, and which do not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._problem.checks import kinked
from riesz._problem.kinks import order

HIDING = {
    "reaction": lambda v: lambda x: riesz.laplacian(v)(x) + v(x),
    "heat": lambda v: lambda x: riesz.time_derivative(v)(x) - riesz.spatial(riesz.laplacian)(v)(x),
    "burgers": lambda v: lambda x: v(x) * riesz.partial(0)(v)(x) - riesz.partial(0, 0)(v)(x),
    "an energy": lambda v: lambda x: riesz.hessian(v)(x)[0] + riesz.gradient(v)(x),
}
KINKED = {
    "relu": "relu",
    "maximum": lambda t: jnp.maximum(t, 0),
    "leaky relu": jax.nn.leaky_relu,
    "clip": lambda t: jnp.clip(t, -1, 1),
    "modulus": jnp.abs,
    "where": lambda t: jnp.where(t > 0, t, 0.1 * t),
    "a mask": lambda t: t * (t > 0),
}
SMOOTH = [
    "tanh",
    "elu",
    "gelu",
    "identity",
    "sigmoid",
    "sin",
    "softplus",
    "swish",
    jax.nn.mish,
    lambda t: jax.nn.relu(t) ** 2,
]


class Layered(eqx.Module):
    """A network with a layer norm, whose variance is kept from being negative by a maximum that is never needed."""

    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm

    def __call__(self, x):
        return jnp.sum(jnp.tanh(self.norm(self.first(x))))


class TestKinks:
    """What second derivatives do not see of a model is said before anything is compiled."""

    square = riesz.grid((0.0, 0.0), (1.0, 1.0), 3)

    def found(self, operator, D, theta):
        return kinked(riesz.residual(operator, 1.0, self.square), D, theta, None)

    @pytest.mark.at_once(8)
    @pytest.mark.parametrize("operator", HIDING.values(), ids=HIDING.keys())
    @pytest.mark.parametrize("activation", KINKED.values(), ids=KINKED.keys())
    def test_kinks_under_second_derivatives_are_found(self, operator, activation):
        assert self.found(operator, *riesz.mlp(jax.random.key(0), (2, 4, 3, 1), activation)) == ("the loss",)

    @pytest.mark.parametrize("activation", SMOOTH, ids=[getattr(a, "__name__", a) for a in SMOOTH])
    def test_nothing_is_said_of_smooth_networks(self, activation):
        assert self.found(HIDING["reaction"], *riesz.mlp(jax.random.key(0), (2, 4, 3, 1), activation)) == ()

    @pytest.mark.parametrize("operator", [riesz.identity, riesz.gradient, riesz.value_and_gradient])
    def test_nothing_is_said_of_first_derivatives(self, operator):
        D, theta = riesz.mlp(jax.random.key(0), (2, 4, 1), "relu")
        loss = riesz.Integral(lambda z: jnp.sum(z**2), self.square, operator)
        assert kinked(loss, D, theta, None) == ()

    def test_nothing_is_said_of_kinks_that_are_never_met_or_do_not_move(self):
        keys = jax.random.split(jax.random.key(0))
        layered = riesz.parametrise(Layered(eqx.nn.Linear(2, 4, key=keys[0]), eqx.nn.LayerNorm(4)))
        assert self.found(HIDING["reaction"], *layered) == ()
        D, theta = riesz.mlp(keys[1], (2, 4, 1))
        roof = riesz.hard_boundary(D, lambda x: jnp.minimum(x[0], 1 - x[0]))
        assert self.found(HIDING["reaction"], roof, theta) == ()

    def test_wrappers_hide_no_kinks(self):
        D, theta = riesz.parametrise(eqx.nn.MLP(4, "scalar", 5, 2, key=jax.random.key(0)))  # relu, as equinox has it
        wrapped = riesz.hard_boundary(riesz.periodic(D, (1.0, 1.0)), riesz.box_bubble((0, 0), (1, 1)))
        assert self.found(riesz.laplacian, wrapped, theta) == ("the loss",)

    def test_the_term_is_named_and_the_run_goes_on(self):
        D, theta = riesz.mlp(jax.random.key(0), (2, 4, 1), "relu")
        loss = riesz.residual(riesz.identity, 0.5, riesz.boundary((0.0, 0.0), (1.0, 1.0), 3))
        loss = loss + riesz.residual(HIDING["heat"], 0.0, self.square)
        with pytest.warns(
            UserWarning, match="^In term 1 of the loss the operator takes second derivatives, and .* kinks"
        ):
            assert riesz.minimise(loss, D, theta, "ngd", max_steps=1, progress=False).steps == 1

    def test_the_loss_does_not_show_what_is_hidden(self):
        """The values of u - u'' are those of u: the pieces of a relu network are fitted to f, not to a solution."""
        probe = lambda v: lambda x: v(x) - riesz.derivative(riesz.derivative(v))(x)
        D, theta = riesz.mlp(jax.random.key(0), (1, 4, 1), "relu")
        x = jnp.linspace(0.01, 0.99, 7)
        np.testing.assert_array_equal(jax.vmap(probe(D(theta)))(x), jax.vmap(D(theta))(x))


POINT, VALUE = jax.ShapeDtypeStruct((2,), float), jax.ShapeDtypeStruct((), float)


ORDERS = {
    "identity": (riesz.identity, 0),
    "gradient": (riesz.gradient, 1),
    "value and gradient": (riesz.value_and_gradient, 1),
    "laplacian": (riesz.laplacian, 2),
    "hessian": (riesz.hessian, 2),
    "mixed": (riesz.partial(0, 1), 2),
    "divergence of a gradient": (lambda v: riesz.divergence(riesz.gradient(v)), 2),
    "a product": (lambda v: riesz.laplacian(lambda x: x[0] ** 2 * v(x)), 2),
    "third order": (riesz.partial(0, 0, 1), 3),
    "fourth order": (lambda v: riesz.laplacian(riesz.laplacian(v)), 4),
} | {name: (operator, 2) for name, operator in HIDING.items()}


@pytest.mark.parametrize(("operator", "expected"), ORDERS.values(), ids=ORDERS.keys())
def test_the_order_of_an_operator_is_how_often_it_differentiates(operator, expected):
    assert order(operator, POINT, VALUE) == expected


def test_the_order_of_operators_on_vector_fields():
    assert order(riesz.divergence, POINT, POINT) == 1
    assert order(lambda v: v.own, POINT, VALUE) == 0  # asks its function for something that not every one has
