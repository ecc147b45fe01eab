"""The paper's theorems as tests.

They hold for a constant alpha and an inactive filter, which the paper assumes without a word: every eigenvalue of
the Gram matrix is either kept as it is or, on the null space, cut off. `NULL` cuts nothing else off here, and where
a test needs that, it checks it.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from riesz._methods.state import State

NULL = riesz.Cutoff(1e-12)
"""A cutoff on the null space: between the smallest nonzero eigenvalue and rounding."""

compiled = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})
"""Programs that run a few times only: compiling them is what costs."""

HEAVY_BALL = ("nhb", "nhb_fd", "qnhb")
NESTEROV = ("nn1", "nn1_fd", "qnn1", "nn2", "nn2_fd", "qnn2")

M = 19
X = jnp.linspace(-1.0, 1.0, M)
Y = jnp.sin(3 * X) + 0.2 * X
LABELS = (jnp.cos(5 * X) > 0).astype(int)
WEIGHTS = (1.0 + X**2) / 40


def wave(p, x):
    """A model with four parameters whose tangent space has four dimensions at `THETA`."""
    return p[0] * jnp.sin(p[1] * x + p[2]) + jnp.exp(p[3] * x)


WAVE, THETA = riesz.parametrise(wave, jnp.array([0.7, 1.9, 0.4, -0.6]))


def twice(p, x):
    """The same functions with one parameter too many: the tangent system is redundant."""
    return wave(jnp.array([p[0] + p[4], p[1], p[2], p[3]]), x)


TWICE, THETA_TWICE = riesz.parametrise(twice, jnp.array([0.3, 1.9, 0.4, -0.6, 0.4]))


def coordinates(x):
    return x


def tabulated(matrix, y, weights=None):
    """Least squares over a linear model whose features at the points are the rows of a matrix."""
    D, _ = riesz.linear(coordinates, matrix.shape[1])
    return D, riesz.least_squares(riesz.points(jnp.asarray(matrix), jnp.asarray(y), weights))


def value_and_slope(v):
    slope = riesz.derivative(v)
    return lambda x: jnp.stack([v(x), slope(x)])


def _values(D, theta, operator=riesz.identity, x=X):
    """The function D(theta) under an operator, as its values at the points, flattened."""
    return jax.vmap(operator(D(theta)))(x).reshape(-1)


values = compiled(_values)


@compiled
def _tangents(D, theta, operator, x):
    return jax.jacfwd(lambda theta: _values(D, theta, operator, x))(theta)


def tangents(D, theta, operator=riesz.identity, x=X):
    """The generating system psi(theta), as columns of values: an independent way to the rows, by forward mode."""
    return np.asarray(_tangents(D, theta, operator, x))


@compiled
def second_derivative(D, theta, operator=riesz.identity, x=X):
    """H_D(theta)(e_a, e_b)(x_j) under an operator, of shape (m, d, d)."""
    return jax.hessian(lambda theta: _values(D, theta, operator, x))(theta)


@compiled
def parameter_gradient(loss, D, theta):
    """The gradient of L in theta, by reverse mode through the whole loss."""
    return jax.grad(lambda theta: loss.value(D(theta), loss.draw(None, D, theta)))(theta)


def projection(columns, weights):
    """The dense matrix of the orthogonal projection onto the span of columns, under sum_j weights_j f_j g_j."""
    root = np.sqrt(weights)[:, None]
    u, s, _ = np.linalg.svd(root * columns, full_matrices=False)
    u = u[:, s > 1e-6 * s[0]]
    return (u @ u.T) * root.T / root


@compiled
def gradient(method, loss, D, theta):
    """Coefficients of the manifold gradient, the covector, the space's rows and its eigenvalues."""
    sample = method.draw(loss, D, theta)
    at = method.choices.linearise(loss, D, theta, sample)
    W = method.choices.gradient_space(at, sample)
    return W.represent(at, at.slopes).coefficients, at.covector(at.slopes), W.psi.array(), W.factors.eigenvalues


@compiled
def step(method, loss, D, theta, state):
    return method.step(loss, D, theta, state, method.draw(loss, D, theta))


def iterate(method, loss, D, theta, steps):
    """The iterates theta_0, ..., theta_steps and the step sizes between them."""
    thetas, alphas, state = [theta], [], method.init(theta)
    for _ in range(steps):
        theta, state, info = step(method, loss, D, theta, state)
        thetas.append(theta)
        alphas.append(float(info.alpha))
    return thetas, alphas


# ------------------------------------------------------------------------------------------ the projection lemma


def stretched_form(z, y):
    """The form of the inner product sum_j w_j (1 + y_j^2) f_j g_j."""
    return 0.5 * (1 + y**2) * z**2


def half_squared_distance(z, y):
    return 0.5 * jnp.sum((z - y) ** 2)


JETS = jnp.stack([Y, jnp.cos(2 * X)], axis=1)
"""Values and slopes to fit: data of an H1 regression."""

WEIGHTED = riesz.points(X, Y, WEIGHTS)
REGRESSION = riesz.least_squares(WEIGHTED)
CLASSIFICATION = riesz.logistic(riesz.points(X, LABELS, WEIGHTS))
SOBOLEV = riesz.Integral(half_squared_distance, riesz.points(X, JETS, WEIGHTS), value_and_slope)


