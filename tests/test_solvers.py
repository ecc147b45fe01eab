"""Solvers: what a stranger's needs, what Cholesky reaches, and what is refused where there is no spectrum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import riesz
from riesz._linalg.rows import Stored
from spoken import check_sentence

X = jnp.linspace(-1.0, 1.0, 30)
D, THETA = riesz.mlp(jax.random.key(0), (1, 5, 1))
MANY = riesz.least_squares(riesz.points(X, data=jnp.sin(3 * X)))
FEW = riesz.least_squares(riesz.points(X[::4], data=jnp.sin(3 * X[::4])))
NATURAL = [name for name in riesz.METHODS if name not in ("auto", "gd", "heavy_ball", "nesterov", "newton")]


# A solver that somebody else writes: conjugate gradients by lineax, which sees Psi by its products alone.


class ConjugateGradients(riesz.AbstractSolver):
    def __call__(self, psi):
        return Normal(psi)


class Normal(riesz.AbstractFactors):
    psi: riesz.AbstractRows

    def inverse(self, filter):
        return Shifted(self.psi, filter.eps)


class Shifted(riesz.AbstractInverse):
    psi: riesz.AbstractRows
    eps: jax.Array

    def riesz(self, c):
        product = lambda delta: self.psi.T @ (self.psi @ delta) + self.eps * delta
        G = lx.FunctionLinearOperator(product, jax.eval_shape(lambda: c), lx.positive_semidefinite_tag)
        return lx.linear_solve(G, c, lx.CG(rtol=1e-13, atol=1e-13, max_steps=200), throw=False).value


@pytest.mark.at_once(6)
@pytest.mark.parametrize("loss", [MANY, FEW], ids=["more_rows", "fewer_rows"])
@pytest.mark.parametrize("name", NATURAL)
def test_a_solver_of_ones_own_serves_every_method(name, loss):
    shift = riesz.Shift(1e-3)
    steps = lambda solver: riesz.minimise(
        loss, D, THETA, riesz.METHODS[name](filter=shift, factorisation=solver), max_steps=5, progress=False
    )
    ours, theirs = steps(riesz.QRSVD()), steps(ConjugateGradients())
    np.testing.assert_allclose(theirs.theta, ours.theta, rtol=1e-6, atol=1e-8)
    assert (theirs.history["rank"] == -1).all() and (theirs.history["solver_residual"] < 1e-9).all()
    assert (ours.history["rank"] > 0).all() and "solver_residual" not in ours.history


def test_a_solver_of_ones_own_serves_auto():
    method = riesz.auto().solving(ConjugateGradients())
    solution = riesz.minimise(MANY, D, THETA, method, max_steps=30, progress=False)
    assert float(solution.loss) < 1e-4 * solution.history["loss"][0]


# Cholesky.


def rows(seed, m, d, condition):
    random = np.random.default_rng(seed)
    U, _ = np.linalg.qr(random.standard_normal((m, m)))
    V, _ = np.linalg.qr(random.standard_normal((d, d)))
    k = min(m, d)
    return (U[:, :k] * np.geomspace(1, 1 / condition, k)) @ V[:, :k].T, random


@eqx.filter_jit
def solve(solver, psi, eps, r, c):
    inverse = solver(Stored(psi)).inverse(riesz.Shift(eps))
    return inverse.project(r), inverse.riesz(c), inverse.norm(r, c)


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e7])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (12, 12)], ids=str)
def test_cholesky_is_qr_to_the_digits_that_the_shift_leaves(shape, condition):
    """Refinement through the rows: the error is that of the shifted system, not of its square root."""
    psi, random = rows(0, *shape, condition)
    eps, (m, d) = 1e-10, shape
    r, c = random.standard_normal(m), random.standard_normal(d)
    arguments = [jnp.asarray(a) for a in (psi, eps, r, c)]
    for found, known in zip(solve(riesz.Cholesky(), *arguments), solve(riesz.QRSVD(), *arguments), strict=True):
        off = np.linalg.norm(found - known) / np.linalg.norm(known)
        assert off < 1e-6


def test_refinement_wins_back_what_squaring_loses():
    """Where eps is 1e-12 of the largest eigenvalue, Gram loses four digits more than refined Cholesky."""
    psi, random = rows(1, 60, 10, 1e6)
    delta = random.standard_normal(10)
    r = jnp.asarray(psi @ delta)
    exact = solve(riesz.QRSVD(), jnp.asarray(psi), 1e-12, r, jnp.zeros(10))[0]
    error = lambda solver: np.linalg.norm(solve(solver, jnp.asarray(psi), 1e-12, r, jnp.zeros(10))[0] - exact)
    assert error(riesz.Cholesky()) < 1e-2 * error(riesz.Gram())


def test_units_of_the_parameters_do_not_matter_to_cholesky():
    """Equilibration: columns of 1e-8 and 1e8 beside each other."""
    psi, random = rows(2, 30, 8, 10.0)
    S = 10.0 ** np.linspace(-8, 8, 8)
    r, zero = jnp.asarray(random.standard_normal(30)), jnp.zeros(8)
    eps = 1e-300
    plain, scaled = (solve(riesz.Cholesky(), jnp.asarray(rows), eps, r, zero)[0] for rows in (psi, psi * S[None, :]))
    np.testing.assert_allclose(scaled * S, plain, rtol=1e-9)


def test_rows_of_zeros_have_rank_zero_without_a_spectrum():
    nothing = lambda theta: lambda x: x + 0 * theta[0] + 0 * theta[1]
    method = riesz.ngd(filter=riesz.Shift(1e-3), factorisation=riesz.Cholesky())
    solution = riesz.minimise(MANY, nothing, jnp.ones(2), method, progress=False, throw=False)
    assert solution.result is riesz.Result.RANK_COLLAPSE and (solution.history["rank"] == 0).all()


@pytest.mark.parametrize("filter", [riesz.Floor(1e-8), riesz.Cutoff(1e-8)], ids=["floor", "cutoff"])
def test_filters_that_need_a_spectrum_are_refused_without_one(filter):
    pattern = r"^filter must be riesz.Shift\(eps\) with factorisation=Cholesky\(\)"
    check_sentence(lambda: riesz.nhb(filter=filter, factorisation=riesz.Cholesky()), ValueError, pattern)
    space = lambda: riesz.tangent_space(MANY, D, THETA, filter=filter, factorisation=riesz.Cholesky())
    check_sentence(space, ValueError, pattern)


# Rows: how they are held changes nothing.


@pytest.mark.at_once(1)
@pytest.mark.parametrize("chunk", [None, 7, 30])
def test_products_with_several_vectors(chunk):
    space = riesz.tangent_space(MANY, D, THETA, filter=riesz.Shift(1e-3), factorisation=riesz.Gram(chunk))
    psi, dense = space.psi, np.asarray(riesz.tangent_space(MANY, D, THETA).psi)
    random = np.random.default_rng(0)
    deltas, rs = jnp.asarray(random.normal(size=(THETA.size, 3))), jnp.asarray(random.normal(size=(30, 2)))
    np.testing.assert_allclose(psi @ deltas, dense @ deltas, atol=1e-12)
    np.testing.assert_allclose(psi.T @ rs, dense.T @ rs, atol=1e-12)
    np.testing.assert_allclose(psi @ deltas[:, 0], dense @ deltas[:, 0], atol=1e-12)
    np.testing.assert_allclose(psi.gram(), dense.T @ dense, atol=1e-12)
    np.testing.assert_allclose(psi.kernel(), dense @ dense.T, atol=1e-12)
    np.testing.assert_allclose(psi.norms(), np.linalg.norm(dense, axis=0), atol=1e-12)
    np.testing.assert_allclose(psi.array(), dense, atol=1e-13)
    assert psi.shape == dense.shape and psi.dtype == dense.dtype


@pytest.mark.parametrize(
    "written",
    ["QRSVD()", "Cholesky(chunk=64)", "ConjugateGradients()", "ConjugateGradients(tolerance=0.001, points=9)"],
)
def test_solvers_are_told_as_they_are_written(written):
    assert str(eval(f"riesz.{written}")) == written
