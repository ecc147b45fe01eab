"""LAPACK sees one matrix at a time.

On the CPU, JAX hands a batch of matrices to XLA's threads from one of these threads, and waits there. When every thread
waits like this, nobody works: two batches at once stop a machine with two cores for ever.
"""

import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import riesz
from programs import inner

LAPACK = {"cholesky", "eig", "eigh", "geqrf", "geqp3", "householder_product", "lu", "schur", "svd", "triangular_solve"}

X = jax.random.normal(jax.random.key(0), (30, 2))
CLASSES = jnp.argmax(jnp.stack([X[:, 0], X[:, 1], -X[:, 0] - X[:, 1]]), axis=0)
VECTORS = jnp.stack([X[:, 0] * X[:, 1], jnp.sin(X[:, 0]), X[:, 1]], axis=1)
SCALAR, SCALAR_START = riesz.mlp(jax.random.key(1), (2, 3, 1))
VECTOR, VECTOR_START = riesz.mlp(jax.random.key(1), (2, 3, 3))
PROBLEMS = {
    "softmax": (riesz.softmax(riesz.points(X, data=CLASSES)), VECTOR, VECTOR_START),
    "vectors": (riesz.least_squares(riesz.points(X, data=VECTORS)), VECTOR, VECTOR_START),
    "robust vectors": (riesz.pseudo_huber(riesz.points(X, data=VECTORS)), VECTOR, VECTOR_START),
    "Ritz": (riesz.ritz(lambda x: 1 + x[0] ** 2, 1.0, riesz.points(X)), SCALAR, SCALAR_START),
}
METHODS = {
    "auto": riesz.auto(),
    "Gauss-Newton": riesz.nhb(W=riesz.GaussNewton()),
    "Gram": riesz.nn2(W=riesz.GaussNewton(), factorisation=riesz.Gram()),
    "an energy": riesz.nhb(W=riesz.InnerProduct(riesz.value_and_gradient, lambda z: jnp.sum(z**4))),
}


def calls(function, *arguments):
    """The calls of LAPACK in a program: their names, and how many matrices each gets."""
    found = inner(jax.make_jaxpr(function)(*arguments).jaxpr)
    return [(e.primitive.name, math.prod(e.invars[0].aval.shape[:-2])) for e in found if e.primitive.name in LAPACK]


def calls_of_a_step(method, problem):
    loss, D, theta = PROBLEMS[problem]
    return calls(lambda theta: method.step(loss, D, theta, method.init(theta), method.draw(loss, D, theta)), theta)


def test_batches_are_seen():
    assert calls(jax.vmap(jnp.linalg.eigh), jnp.ones((7, 2, 2))) == [("eigh", 7)]
    assert calls(lambda a: jax.lax.map(jnp.linalg.svd, a), jnp.ones((7, 2, 2))) == [("svd", 1)]


@pytest.mark.at_once(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_step_has_no_batches(problem, method):
    assert {batch for _, batch in calls_of_a_step(METHODS[method], problem)} == {1}


@pytest.mark.parametrize(("problem", "factorisations"), [("vectors", 1), ("softmax", 2)])
def test_one_factorisation_where_gauss_newton_is_l2(problem, factorisations):
    """Momentum is projected in L2: for least squares that is W's own space, for a softmax it is another one."""
    names = [name for name, _ in calls_of_a_step(riesz.nhb(W=riesz.GaussNewton()), problem)]
    assert names.count("svd") == factorisations


RUN = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, riesz
x = jax.random.normal(jax.random.key(0), (1500, 2))
classes = jnp.floor(5 * (1 + jnp.arctan2(x[:, 1], x[:, 0]) / jnp.pi)).astype(int) % 10
D, theta = riesz.mlp(jax.random.key(1), (2, 8, 10))
method = riesz.ngd(W=riesz.GaussNewton(), filter=riesz.Shift(1e-2), factorisation=riesz.Gram())
starts = jnp.stack([theta, -theta, 2 * theta, theta / 2])
many = riesz.minimise_many(riesz.softmax(riesz.points(x, data=classes)), D, starts, method, max_steps=20, threads=4)
print(many.steps.tolist())
"""


@pytest.mark.slow
def test_many_starts_of_many_classes_end():
    """They did not: two threads' batches of 1500 Hessians of the softmax waited for each other."""
    run = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=240)
    assert run.stdout.strip() == "[20, 20, 20, 20]", run.stderr