def case_l2(v):
    """W = L2: nabla_W L(v) = v - u."""
    return REGRESSION, riesz.L2(), riesz.identity, WEIGHTS, v - Y


def case_weighted(v):
    """W = L2 with a density c: nabla_W L(v) = (v - u) / c."""
    W = riesz.InnerProduct(density=stretched_form)
    return REGRESSION, W, riesz.identity, WEIGHTS * (1 + Y**2), (v - Y) / (1 + Y**2)


def case_sobolev(v):
    """W = H1, the paper's example (ii): nabla_W L(v) = v - u, seen through L_x v = (v(x), v'(x))."""
    return SOBOLEV, riesz.InnerProduct(value_and_slope), value_and_slope, jnp.repeat(WEIGHTS, 2), v - JETS.reshape(-1)


def case_newton(v):
    """W = the Hessian of the logistic loss: nabla_W L(v) is Newton's correction l' / l'', point by point."""
    s = jax.nn.sigmoid(v)
    return CLASSIFICATION, riesz.GaussNewton(), riesz.identity, WEIGHTS * s * (1 - s), (s - LABELS) / (s * (1 - s))


@pytest.mark.at_once(3)
@pytest.mark.parametrize("model", [(WAVE, THETA), (TWICE, THETA_TWICE)], ids=["full", "redundant"])
@pytest.mark.parametrize("case", [case_l2, case_weighted, case_sobolev, case_newton])
def test_the_manifold_gradient_is_a_projection(case, model):
    """Lemma 3.1 (projection): grad_M L(v) = P^W_T nabla_W L(v).

    On points, with nabla_W L(v) in closed form and P^W_T a dense matrix made without the library. The rest
    nabla_W L(v) - grad_M L(v) is W-orthogonal to T, and (grad_M L(v), psi)_W = L'(v)(psi).
    """
    D, theta = model
    operator = value_and_slope if case is case_sobolev else riesz.identity
    loss, W, operator, weights, functional = case(values(D, theta, operator))
    psi = tangents(D, theta, operator)
    g, covector, rows, eigenvalues = gradient(riesz.ngd(W=W, filter=NULL), loss, D, theta)
    eigenvalues = np.asarray(eigenvalues)
    assert np.all((eigenvalues > 1e-6) | (eigenvalues < 1e-20)), "the filter must be inactive"

    manifold = psi @ g
    np.testing.assert_allclose(manifold, projection(psi, weights) @ functional, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(psi.T @ (weights * (functional - manifold)), 0, atol=1e-10)
    np.testing.assert_allclose(psi.T @ (weights * manifold), covector, atol=1e-10)
    np.testing.assert_allclose(parameter_gradient(loss, D, theta), covector, atol=1e-12)
    np.testing.assert_allclose(rows.T @ rows, psi.T @ (weights[:, None] * psi), atol=1e-12)


@pytest.mark.parametrize("factorisation", [riesz.QRSVD(), riesz.Gram()], ids=["qrsvd", "gram"])
@pytest.mark.parametrize("few", [False, True], ids=["tall", "wide"])
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_project_is_an_orthogonal_projection(factorisation, few, seed):
    """P^X_T is idempotent and self-adjoint, and leaves a rest that is orthogonal to T, whatever the rank of psi."""
    random = np.random.default_rng(seed)
    m, d, rank = (4, 7, 3) if few else (11, 5, 3)
    matrix = random.normal(size=(m, rank)) @ random.normal(size=(rank, d))
    D, loss = tabulated(matrix, random.normal(size=m), jnp.asarray(random.uniform(0.5, 1.5, m)))
    space = space_of(loss, D, jnp.zeros(d), riesz.Cutoff(1e-9), factorisation)
    f, g = random.normal(size=(2, m))
    once, other = space.psi @ space.project(f), space.psi @ space.project(g)
    scale = np.linalg.norm(f)
    np.testing.assert_allclose(space.psi @ space.project(once), once, atol=1e-8 * scale)
    np.testing.assert_allclose(space.psi.T @ (f - once), 0, atol=1e-7 * scale)
    np.testing.assert_allclose(f @ other, once @ g, atol=1e-7 * scale)
    assert int(space.rank) == rank


@compiled
def space_of(loss, D, theta, filter, factorisation):
    return riesz.tangent_space(loss, D, theta, filter=filter, factorisation=factorisation)


def test_natural_gradient_steps_follow_the_projected_flow():
    """Proposition 3.1 (Dirac-Frenkel): dv/dt = -P^W_T nabla_W L(v).

    One NGD step of size s is an Euler step of that flow: (v_{k+1} - v_k)/s = -P^W_T (v_k - u) + O(s).
    """
    v = values(WAVE, THETA)
    flow = -projection(tangents(WAVE, THETA), WEIGHTS) @ (v - Y)
    errors = []
    for s in 2.0 ** -np.arange(6, 11):
        method = riesz.ngd(step_size=riesz.Constant(s), filter=NULL)
        theta = step(method, REGRESSION, WAVE, THETA, method.init(THETA))[0]
        errors.append(np.linalg.norm((values(WAVE, theta) - v) / s - flow))
    ratios = np.array(errors[:-1]) / errors[1:]
    assert abs(ratios[-1] - 2) < 0.02, ratios


# --------------------------------------------------------------------------------------------------- one step


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(12, 5, 5), (12, 5, 3), (4, 7, 4), (4, 7, 2)]))
def test_one_step_solves_linear_least_squares(seed, shape):
    """Remark 3.4 (one-step convergence): on a linear model, NGD with alpha = 1 reaches P^W_M u in one step.

    From any start; where the features are dependent, the step is the one of minimal Euclidean norm. The oracle
    is numpy's least-squares solver.
    """
    m, d, rank = shape
    random = np.random.default_rng(seed)
    matrix, y = random.normal(size=(m, d)), random.normal(size=m)
    if rank < min(m, d):
        matrix = random.normal(size=(m, rank)) @ random.normal(size=(rank, d))
    weights, theta = random.uniform(0.5, 1.5, m), random.normal(size=d)
    D, loss = tabulated(matrix, y, jnp.asarray(weights))
    method = riesz.ngd(step_size=riesz.Constant(1.0), filter=riesz.Cutoff(1e-10))
    after, _, info = step(method, loss, D, jnp.asarray(theta), method.init(jnp.asarray(theta)))

    root = np.sqrt(weights)
    delta = np.linalg.lstsq(root[:, None] * matrix, root * (y - matrix @ theta), rcond=1e-5)[0]
    np.testing.assert_allclose(after - theta, delta, rtol=1e-6, atol=1e-7 * np.linalg.norm(delta))
    assert int(info.rank) == rank
    again, _, info = step(method, loss, D, after, method.init(after))
    assert np.linalg.norm(again - after) <= 1e-7 * np.linalg.norm(delta)


