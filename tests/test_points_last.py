"""A function at all points at once, against `jax.vmap`: the same numbers, stored the other way round."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._problem import features as _features
from riesz._problem.features import evaluate, features
from riesz._problem.points_last import FEW, points_last
from test_differential import FUNCTIONS, arrays

M, N, WIDTH = 29, 5, 7


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Rows are computed with the points last, however few they are."""
    monkeypatch.setattr(_features, "MANY", 0)


X = jnp.array([[0.3, -0.7, 1.1]]) + 0.1 * jax.random.uniform(jax.random.key(0), (M, 3))
B = jax.random.normal(jax.random.key(1), (4, 3, 5))
LONG = jax.random.normal(jax.random.key(2), (3, FEW + 3))


def check(f, x=X):
    found, expected = jax.jit(lambda x: points_last(f, x))(x), jax.jit(jax.vmap(f))(x)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for y, z in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert y.shape == z.shape and y.dtype == z.dtype
        np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-12)


@pytest.mark.at_once(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_derivatives(name):
    check(lambda x: jnp.asarray(FUNCTIONS[name](x)))
    check(jax.jacfwd(lambda x: jnp.asarray(FUNCTIONS[name](x))))


PRODUCTS = {
    "with points on the left": lambda x: jnp.einsum("i,bij->jb", x, B),
    "with points on the right": lambda x: jnp.einsum("bij,i->bj", B, x),
    "with points on both sides": lambda x: jnp.einsum("bi,ij->jb", B[:, :, 0] * x[None], B[0] * x[0]),
    "with an axis in common": lambda x: jnp.einsum("bij,bi->bj", B, B[:, :, 1] * x[None]),
    "with an axis in common, on the left": lambda x: jnp.einsum("bik,bij->bkj", B * x[0], B),
    "with points and an axis in common": lambda x: jnp.einsum("bij,bi->bj", B * x[0], B[:, :, 1] * x[None]),
    "of two axes": lambda x: jnp.einsum("bij,bi->j", B * x[1], B[:, :, 1] * x[None]),
    "that is an outer one": lambda x: jnp.einsum("i,bj->ibj", x, B[0] * x[1]),
    "that is an outer one with a constant": lambda x: jnp.einsum("i,bj->ibj", x, B[0]),
    "that is an outer one with a constant on the left": lambda x: jnp.einsum("bj,i->bji", B[0], x),
    "that is an outer one with an axis in common": lambda x: jnp.einsum("bi,bj->bij", B[0] * x[0], B[1] * x[1]),
    "of numbers": lambda x: jnp.dot(x[0], x[1]),
    "with a long sum": lambda x: jnp.einsum("ik,jk->ij", x[:, None] * LONG, LONG * x[0]),
    "of no length": lambda x: jnp.einsum("ik,jk->ij", x[:, None][:, :0], x[:, None][:, :0]),
    "of no entries": lambda x: jnp.einsum("i,j->ij", x[:0], x),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product(name):
    check(PRODUCTS[name])


def test_steps_that_mix_numbers_and_arrays():
    check(lambda x: jnp.clip(x, -0.1, x[0]))
    check(lambda x: jnp.where(x[0] > 0.35, x, 0.0) * 2.0)
    check(lambda x: jax.lax.select(x[0] > 0.35, x, jnp.ones(3)))
    check(lambda x: (x[0], jnp.ones(2), {"index": jnp.argmax(x), "none": 3}))
    check(lambda x: jnp.pad(x, 2, constant_values=x[0])[::2])
    check(lambda x: jax.random.normal(jax.random.key(0), (3,)) * x)


def test_of_numbers_and_of_matrices():
    check(lambda x: jnp.sin(x) * jnp.arange(3.0), X[:, 0])
    check(lambda x: x @ x.T + 1, jnp.stack([X, X**2], axis=2))


def test_keeps_single_precision():
    D, theta = riesz.mlp(jax.random.key(1), (3, 6, 1))
    found = features(D, riesz.laplacian, theta.astype(jnp.float32), X.astype(jnp.float32))
    assert found.values.dtype == found.jacobians.dtype == jnp.float32
    check(lambda x: 2 * x / 3 + x**2, X.astype(jnp.float32))


@pytest.mark.at_once(4)
@pytest.mark.parametrize("name", ["identity", "laplacian", "value_and_gradient", "hessian"])
@pytest.mark.parametrize("sizes", [(3, 6, 1), (3, 6, 5, 2)], ids=str)
def test_rows_are_the_jacobian_of_the_values(name, sizes):
    D, theta = riesz.mlp(jax.random.key(1), sizes)
    operator = getattr(riesz, name)
    found = jax.jit(lambda theta: features(D, operator, theta, X))(theta)
    values = lambda theta: evaluate(D, operator, theta, X)
    np.testing.assert_allclose(found.values, values(theta), rtol=1e-11, atol=1e-11)
    expected = jax.jit(jax.jacfwd(values))(theta).reshape(M, -1, theta.size)
    np.testing.assert_allclose(found.jacobians, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_rows_can_be_differentiated_and_batched():
    D, theta = riesz.mlp(jax.random.key(1), (3, 4, 1))
    rows = lambda theta: features(D, riesz.laplacian, theta, X).jacobians
    oracle = lambda theta: jax.jacfwd(lambda theta: evaluate(D, riesz.laplacian, theta, X))(theta)[:, None]
    for quantity in (lambda f: jax.jacfwd(f)(theta), lambda f: jax.vmap(f)(jnp.stack([theta, 2 * theta]))):
        np.testing.assert_allclose(quantity(rows), quantity(oracle), rtol=1e-10, atol=1e-10)


def test_rows_of_models_with_loops_and_calls():
    class Recurrent(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            step = jax.checkpoint(lambda c: jax.nn.softplus(self.weight @ c))
            return jnp.sum(jax.lax.fori_loop(0, 3, lambda i, c: step(c) + jax.nn.relu(x) * i, x))

    D, theta = riesz.parametrise(Recurrent(B[0, :, :3]))
    found = features(D, riesz.identity, theta, X).jacobians[:, 0]
    expected = jax.jacfwd(lambda theta: evaluate(D, riesz.identity, theta, X))(theta)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_rows_are_stored_once_with_the_points_last():
    """No array of points by neurons by inputs is made, and the rows of all layers lie side by side."""
    D, theta = riesz.mlp(jax.random.key(0), (N, WIDTH, 1))
    x = jax.random.normal(jax.random.key(1), (M, N))
    for operator in (riesz.identity, riesz.laplacian):
        program = jax.make_jaxpr(lambda theta: features(D, operator, theta, x))(theta)  # noqa: B023
        shapes = [shape for shape in arrays(program.jaxpr) if M in shape]
        assert (1, theta.size, M) in shapes
        assert all(shape[-1] == M for shape in shapes if len(shape) > 1 and shape != (M, 1, theta.size))


@pytest.mark.parametrize("name", ["identity", "laplacian"])
def test_a_factorisation_reads_rows_as_they_are_stored(name):
    """LAPACK reads by columns: compiled with a QR, rows are never written by rows."""
    D, theta = riesz.mlp(jax.random.key(0), (N, WIDTH, 1))
    x = jax.random.normal(jax.random.key(1), (3 * M, N))
    loss = riesz.residual(getattr(riesz, name), 0.0, riesz.points(x))
    program = jax.jit(lambda theta: riesz.tangent_space(loss, D, theta).factors.s)
    entry = program.lower(theta).compile().as_text().split("ENTRY")[1]
    written = [line.split("=")[1].split("fusion(")[0] for line in entry.splitlines() if "fusion(" in line]
    assert any(f"f64[{3 * M},{theta.size}]{{0,1}}" in shape for shape in written)
    assert not any(f"{theta.size}]{{1,0}}" in shape and f"[{3 * M}" in shape for shape in written)
