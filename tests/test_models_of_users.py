"""Models that JAX cannot differentiate in every mode, that call LAPACK at a point, or that are made for one call."""

import dataclasses
import gc
import logging
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._problem.features import _traced
from riesz._running import compiled
from spoken import check_sentence

X = jnp.linspace(-1.0, 1.0, 20)
LOSS = riesz.least_squares(riesz.points(X, data=jnp.sin(2 * X)))
THETA = jnp.array([0.5, 1.0, 0.2])


def plain(theta):
    return lambda x: theta[0] * jnp.sin(theta[1] * x) + theta[2]


def looped(theta):
    """The same function, its last addition a loop of unknown length."""
    body = lambda carry: (carry[0] + 1, carry[1] + theta[2])
    return lambda x: jax.lax.while_loop(lambda carry: carry[0] < 1, body, (0, theta[0] * jnp.sin(theta[1] * x)))[1]


@jax.custom_vjp
def reverse_only(theta, x):
    return theta[0] * jnp.sin(theta[1] * x) + theta[2]


reverse_only.defvjp(
    lambda theta, x: (reverse_only(theta, x), (theta, x)),
    lambda saved, g: (
        g * jnp.stack([jnp.sin(saved[0][1] * saved[1]), saved[0][0] * saved[1] * jnp.cos(saved[0][1] * saved[1]), 1.0]),
        None,
    ),
)


def steps(D, name, **options):
    return riesz.minimise(LOSS, D, THETA, name, max_steps=4, progress=False, **options)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ["ngd", "nhb", "nn2_fd", "spring", "gd", "auto"])
def test_loops_of_unknown_length_are_differentiated_forward(name):
    np.testing.assert_allclose(steps(looped, name).theta, steps(plain, name).theta, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", ["ngd", "nhb_fd", "spring", "gd"])
def test_models_with_reverse_mode_alone_serve_methods_without_jvps(name):
    one = lambda theta: lambda x: reverse_only(theta, x)
    np.testing.assert_allclose(steps(one, name).theta, steps(plain, name).theta, rtol=1e-9)


@pytest.mark.parametrize("name", ["nhb", "nn1", "auto"])
def test_models_with_reverse_mode_alone_are_refused_by_the_others(name):
    one = lambda theta: lambda x: reverse_only(theta, x)
    check_sentence(lambda: steps(one, name), TypeError, r"^D must be differentiable in forward mode .*custom_vjp")


def test_more_values_than_parameters_with_reverse_mode_alone():
    """Forward mode would be shorter, but there is none."""
    vector = lambda D: lambda theta: lambda x: jnp.stack([D(theta)(x + shift) for shift in range(4)])
    one = lambda theta: lambda x: reverse_only(theta, x)
    loss = riesz.least_squares(riesz.points(X, data=jnp.zeros((20, 4))))
    ends = [riesz.minimise(loss, vector(D), THETA, "ngd", max_steps=3, progress=False) for D in (one, plain)]
    np.testing.assert_allclose(ends[0].theta, ends[1].theta, rtol=1e-9)


@dataclasses.dataclass
class Unhashable:
    """A density that an ordinary dataclass makes, which has no hash."""

    power: float = 2.0

    def __call__(self, z):
        return jnp.abs(z) ** self.power


@dataclasses.dataclass
class UnhashableModel:
    shift: float = 0.0

    def __call__(self, theta):
        return lambda x: plain(theta)(x) + self.shift


def test_objects_without_a_hash_are_named():
    pattern = "must be made of functions and objects that can be hashed, but unhashable type"
    over = riesz.points(X)
    check_sentence(lambda: riesz.minimise(riesz.Integral(Unhashable(), over), plain, THETA), TypeError, pattern)
    check_sentence(lambda: riesz.minimise(LOSS, UnhashableModel(), THETA), TypeError, pattern)


# LAPACK at a point.

SOLVES = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, riesz
one = jnp.ones(6)
matrix = lambda t, x: 4 * jnp.eye(6) + jnp.outer(one, t[:6]) * x[0] + jnp.outer(t[6:], one) * x[1]
D = lambda t: lambda x: jnp.linalg.solve(matrix(t, x), one)[0]
x = jax.random.normal(jax.random.key(0), (1500, 2)) / 2
thetas = jnp.stack([0.1 * jnp.ones(12), 0.2 * jnp.ones(12)])
loss = riesz.least_squares(riesz.points(x, data=x[:, 0]))
print(riesz.minimise_many(loss, D, thetas, "nhb", max_steps=15, threads=2, progress=False).steps.tolist())
"""


def test_many_starts_of_a_model_that_solves_systems_end():
    """They did not: batches of systems from two threads waited for each other."""
    run = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, timeout=240)
    assert run.stdout.strip() == "[15, 15]", run.stderr


def test_a_model_that_solves_systems_is_told(caplog):
    D = lambda theta: lambda x: jnp.linalg.solve(2 * jnp.eye(2) + theta[:2, None] * x, theta[1:])[0]
    with caplog.at_level(logging.WARNING, "riesz"):
        riesz.minimise_many(LOSS, D, jnp.stack([THETA, THETA]), "gd", max_steps=1, threads=2, progress=False)
    assert [record.message for record in caplog.records if "LAPACK at every point" in record.message]
    caplog.clear()
    determinant = lambda z: jnp.linalg.slogdet(jnp.eye(5) * (1 + z**2))[1]
    with caplog.at_level(logging.WARNING, "riesz"):
        loss = riesz.Integral(determinant, riesz.points(X))
        riesz.minimise_many(loss, plain, jnp.stack([THETA, THETA]), "gd", max_steps=1, threads=2, progress=False)
    assert [record.message for record in caplog.records if "LAPACK at every point" in record.message]


# Fresh functions.


def test_programs_of_functions_that_are_gone_are_let_go(monkeypatch):
    """A model made anew for each call has programs of its own; those of long ago do not stay for ever."""
    gone, kept = [], 2
    monkeypatch.setattr(compiled, "KEPT", kept)
    for shift in range(kept + 2):
        D = lambda theta, shift=shift: lambda x: plain(theta)(x) + shift
        riesz.minimise(LOSS, D, THETA, "gd", max_steps=1, progress=False)
        gone.append(weakref.ref(D))
    del D
    _traced.cache_clear()  # which remembers the last 32 models
    gc.collect()
    assert sum(ref() is not None for ref in gone) <= kept
    assert gone[0]() is None