def sines(x):
    return jnp.sin(jnp.pi * jnp.arange(1, 5) * x) + 0.3 * jnp.sin(jnp.pi * x)


def energy(z):
    return 0.5 * jnp.sum(z**2)


def load(z, f):
    return -f * z


def test_one_step_is_the_galerkin_solution():
    """Remark 3.4, with H_L an energy: L(v) = 1/2 int |v'|^2 - int f v, the Ritz functional of -u'' = f.

    `GaussNewton()` is the energy inner product: the linear term adds a covector but no rows. One step gives the
    Galerkin solution K c = b, and L(v) - L(u_h) = 1/2 |v - u_h|^2 in the energy norm.
    """
    over = riesz.grid(0.0, 1.0, 41)
    f = jnp.exp(over.x)
    D, zero = riesz.linear(sines, 4)
    loss = riesz.Integral(energy, over, riesz.derivative) + riesz.Integral(load, riesz.points(over.x, f, over.weights))

    phi, slopes = tangents(D, zero, x=over.x), tangents(D, zero, riesz.derivative, over.x)
    stiffness = slopes.T @ (over.weights[:, None] * slopes)
    solution = np.linalg.solve(stiffness, phi.T @ (over.weights * f))

    theta = jnp.array([0.5, -0.2, 0.1, 0.9])
    method = riesz.ngd(W=riesz.GaussNewton(), step_size=riesz.Constant(1.0), filter=NULL)
    after, state, before = step(method, loss, D, theta, method.init(theta))
    np.testing.assert_allclose(after, solution, rtol=1e-10, atol=1e-12)
    excess = float(before.loss - step(method, loss, D, after, state)[2].loss)
    error = theta - solution
    np.testing.assert_allclose(excess, 0.5 * error @ stiffness @ error, rtol=1e-10)


# ------------------------------------------------------------------------------------------ linear equivalences


def linear_problem(rank):
    """Features that are not orthonormal, nor independent where the rank is below 5."""
    random = np.random.default_rng(rank)
    matrix = random.normal(size=(13, rank)) @ np.diag(np.linspace(1.0, 3.0, rank)) @ random.normal(size=(rank, 5))
    y, weights = random.normal(size=13), random.uniform(0.02, 0.2, 13)
    D, loss = tabulated(matrix, y, jnp.asarray(weights))
    return D, loss, matrix, y, projection(matrix, weights), jnp.asarray(random.normal(size=5))


def functional_heavy_ball(v, u, P, beta, alphas):
    """v_{k+1} = v_k + (h_k/h_{k-1}) beta_k (v_k - v_{k-1}) - alpha_k P (v_k - u), alpha_k = h_k^2."""
    iterates, last, before = [v], v, alphas[0]
    for k, alpha in enumerate(alphas, start=1):
        ratio = np.sqrt(alpha / before)
        v, last, before = v + ratio * beta(k) * (v - last) - alpha * (P @ (v - u)), v, alpha
        iterates.append(v)
    return np.array(iterates)


def functional_nesterov(v, u, P, beta, alphas):
    """w_k = v_k + beta_k (v_k - v_{k-1}) and v_{k+1} = w_k - alpha_k P (w_k - u)."""
    iterates, last = [v], v
    for k, alpha in enumerate(alphas, start=1):
        w = v + beta(k) * (v - last)
        v, last = w - alpha * (P @ (w - u)), v
        iterates.append(v)
    return np.array(iterates)


