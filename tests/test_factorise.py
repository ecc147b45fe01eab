"""Filtered solves against the dense formula f(G) = sum_i f(lambda_i) u_i u_i^T, null space included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from riesz._linalg.filters import AbstractFilter
from riesz._linalg.rows import Stored

EPS = 1e-3
FILTERS = {
    "cutoff": (riesz.Cutoff(EPS), lambda x: 1 / x if x > EPS else 0.0),
    "shift": (riesz.Shift(EPS), lambda x: 1 / (x + EPS)),
    "floor": (riesz.Floor(EPS), lambda x: 1 / max(x, EPS)),
}
FACTORISATIONS = {"qrsvd": riesz.QRSVD(), "gram": riesz.Gram()}


def rows(random, m, d, singular_values):
    """A matrix with prescribed singular values."""
    U, _ = np.linalg.qr(random.standard_normal((m, m)))
    V, _ = np.linalg.qr(random.standard_normal((d, d)))
    k = min(m, d)
    return U[:, :k] @ np.diag(singular_values) @ V[:, :k].T


def dense(psi, inverse):
    """f(G), from the d x d Gram matrix."""
    eigenvalues, U = np.linalg.eigh(psi.T @ psi)
    return U @ np.diag([inverse(x) for x in eigenvalues]) @ U.T


@pytest.mark.at_once(12)
@pytest.mark.parametrize("factorisation", FACTORISATIONS)
@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("shape", [(13, 7), (7, 13), (9, 9), (1, 5), (5, 1)], ids=str)
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(0, 6), rank=st.floats(0, 1))
@settings(deadline=None, max_examples=10)
def test_solves_are_the_dense_formula(factorisation, filter, shape, seed, exponent, rank):
    """For any covector, and for rows of the tangent space; condition up to 1e6, rank zero to full."""
    random, (m, d) = np.random.default_rng(seed), shape
    s = 10.0 ** -np.linspace(0, exponent, min(m, d))
    s[int(np.ceil(rank * s.size)) :] = 0.0
    s = np.where(np.abs(s**2 / EPS - 1) < 1e-3, 1.1 * s, s)  # no eigenvalue at the cutoff
    psi = rows(random, m, d, s)
    ours, theirs = FILTERS[filter]
    factors = FACTORISATIONS[factorisation](Stored(jnp.asarray(psi)))
    solver, inverse = factors.inverse(ours), dense(psi, theirs)
    c, r = random.standard_normal(d), random.standard_normal(m)
    scale = 1e-10 * max(1.0, np.abs(inverse).max())
    np.testing.assert_allclose(solver.riesz(jnp.asarray(c)), inverse @ c, rtol=1e-8, atol=scale)
    np.testing.assert_allclose(solver.project(jnp.asarray(r)), inverse @ psi.T @ r, rtol=1e-8, atol=scale)
    assert int(factors.rank(ours)) == np.sum(s**2 > EPS)


@pytest.mark.parametrize("factorisation", FACTORISATIONS)
def test_floor_and_shift_follow_the_gradient_in_the_null_space(factorisation):
    """With fewer rows than parameters, eps^-1 (I - V V^T) c must not be lost."""
    random = np.random.default_rng(0)
    psi = random.standard_normal((3, 8))
    null = np.linalg.svd(psi)[2][3:].T @ random.standard_normal(5)
    factors = FACTORISATIONS[factorisation](Stored(jnp.asarray(psi)))
    for filter, gain in ((riesz.Floor(EPS), 1 / EPS), (riesz.Shift(EPS), 1 / EPS), (riesz.Cutoff(EPS), 0.0)):
        found = factors.inverse(filter).riesz(jnp.asarray(null))
        np.testing.assert_allclose(found, gain * null, rtol=1e-10, atol=1e-10)


def test_qr_keeps_the_small_singular_values_that_gram_loses():
    """A solution that hangs on a singular value of 1e-10: its square is below the rounding of G."""
    random = np.random.default_rng(0)
    psi = rows(random, 30, 4, np.array([1.0, 1e-2, 1e-5, 1e-10]))
    delta = random.standard_normal(4)
    r = jnp.asarray(psi @ delta)

    def error(factorisation):
        return np.abs(factorisation(Stored(jnp.asarray(psi))).inverse(riesz.Cutoff(1e-22)).project(r) - delta).max()

    assert error(riesz.QRSVD()) < 1e-4
    assert error(riesz.Gram()) > 1e-2


def test_a_filter_of_ones_own_is_accepted():
    """The abstract class is the whole contract."""

    class Inverse(AbstractFilter):
        eps: jax.Array

        def __call__(self, eigenvalues):
            return 1 / eigenvalues

    x = jnp.linspace(0.0, 1.0, 20)
    D, theta0 = riesz.linear(lambda x: x ** jnp.arange(3), size=3)
    loss = riesz.least_squares(riesz.points(x, data=1 + 2 * x - x**2))
    method = riesz.ngd(filter=Inverse(jnp.asarray(0.0)), step_size=riesz.Constant(1.0))
    solution = riesz.minimise(loss, D, theta0, method, max_steps=1)
    np.testing.assert_allclose(solution.theta, [1.0, 2.0, -1.0], atol=1e-9)