def assert_equal_in_function_space(method, reference, beta, rank, steps=7):
    D, loss, matrix, y, P, theta = linear_problem(rank)
    thetas, alphas = iterate(method, loss, D, theta, steps)
    expected = reference(matrix @ theta, y, P, beta, alphas)
    np.testing.assert_allclose(matrix @ np.array(thetas).T, expected.T, rtol=1e-8, atol=1e-9)
    return alphas


@pytest.mark.parametrize("rank", [5, 3], ids=["independent", "dependent"])
@pytest.mark.parametrize("name", HEAVY_BALL)
def test_heavy_ball_variants_are_classical_on_linear_models(name, rank):
    """Section 4.2: on a linear space NHB, NHB-FD and QNHB are one method, classical heavy ball in function space."""
    method = riesz.METHODS[name](beta=0.6, step_size=riesz.Constant(0.3), filter=riesz.Cutoff(1e-9))
    assert_equal_in_function_space(method, functional_heavy_ball, lambda k: 0.6, rank)


@pytest.mark.parametrize("rank", [5, 3], ids=["independent", "dependent"])
@pytest.mark.parametrize("name", NESTEROV)
def test_nesterov_variants_are_classical_on_linear_models(name, rank):
    """Section 4.3: "all variants introduced boil down to classical Nesterov in the case where M is a linear space"."""
    method = riesz.METHODS[name](step_size=riesz.Constant(0.3), filter=riesz.Cutoff(1e-9))
    assert_equal_in_function_space(method, functional_nesterov, lambda k: (k - 1) / (k + 1), rank)


def test_heavy_ball_ratio_of_step_sizes_on_linear_models():
    """Equation (heavy ball): with varying alpha_k = h_k^2 the momentum carries the ratio h_k / h_{k-1}."""
    method = riesz.nhb(beta=0.6, step_size=riesz.Clipped(2.5), filter=riesz.Cutoff(1e-9))
    alphas = assert_equal_in_function_space(method, functional_heavy_ball, lambda k: 0.6, rank=5)
    assert len(set(alphas)) > 3, "the step size must vary, or this test says nothing"


def stretched(z, y):
    return 0.5 * (2 + jnp.sin(y)) * z**2


@pytest.mark.parametrize("name", ["nhb", "nn2_fd"])
def test_transport_metric_does_not_matter_on_linear_models(name):
    """On a linear space the last displacement lies in T already: P^X_T leaves it alone for every X."""
    X_metric = riesz.InnerProduct(density=stretched)
    method = riesz.METHODS[name](beta=0.6, X=X_metric, step_size=riesz.Constant(0.3), filter=riesz.Cutoff(1e-9))
    reference = functional_heavy_ball if name in HEAVY_BALL else functional_nesterov
    assert_equal_in_function_space(method, reference, lambda k: 0.6, rank=5)


@pytest.mark.parametrize(("natural", "classical"), [("qnhb", "heavy_ball"), ("qnn1", "nesterov"), ("ngd", "gd")])
def test_classical_methods_are_natural_under_an_orthonormal_system(natural, classical):
    """Section 4.1: where psi is W-orthonormal, G = I and the natural method is the classical one, in parameters."""
    matrix = np.linalg.qr(np.random.default_rng(0).normal(size=(13, 5)))[0]
    y = np.random.default_rng(1).normal(size=13)
    D, loss = tabulated(matrix, y, jnp.ones(13))
    theta, step_size = jnp.linspace(-1.0, 1.0, 5), riesz.Constant(0.3)
    ours = iterate(riesz.METHODS[natural](step_size=step_size, filter=NULL), loss, D, theta, 6)[0]
    theirs = iterate(riesz.METHODS[classical](step_size=step_size), loss, D, theta, 6)[0]
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["nhb", "nhb_fd", "qnhb", "nn1", "nn2"])
def test_the_first_step_has_no_momentum(name):
    """k starts at 1 with no momentum, so every first step is that of NGD, on any model."""
    choices = {"step_size": riesz.Constant(0.3), "filter": NULL}
    ours = iterate(riesz.METHODS[name](**choices), REGRESSION, WAVE, THETA, 1)[0][1]
    ngd = iterate(riesz.ngd(**choices), REGRESSION, WAVE, THETA, 1)[0][1]
    np.testing.assert_allclose(ours, ngd, rtol=1e-10)


# ----------------------------------------------------------------------------------- the curvature propositions


@compiled
def transported(method, loss, D, theta, state):
    """The coefficients d_k of all three transports, and the rows of X at theta_k."""
    sample = method.draw(loss, D, theta)
    at = method.choices.linearise(loss, D, theta, sample)
    X = method.choices.momentum_space(at, sample)
    transports = {"projected": riesz.Projected(), "difference": riesz.Difference(), "quasi": riesz.Quasi()}
    return {name: transport(at, X, state) for name, transport in transports.items()}, X.psi.array()


def gap(other, X_metric, D, theta, p, h, beta):
    """|psi_k^T (p_k of another transport) - psi_k^T (p_k of NHB)|_X with theta_{k-1} = theta_k - h p.

    The gradient terms cancel, so what remains is beta_k/h_{k-1} times the difference of the transported d_k.
    """
    method = riesz.nhb(X=X_metric, filter=NULL)
    state = State(theta - h * p, h * p, jnp.asarray(h**2), jnp.asarray(2))
    d, rows = transported(method, REGRESSION, D, theta, state)
    return beta * float(np.linalg.norm(rows @ (d[other] - d["projected"]))) / h


def weighted_second_derivative(D, theta, operator):
    """The rows sqrt(w_j) H_D(theta)(e_a, e_b)(x_j), whose Euclidean norm is the norm of X."""
    return np.sqrt(WEIGHTS)[:, None, None] * np.asarray(second_derivative(D, theta, operator))


def maximal_curvature(H, p):
    """kappa_max = max over |q| = 1 of |H_D(q, q)|_X, by ascent from many starts, one of which is p/|p|.

    An ascent may miss the maximum, and so give a smaller number: the bound is then only harder to meet. It is never
    smaller than |H_D(p, p)|/|p|^2, which the proof of the bound compares with.
    """
    q = np.random.default_rng(0).normal(size=(60, p.size))
    q[0] = p
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    best = 0.0
    for _ in range(200):
        image = np.einsum("mab,sa,sb->sm", H, q, q)
        best = max(best, np.linalg.norm(image, axis=1).max())
        # The shift by q makes the ascent monotone enough: it bounds the step away from a leap across the sphere.
        uphill = np.einsum("mab,sm,sb->sa", H, image, q)
        q = q * best**2 + uphill
        q /= np.linalg.norm(q, axis=1, keepdims=True)
    return best


METRICS = {
    "L2": (None, riesz.identity),
    "H1 seminorm": (riesz.InnerProduct(riesz.derivative), riesz.derivative),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("other", "factor"),
    [pytest.param("quasi", 1.0, id="prop:qnhb"), pytest.param("difference", 0.5, id="prop:qnhb-bis")],
)
def test_momentum_variants_differ_by_the_curvature(other, factor, metric):
    """Propositions 4.1 (QNHB) and 4.2 (NHB-FD): the distance to NHB is of order h, bounded by the curvature.

    |psi^T p_bar - psi^T p|_X <= h beta kappa_max(theta_k) |p|^2 + o(h |p|^2) for QNHB, and
    |psi^T p_hat - psi^T p|_X <= h/2 beta kappa_max(theta_{k-1}) |p|^2 + o(h |p|^2) for NHB-FD. (The last line of the
    proof for QNHB is printed with |p| where it needs |p|^2.) Halving h halves the distance, and the limit of
    distance / (h beta) is factor * |P^X_T H_D(p, p)|_X, the term that both proofs bound.
    """
    X_metric, operator = METRICS[metric]
    beta, p = 0.6, jnp.array([0.8, -0.5, 0.3, 0.4])
    steps = 2.0 ** -np.arange(5, 12)
    gaps = np.array([gap(other, X_metric, WAVE, THETA, p, h, beta) for h in steps])

    ratios = gaps[:-1] / gaps[1:]
    assert np.all(np.diff(np.abs(ratios - 2)) < 0), ratios
    assert abs(ratios[-1] - 2) < 0.01, ratios

    for h, distance in zip(steps[3:], gaps[3:], strict=True):
        base = THETA if other == "quasi" else THETA - h * p
        kappa = maximal_curvature(weighted_second_derivative(WAVE, base, operator), np.asarray(p))
        assert distance <= factor * h * beta * kappa * float(p @ p)

    H = np.einsum("mab,a,b->m", weighted_second_derivative(WAVE, THETA, operator), p, p)
    P = projection(np.sqrt(WEIGHTS)[:, None] * tangents(WAVE, THETA, operator), np.ones(M))
    np.testing.assert_allclose(gaps[-1] / (steps[-1] * beta), factor * np.linalg.norm(P @ H), rtol=5e-3)


def growth(p, x):
    return jnp.exp(p[0]) * (1 + x**2)


def test_the_curvature_bounds_are_attained():
    """Propositions 4.1 and 4.2 by hand, for D(theta) = e^theta phi: H_D = D lies in T, so the bounds are sharp.

    With theta_{k-1} = theta_k - h p the three transports are d = h p, h p e^{-hp} and 1 - e^{-hp}, and
    kappa_max(theta) = |psi|_X = e^theta |phi|.
    """
    D, theta = riesz.parametrise(growth, jnp.array([0.3]))
    h, p, beta = 1e-3, 1.7, 0.6
    state = State(theta - h * p, jnp.array([h * p]), jnp.asarray(h**2), jnp.asarray(2))
    d, rows = transported(riesz.nhb(filter=NULL), REGRESSION, D, theta, state)
    np.testing.assert_allclose(d["quasi"], [h * p], rtol=1e-12)
    np.testing.assert_allclose(d["projected"], [h * p * np.exp(-h * p)], rtol=1e-12)
    np.testing.assert_allclose(d["difference"], [-np.expm1(-h * p)], rtol=1e-11)

    kappa = np.linalg.norm(rows)
    for other, factor in (("quasi", 1.0), ("difference", 0.5)):
        distance = gap(other, None, D, theta, jnp.array([p]), h, beta)
        np.testing.assert_allclose(distance, factor * h * beta * kappa * p**2, rtol=3e-3)


@pytest.mark.parametrize(("name", "transport"), [("nhb", "projected"), ("nhb_fd", "difference"), ("qnhb", "quasi")])
def test_methods_differ_only_by_their_transport(name, transport):
    """Appendix A: the gradient term cancels in p_bar - p, so the steps differ by beta (d_k - d_k') alone."""
    beta, p, h = 0.6, jnp.array([0.8, -0.5, 0.3, 0.4]), 0.1
    state = State(THETA - h * p, h * p, jnp.asarray(0.3), jnp.asarray(2))
    choices = {"step_size": riesz.Constant(0.3), "filter": NULL}
    still = step(riesz.ngd(**choices), REGRESSION, WAVE, THETA, state)[0]
    moved = step(riesz.METHODS[name](beta=beta, **choices), REGRESSION, WAVE, THETA, state)[0]
    d, _ = transported(riesz.nhb(filter=NULL), REGRESSION, WAVE, THETA, state)
    np.testing.assert_allclose(moved - still, beta * d[transport], rtol=1e-9, atol=1e-12)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("few", [False, True])
def test_spring_solves_its_own_equation(few):
    """(G + lambda) phi = -nabla L + lambda mu phi_-, with delta = alpha phi: not the paper's, but cited by it."""
    shift, mu, alpha = 1e-2, 0.9, 0.3
    loss = riesz.least_squares(riesz.points(X[::7], data=Y[::7])) if few else REGRESSION
    method = riesz.spring(beta=mu, filter=riesz.Shift(shift), step_size=riesz.Constant(alpha))
    thetas, _ = iterate(method, loss, WAVE, THETA, 4)
    phi = np.zeros(4)
    for theta, after in zip(thetas, thetas[1:], strict=False):
        G = riesz.tangent_space(loss, WAVE, theta).gram
        c = jax.grad(lambda theta: loss(WAVE(theta)))(theta)
        phi = np.linalg.solve(G + shift * np.eye(4), -c + shift * mu * phi)
        np.testing.assert_allclose(after - theta, alpha * phi, rtol=1e-9, atol=1e-13)


# ------------------------------------------------------------------------------------------- reparametrisation


class Reparametrised(eqx.Module):
    """D'(eta) = D(phi(eta)) with phi(eta) = A eta + bend sin(A eta), a diffeomorphism for |bend| < 1."""

    D: eqx.Module
    A: jax.Array
    bend: jax.Array

    def phi(self, eta):
        image = self.A @ eta
        return image + self.bend * jnp.sin(image)

    def inverse(self, theta):
        """The eta with phi(eta) = theta, by Newton's method in one variable each."""
        image = theta
        for _ in range(40):
            image = image - (image + self.bend * jnp.sin(image) - theta) / (1 + self.bend * jnp.cos(image))
        return jnp.linalg.solve(self.A, image)

    def __call__(self, eta):
        return self.D(self.phi(eta))


def reparametrisations():
    mix = np.array([[1.0, 0.3, 0.0, -0.2], [0.1, 0.8, 0.4, 0.0], [0.0, -0.3, 1.2, 0.2], [0.5, 0.0, 0.1, 0.9]])
    return {
        "nonlinear": Reparametrised(WAVE, jnp.asarray(mix), jnp.asarray(0.7)),
        "badly scaled": Reparametrised(WAVE, jnp.diag(10.0 ** jnp.array([-2.0, 2.0, 0.0, 1.0])), jnp.asarray(0.0)),
    }


TINY = riesz.Cutoff(1e-11)
"""Below every eigenvalue of the badly scaled Gram matrices too."""


@pytest.mark.parametrize("kind", ["nonlinear", "badly scaled"])
@pytest.mark.parametrize("W", [riesz.L2(), riesz.GaussNewton()], ids=["L2", "GaussNewton"])
def test_ngd_does_not_see_the_parametrisation(W, kind):
    """Section 3.4: grad_M L(v) is a vector of T_v, the same for every parametrisation of the manifold.

    psi^T delta of one NGD step is unchanged, as a function on the points, when D is replaced by D o phi; that of
    classical gradient descent, with the same step size, is not.
    """
    loss = REGRESSION if isinstance(W, riesz.L2) else CLASSIFICATION
    other = reparametrisations()[kind]
    eta = other.inverse(THETA)
    np.testing.assert_allclose(other.phi(eta), THETA, rtol=1e-13)
    ngd = riesz.ngd(W=W, step_size=riesz.Constant(0.1), filter=TINY)

    def natural(D, theta):
        return tangents(D, theta) @ (step(ngd, loss, D, theta, ngd.init(theta))[0] - theta)

    def classical(D, theta):
        return tangents(D, theta) @ (-0.1 * parameter_gradient(loss, D, theta))

    ours, theirs = natural(WAVE, THETA), natural(other, eta)
    np.testing.assert_allclose(theirs, ours, rtol=1e-6, atol=1e-8 * np.linalg.norm(ours))
    ours, theirs = classical(WAVE, THETA), classical(other, eta)
    assert np.linalg.norm(theirs - ours) > 0.1 * np.linalg.norm(ours)


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_ngd_does_not_see_linear_changes_of_coordinates(seed):
    """The same for random linear phi: G' = A^T G A and c' = A^T c give psi'^T G'^-1 c' = psi^T G^-1 c."""
    random = np.random.default_rng(seed)
    A = np.linalg.qr(random.normal(size=(4, 4)))[0] * 10.0 ** random.uniform(-1.5, 1.5, 4)
    other = Reparametrised(WAVE, jnp.asarray(A), jnp.asarray(0.0))
    method = riesz.ngd(filter=TINY)
    g = gradient(method, REGRESSION, WAVE, THETA)[0]
    eta = jnp.linalg.solve(other.A, THETA)
    transformed = gradient(method, REGRESSION, other, eta)[0]
    np.testing.assert_allclose(A @ transformed, g, rtol=1e-5, atol=1e-6 * np.linalg.norm(g))


def test_transported_momentum_does_not_see_the_parametrisation():
    """Section 4.2: P^X_T psi_{k-1}^T delta and P^X_T (v_k - v_{k-1}) are functions, so phi leaves them alone.

    QNHB reads coefficients of one tangent system in another: a nonlinear phi changes its momentum.
    """
    other = reparametrisations()["nonlinear"]
    before = THETA - jnp.array([0.2, -0.15, 0.1, 0.1])
    delta = jnp.array([0.15, -0.1, 0.12, 0.05])
    eta, eta_before = other.inverse(THETA), other.inverse(before)
    eta_delta = jnp.linalg.solve(jax.jacfwd(other.phi)(eta_before), delta)
    alpha, k = jnp.asarray(0.1), jnp.asarray(2)
    method = riesz.nhb(filter=NULL)
    ours, _ = transported(method, REGRESSION, WAVE, THETA, State(before, delta, alpha, k))
    theirs, _ = transported(method, REGRESSION, other, eta, State(eta_before, eta_delta, alpha, k))
    psi, psi_eta = tangents(WAVE, THETA), tangents(other, eta)
    for transport in ("projected", "difference"):
        np.testing.assert_allclose(psi_eta @ theirs[transport], psi @ ours[transport], rtol=1e-8, atol=1e-10)
    assert np.linalg.norm(psi_eta @ theirs["quasi"] - psi @ ours["quasi"]) > 1e-2


# ------------------------------------------------------------------------------------------------- H_L = G + K

PENALTY = riesz.residual(riesz.derivative, 0.5, riesz.grid(-1.0, 1.0, 11))


def slopes_of(name, v):
    """l'(z_j) at the points of the data, by hand."""
    return v - Y if name == "least squares" else 1 / (1 + np.exp(-v)) - LABELS


LOSSES = {
    "least squares": REGRESSION,
    "logistic": CLASSIFICATION,
    "two terms": CLASSIFICATION + 3.0 * PENALTY,
}


@compiled
def hessians(loss, D, theta):
    """The Hessian of L, and the Gram matrix of `GaussNewton()`."""
    L = lambda theta: loss.value(D(theta), loss.draw(None, D, theta))
    return jax.grad(L)(theta), jax.hessian(L)(theta), riesz.tangent_space(loss, D, theta, riesz.GaussNewton()).gram


def curvature_term(name, D, theta):
    """K_ab = L'(v)(H_D(e_a, e_b)), with H_D by automatic differentiation and L' by hand."""
    second = second_derivative(D, theta)
    K = np.einsum("m,m,mab->ab", WEIGHTS, slopes_of(name, values(D, theta)), second)
    if name == "two terms":
        over = PENALTY.over
        z = values(D, theta, riesz.derivative, over.x)
        second = second_derivative(D, theta, riesz.derivative, over.x)
        K = K + 3.0 * np.einsum("m,m,mab->ab", over.weights, z - 0.5, second)
    return K


@pytest.mark.parametrize("name", LOSSES)
def test_the_hessian_is_the_gram_matrix_plus_curvature(name):
    """Equation (H_L = G + K): G_ij = H_L(psi_i, psi_j) is Gauss-Newton's Gram matrix, K_ij = L'(H_D(e_i, e_j)).

    `newton` steps with exactly that sum, negative eigenvalues included.
    """
    loss = LOSSES[name]
    grad, H, G = hessians(loss, WAVE, THETA)
    K = curvature_term(name, WAVE, THETA)
    assert np.linalg.norm(K) > 1e-2 * np.linalg.norm(G), "the curvature must matter here"
    np.testing.assert_allclose(G + K, H, rtol=1e-10, atol=1e-12)

    newton = riesz.newton(filter=riesz.Floor(1e-12))
    after, _, info = step(newton, loss, WAVE, THETA, newton.init(THETA))
    np.testing.assert_allclose(after - THETA, -np.linalg.solve(G + K, grad), rtol=1e-8)
    assert int(info.rank) == 4


def test_newton_keeps_the_sign_of_an_eigenvalue():
    """At a point where H_L is indefinite, Newton's step is still -H_L^-1 grad L, not a descent step."""
    theta = jnp.array([-0.7, 1.0, 0.4, 0.8])
    grad, H, _ = hessians(REGRESSION, WAVE, theta)
    eigenvalues = np.linalg.eigvalsh(H)
    assert eigenvalues[0] < -1e-3 and eigenvalues[-1] > 1e-3
    newton = riesz.newton(filter=riesz.Cutoff(1e-12))
    after = step(newton, REGRESSION, WAVE, theta, newton.init(theta))[0]
    np.testing.assert_allclose(after - theta, -np.linalg.solve(H, grad), rtol=1e-8)


def test_linear_models_have_no_curvature_term():
    """K = 0 where M is a linear space: H_L = G, and a Newton step is a Gauss-Newton step."""
    matrix = np.random.default_rng(3).normal(size=(13, 5))
    D, _ = riesz.linear(coordinates, 5)
    loss = riesz.logistic(riesz.points(jnp.asarray(matrix), np.arange(13) % 2))
    theta = jnp.linspace(-0.5, 0.5, 5)
    _, H, G = hessians(loss, D, theta)
    np.testing.assert_allclose(H, G, rtol=1e-10, atol=1e-14)
    newton = riesz.newton(filter=NULL)
    gauss_newton = riesz.ngd(W=riesz.GaussNewton(), step_size=riesz.Constant(1.0), filter=NULL)
    by_newton = step(newton, loss, D, theta, newton.init(theta))[0]
    by_gauss_newton = step(gauss_newton, loss, D, theta, gauss_newton.init(theta))[0]
    np.testing.assert_allclose(by_newton, by_gauss_newton, rtol=1e-9)


# ------------------------------------------------------------------------------------- examples and errata


@pytest.mark.parametrize("name", ["nhb", "nn2"])
def test_gauss_newton_is_l2_for_least_squares(name):
    """Example 3.1 (ii): for L = 1/2 |v - u|^2 the Hessian of the loss is the inner product itself."""
    choices = {"step_size": riesz.Constant(0.3), "filter": NULL}
    state = State(THETA - 0.1, jnp.full(4, 0.1), jnp.asarray(0.3), jnp.asarray(4))
    loss = 2.0 * REGRESSION
    plain = step(riesz.METHODS[name](W=riesz.L2(), **choices), loss, WAVE, THETA, state)[0]
    gauss_newton = step(riesz.METHODS[name](W=riesz.GaussNewton(), **choices), loss, WAVE, THETA, state)[0]
    np.testing.assert_allclose(gauss_newton, plain, rtol=1e-9)


def surprise(z):
    return -jnp.log(z)


def test_the_gram_matrix_of_cross_entropy():
    """Erratum to example 2 (iv): against d mu the Gram matrix of -log v is int psi psi^T / v^2 d mu, without u."""
    theta = jnp.array([0.1, 1.9, 0.4, -0.6])
    loss = riesz.Integral(surprise, riesz.points(X, weights=WEIGHTS))
    v, psi = values(WAVE, theta), tangents(WAVE, theta)
    assert np.all(v > 0)
    G = eqx.filter_jit(riesz.tangent_space)(loss, WAVE, theta, riesz.GaussNewton()).gram
    np.testing.assert_allclose(G, psi.T @ ((WEIGHTS / v**2)[:, None] * psi), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("offset", "limit"), [(1, 2.0), (2, 3.0)])
def test_nesterov_momentum(offset, limit):
    """Erratum to section 4.1: beta_k = (k-1)/(k+1) behaves as 1 - 2/k; it is (k-1)/(k+2) that behaves as 1 - 3/k."""
    k = jnp.arange(1, 50)
    rule = riesz.NesterovMomentum(offset=offset)
    np.testing.assert_allclose(jax.vmap(rule)(k), (k - 1) / (k + offset), rtol=1e-15)
    np.testing.assert_allclose(1e6 * (1 - rule(jnp.asarray(10**6))), limit, rtol=1e-5)
    np.testing.assert_allclose(riesz.NesterovMomentum(offset, scale=0.75)(jnp.asarray(5)), 0.75 * 4 / (5 + offset))


def test_default_momenta():
    """Section 5: heavy ball has beta = 0.5, Nesterov the printed (k-1)/(k+1), NGD none; alpha = min(1/|g|, 0.1)."""
    for name in HEAVY_BALL:
        assert float(riesz.METHODS[name]().choices.momentum(jnp.asarray(7))) == 0.5
    for name in NESTEROV:
        assert float(riesz.METHODS[name]().choices.momentum(jnp.asarray(7))) == 6 / 8
    assert float(riesz.ngd().choices.momentum(jnp.asarray(7))) == 0.0
    g = gradient(riesz.ngd(), REGRESSION, WAVE, THETA)[0]
    for top in (0.1, 100.0):
        method = riesz.ngd(step_size=riesz.Clipped(top))
        info = step(method, REGRESSION, WAVE, THETA, method.init(THETA))[2]
        np.testing.assert_allclose(info.alpha, min(1 / np.linalg.norm(g), top), rtol=1e-10)
