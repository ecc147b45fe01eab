"""Statements of the paper that no other file tests: examples, limits, and the flows that the methods discretise.

docs/paper.md says where every numbered item of the paper is implemented and tested.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special

import riesz
from riesz._methods.state import State
from riesz.experiments._competitors import COMPETITORS, FIGURES

NULL = riesz.Cutoff(1e-12)
"""Below every nonzero eigenvalue here, above rounding: the pseudo-inverse itself."""

X = np.linspace(-1.0, 1.0, 17)
Y = np.cos(2 * X)
WEIGHTS = (2 + X) / 30
REGRESSION = riesz.least_squares(riesz.points(X, data=Y, weights=WEIGHTS))
THETA = jnp.array([0.8, 0.5])


def growth(theta):
    """D(theta)(x) = a e^(b x)."""
    return lambda x: theta[0] * jnp.exp(theta[1] * x)


def growth_rows(theta):
    """v, psi and p -> H_D(p, p) at the points, by hand."""
    a, b = theta
    e = np.exp(b * X)
    return a * e, np.stack([e, a * X * e], axis=1), lambda p: (2 * p[0] * p[1] * X + p[1] ** 2 * a * X**2) * e


def redundant(theta):
    """The same functions with one parameter too many."""
    return growth(jnp.stack([theta[0] + theta[2], theta[1]]))


compiled = functools.partial(eqx.filter_jit, compiler_options={"xla_backend_optimization_level": 0})
"""Programs that run once: compiling them is what costs."""


def take_step(method, loss, D, theta, state=None):
    """The next parameters."""
    state = method.init(theta) if state is None else state
    return method.step(loss, D, theta, state, method.draw(loss, D, theta))[0]


step = compiled(take_step)


@compiled
def space_of(loss, D, theta, W=None, filter=NULL):
    return riesz.tangent_space(loss, D, theta, W=W, filter=filter)


# --------------------------------------------------------------------------------------------- section 2: examples


def test_the_tangent_functions_of_a_linear_model_are_its_basis():
    """Example 2.1: the tangent space at any point is the linear space itself."""
    D, _ = riesz.linear(lambda x: jnp.sin(x * jnp.arange(1, 4)), size=3)
    basis = np.sin(X[:, None] * np.arange(1, 4))
    for theta in (jnp.zeros(3), jnp.array([1.0, -2.0, 0.5])):
        psi = space_of(REGRESSION, D, theta).psi
        np.testing.assert_allclose(psi, np.sqrt(WEIGHTS)[:, None] * basis, rtol=1e-13, atol=1e-15)


def test_the_tangent_functions_of_a_shallow_network():
    """Example 2.1: 1, s(z_i), a_i s'(z_i) and a_i s'(z_i) x_j with z = A x + b, and d = (n + 2) k + 1."""
    n, k = 3, 5
    D, theta = riesz.mlp(jax.random.key(1), (n, k, 1), activation="sigmoid")
    assert theta.size == (n + 2) * k + 1
    x = np.random.default_rng(0).normal(size=(7, n))
    (A, a), (b, _) = D.params(theta).weights, D.params(theta).biases
    s = scipy.special.expit(x @ np.asarray(A).T + np.asarray(b))
    slope = np.asarray(a)[0] * s * (1 - s)
    in_A, in_a, in_b, in_c = slope[:, :, None] * x[:, None, :], s, slope, np.ones((7, 1))

    psi = space_of(riesz.least_squares(riesz.points(x, data=np.zeros(7), weights=np.ones(7))), D, theta).psi
    params = [D.params(direction) for direction in np.eye(theta.size)]  # which parameter each column belongs to
    expected = np.stack(
        [
            np.einsum("mij,ij->m", in_A, p.weights[0])
            + in_a @ np.asarray(p.weights[1])[0]
            + in_b @ np.asarray(p.biases[0])
            + in_c @ np.asarray(p.biases[1]).reshape(1)
            for p in params
        ],
        axis=1,
    )
    np.testing.assert_allclose(psi, expected, rtol=1e-12, atol=1e-14)


NU = riesz.gauss_legendre(0.0, 1.0, 20)
NODES, NU_WEIGHTS = np.asarray(NU.x), np.asarray(NU.weights)
U = np.exp(NODES) / (NU_WEIGHTS @ np.exp(NODES))
"""A density with respect to nu."""
MU = riesz.points(NODES, weights=NU_WEIGHTS * U)


def density(theta):
    """A family that contains u, normalised or not."""
    return lambda x: jnp.exp(theta[0] + theta[1] * x + theta[2] * jnp.sin(x))


DENSITY = jnp.array([0.2, 0.4, -0.3])


def density_rows(theta):
    basis = np.stack([np.ones_like(NODES), NODES, np.sin(NODES)], axis=1)
    v = np.exp(basis @ np.asarray(theta))
    return v, v[:, None] * basis


@jax.jit
def u(x):
    return jnp.exp(x) / (jnp.e - 1)


def test_least_squares_density_estimation_measures_the_distance_to_the_density():
    """Example 2.2 (iii): L(v) - L(u) = 1/2 |v - u|^2 and nabla L(v) = v - u, in L2 of nu."""
    loss = riesz.density_l2(MU, NU)
    v, psi = density_rows(DENSITY)
    np.testing.assert_allclose(loss(density(DENSITY)) - loss(u), NU_WEIGHTS @ (v - U) ** 2 / 2, rtol=1e-11)
    slope = jax.grad(lambda theta: loss(density(theta)))(DENSITY)
    np.testing.assert_allclose(slope, psi.T @ (NU_WEIGHTS * (v - U)), rtol=1e-11)


def test_cross_entropy_measures_the_divergence_from_the_density():
    """Example 2.2 (iv): for normalised v, L(v) - L(u) = D_KL(u || v); and L'(v)(w) = -int w u/v d nu.

    The integral of v over nu, which `density_kl` adds, adds 1 to both losses and int w d nu to the differential. For a
    v that is not normalised it makes the difference the generalised divergence, which is never negative; what is
    printed, the difference without it, is not: a larger v always has a smaller loss.
    """
    loss = riesz.density_kl(MU, NU)
    v, psi = density_rows(DENSITY)
    generalised = NU_WEIGHTS @ (scipy.special.rel_entr(U, v) - U + v)
    np.testing.assert_allclose(loss(density(DENSITY)) - loss(u), generalised, rtol=1e-11)
    slope = jax.grad(lambda theta: loss(density(theta)))(DENSITY)
    np.testing.assert_allclose(slope, psi.T @ (NU_WEIGHTS * (1 - U / v)), rtol=1e-10)

    normalised = v / (NU_WEIGHTS @ v)
    function = riesz.normalised(lambda theta: lambda x: jnp.log(density(theta)(x)), NU)(DENSITY)
    divergence = NU_WEIGHTS @ scipy.special.rel_entr(U, normalised)
    np.testing.assert_allclose(loss(function) - loss(u), divergence, rtol=1e-10)

    printed = riesz.Integral(lambda z: -jnp.log(z), MU)
    assert printed(lambda x: 10 * u(x)) < printed(u) - 2


def curved(v):
    """A v = -v'' + v^3."""
    second = riesz.derivative(riesz.derivative(v))
    return lambda x: -second(x) + v(x) ** 3


@pytest.mark.parametrize("name", ["nhb", "nn2_fd"])
def test_a_residual_is_the_least_squares_loss_of_the_image(name):
    """Example 2.2 (vi): minimising |A v - f|^2 over M is approximating f in A(M), by D~ = A o D; the steps agree."""
    residual = riesz.residual(curved, jnp.sin, riesz.points(X, weights=WEIGHTS))
    image = riesz.least_squares(riesz.points(X, data=np.sin(X), weights=WEIGHTS))
    reformulated = lambda theta: curved(growth(theta))
    a, b = np.asarray(THETA)
    e = np.exp(b * X)
    expected = WEIGHTS @ (-a * b**2 * e + (a * e) ** 3 - np.sin(X)) ** 2  # as printed, without the 1/2
    np.testing.assert_allclose(2 * residual(growth(THETA)), expected, rtol=1e-13)
    np.testing.assert_allclose(2 * image(reformulated(THETA)), expected, rtol=1e-13)
    method = riesz.METHODS[name](filter=NULL)
    state = State(THETA - 0.1, jnp.array([0.1, 0.1]), jnp.asarray(0.2), jnp.asarray(3))
    first = step(method, residual, growth, THETA, state)
    second = step(method, image, reformulated, THETA, state)
    assert np.linalg.norm(first - THETA) > 1e-2
    np.testing.assert_allclose(first, second, rtol=1e-10)


# ------------------------------------------------------------------------ section 3: preconditioned gradients


@pytest.mark.at_once(2)
@pytest.mark.parametrize("name", ["gd", "newton", "ngd", "redundant ngd"])
def test_a_step_minimises_the_penalised_expansion(name):
    """Equations (5) to (10), (13): L(theta_k) + nabla L^T delta + |delta|_M^2/(2s) is stationary, delta shortest.

    M is the identity, the Hessian, or the Gram matrix; where that is singular, of all minimisers the step is the one
    of minimal Euclidean norm, orthogonal to the null space.
    """
    s, D, theta = 0.3, growth, THETA
    if name == "redundant ngd":
        D, theta = redundant, jnp.array([0.5, 0.5, 0.3])
    gradient = jax.grad(lambda theta: REGRESSION(D(theta)))(theta)
    v, psi, _ = growth_rows(np.asarray(THETA))
    psi = psi if theta.size == 2 else psi[:, [0, 1, 0]]
    M = {
        "gd": np.eye(2),
        "newton": np.asarray(jax.hessian(lambda theta: REGRESSION(D(theta)))(theta)),
    }.get(name, psi.T @ (WEIGHTS[:, None] * psi))
    np.testing.assert_allclose(gradient, psi.T @ (WEIGHTS * (v - Y)), rtol=1e-12)

    choices = {} if name == "gd" else {"filter": NULL}
    method = riesz.METHODS[name.split()[-1]](step_size=riesz.Constant(s), **choices)
    delta = np.asarray(step(method, REGRESSION, D, theta) - theta)
    assert np.linalg.norm(delta) > 1e-2
    np.testing.assert_allclose(gradient + M @ delta / s, 0, atol=1e-12)
    if name == "redundant ngd":
        assert np.linalg.matrix_rank(M) == 2
        np.testing.assert_allclose(delta @ [1, 0, -1], 0, atol=1e-12)


class SecondDerivativeError(Exception):
    """Somebody asked for it."""


@jax.custom_jvp
def once(z):
    """tanh, which can be differentiated once."""
    return jnp.tanh(z)


@jax.custom_jvp
def once_slope(z):
    return 1 - jnp.tanh(z) ** 2


@once.defjvp
def _(primals, tangents):
    return once(*primals), once_slope(*primals) * tangents[0]


@once_slope.defjvp
def _(primals, tangents):
    raise SecondDerivativeError


def trace(method, loss):
    """The shape of what a step returns, and whatever its program raises."""
    D, theta = riesz.mlp(jax.random.key(0), (1, 3, 1), activation=once)
    return eqx.filter_eval_shape(take_step, method, loss, D, theta).shape == theta.shape


CLASSIFICATION = riesz.logistic(riesz.points(X, data=(X > 0.3).astype(int)))
NATURAL = ("ngd", "nhb", "nhb_fd", "qnhb", "nn1", "nn1_fd", "qnn1", "nn2", "nn2_fd", "qnn2", "spring")


@pytest.mark.parametrize("name", NATURAL)
@pytest.mark.parametrize("W", [riesz.L2(), riesz.GaussNewton()], ids=["L2", "GaussNewton"])
def test_natural_methods_need_first_derivatives_only(name, W):
    """Remark 3.1: G needs first-order information; Newton's method needs H_D."""
    assert trace(riesz.METHODS[name](W=W), CLASSIFICATION)


@pytest.mark.parametrize("method", [riesz.newton(), riesz.ngd(retraction=riesz.SecondOrder())], ids=["newton", "bent"])
def test_second_derivatives_would_be_noticed(method):
    """The test above on programs that do take them: Newton's method, and the bent retraction."""
    with pytest.raises(SecondDerivativeError):
        trace(method, CLASSIFICATION)


@pytest.mark.parametrize("D, size", [(growth, 2), (redundant, 3)], ids=["full", "redundant"])
def test_the_pseudo_inverse_gives_an_orthonormal_basis(D, size):
    """Equation (14): Q = Lambda_+^(-1/2) U_+^T has Q^T Q = G^+ and an orthonormal Q psi, one function a dimension."""
    theta = jnp.array([0.5, 0.5, 0.3])[:size]
    space = space_of(REGRESSION, D, theta)
    eigenvalues, vectors = np.linalg.eigh(space.gram)
    kept = eigenvalues > 1e-10
    Q = vectors[:, kept].T / np.sqrt(eigenvalues[kept])[:, None]
    phi = np.asarray(space.psi) @ Q.T
    np.testing.assert_allclose(phi.T @ phi, np.eye(2), atol=1e-12)
    pseudo_inverse = np.stack([space.riesz(e) for e in jnp.eye(size)], axis=1)
    np.testing.assert_allclose(pseudo_inverse, Q.T @ Q, rtol=1e-9, atol=1e-10)
    assert int(space.rank) == 2


def test_a_shift_goes_from_natural_to_classical_steps():
    """Section 3.3: a natural gradient step as eps -> 0, and with s ~ eps a classical one as eps -> infinity."""

    def ours(eps, s):
        return step(riesz.ngd(filter=riesz.Shift(eps), step_size=riesz.Constant(s)), REGRESSION, growth, THETA) - THETA

    natural = step(riesz.ngd(filter=NULL, step_size=riesz.Constant(0.3)), REGRESSION, growth, THETA) - THETA
    classical = step(riesz.gd(step_size=riesz.Constant(0.3)), REGRESSION, growth, THETA) - THETA
    np.testing.assert_allclose(ours(1e-9, 0.3), natural, rtol=1e-6)
    np.testing.assert_allclose(ours(1e9, 0.3e9), classical, rtol=1e-6)
    assert np.linalg.norm(natural - classical) > 0.1 * np.linalg.norm(classical)


def test_flooring_splits_the_gradient_in_two():
    """Section 3.3: natural gradient along eigenvectors above eps, 1/eps times the gradient along the others."""
    G = np.asarray(space_of(REGRESSION, growth, THETA).gram)
    eigenvalues, vectors = np.linalg.eigh(G)
    eps = np.sqrt(eigenvalues[0] * eigenvalues[1])
    c = np.asarray(jax.grad(lambda theta: REGRESSION(growth(theta)))(THETA))
    floored, cut = (space_of(REGRESSION, growth, THETA, filter=f(eps)).riesz(c) for f in (riesz.Floor, riesz.Cutoff))
    small, large = vectors.T
    np.testing.assert_allclose(cut, (large @ c) / eigenvalues[1] * large, rtol=1e-10)
    np.testing.assert_allclose(floored - cut, (small @ c) / eps * small, rtol=1e-10)


def test_the_printed_metric_of_cross_entropy_belongs_to_the_reference():
    """Erratum to Example 3.1 (iv): psi_i psi_j u/v^2 integrates over nu, which is psi_i psi_j / v^2 over mu."""
    G = space_of(riesz.density_kl(MU, NU), density, DENSITY, W=riesz.GaussNewton()).gram
    v, psi = density_rows(DENSITY)
    over = lambda weights: psi.T @ (weights[:, None] * psi)
    np.testing.assert_allclose(G, over(NU_WEIGHTS * U / v**2), rtol=1e-10)
    printed = over(NU_WEIGHTS * U * U / v**2)
    assert np.linalg.norm(printed - G) > 0.1 * np.linalg.norm(G)


# ------------------------------------------------------------------------------------- section 4: the flows

FRICTION, TIME = 0.5, 2.0


def gradients(theta):
    """nabla L, the natural gradient G^-1 nabla L, and p -> G^-1 (psi, H_D(p, p)), by hand."""
    v, psi, second = growth_rows(theta)
    G = psi.T @ (WEIGHTS[:, None] * psi)
    plain = psi.T @ (WEIGHTS * (v - Y))
    return plain, np.linalg.solve(G, plain), lambda p: np.linalg.solve(G, psi.T @ (WEIGHTS * second(p)))


def first_order(natural):
    """theta' = -nabla L, or -G^-1 nabla L."""
    return lambda t, theta: -gradients(theta)[int(natural)]


def second_order(natural, curvature):
    """theta' = p and p' = -b p - (gradient) - curvature P_T H_D(p, p).

    With curvature = 1 the functional system: P = psi^T p has dP/dt = psi^T p' + H_D(p, p), so that
    P_T dP/dt = -b P - grad L is p' + G^-1 (psi, H_D(p, p)) = -b p - G^-1 nabla L.
    """

    def flow(t, y):
        theta, p = y[:2], y[2:]
        bent = gradients(theta)[2](p)
        return np.concatenate([p, -FRICTION * p - gradients(theta)[int(natural)] - curvature * bent])

    return flow


FLOWS = {
    "gd": first_order(natural=False),
    "ngd": first_order(natural=True),
    "heavy_ball": second_order(natural=False, curvature=0.0),
    "nhb": second_order(natural=True, curvature=1.0),
    "nhb_fd": second_order(natural=True, curvature=0.5),
    "qnhb": second_order(natural=True, curvature=0.0),
}


def at_the_end(name):
    """theta(TIME) of the flow, from rest."""
    start = np.asarray(THETA) if name in ("gd", "ngd") else np.concatenate([THETA, np.zeros(2)])
    found = scipy.integrate.solve_ivp(FLOWS[name], (0, TIME), start, rtol=1e-11, atol=1e-12)
    return found.y[:2, -1]


def after_steps(name, h):
    """theta after TIME/h steps: alpha = h for the first-order flows, alpha = h^2 and beta = 1 - h b for the others."""
    if name in ("gd", "ngd"):
        choices = {"step_size": riesz.Constant(h)}
    else:
        choices = {"step_size": riesz.Constant(h**2), "beta": 1 - h * FRICTION}
    if name not in ("gd", "heavy_ball"):
        choices["filter"] = NULL
    steps = round(TIME / h)
    return riesz.minimise(
        REGRESSION, growth, THETA, riesz.METHODS[name](**choices), max_steps=steps, progress=False
    ).last


@pytest.mark.at_once(3)
@pytest.mark.parametrize("name", FLOWS)
def test_iterates_follow_their_flow(name):
    """Equations (8), (16), (17) to (19), (22) to (27): the error at a fixed time is of first order in h.

    The sign of the damping in (23), a momentum that is damped, is the one that holds; the line after (23) prints
    another. NHB discretises (23). Propositions 4.1 and 4.2 bound how much QNHB and NHB-FD differ from it in one step,
    by O(h); over a fixed time 1/h such differences add up, so that they follow other flows, with none and with half
    of the curvature term.
    """
    expected = at_the_end(name)
    errors = [np.linalg.norm(after_steps(name, h) - expected) for h in (1 / 200, 1 / 400, 1 / 800)]
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(ratios, 2, atol=0.1)
    assert errors[-1] < 5e-3


def test_the_flows_differ():
    """The test above can tell them apart; and the damping as printed after (23) has another end."""
    ends = [at_the_end(name) for name in FLOWS]
    antidamped = lambda t, y: second_order(True, 1.0)(t, y) + np.concatenate([np.zeros(2), 2 * FRICTION * y[2:]])
    start = np.concatenate([THETA, np.zeros(2)])
    ends.append(scipy.integrate.solve_ivp(antidamped, (0, TIME), start, rtol=1e-9, atol=1e-9).y[:2, -1])
    distances = np.linalg.norm(np.array(ends)[:, None] - np.array(ends), axis=2)
    assert np.min(distances[~np.eye(len(ends), dtype=bool)]) > 2e-2


@pytest.mark.parametrize("offset", [1, 2])
def test_nesterov_follows_its_flow(offset):
    """Equation (20) and its erratum: beta_k = (k-1)/(k+1) has the damping 2/t, and (k-1)/(k+2) has 3/t.

    For L = theta^2/2 from rest at 1 the flows theta'' + (r/t) theta' + theta = 0 end in sin(t)/t for r = 2 and in
    2 J_1(t)/t for r = 3.
    """
    loss = riesz.least_squares(riesz.points([0.0], data=[0.0]))
    D = lambda theta: lambda x: theta[0] + 0 * x
    t = 4.0
    ends = {1: np.sin(t) / t, 2: 2 * scipy.special.j1(t) / t}

    def error(h):
        method = riesz.nesterov(beta=riesz.NesterovMomentum(offset=offset), step_size=riesz.Constant(h**2))
        found = riesz.minimise(loss, D, jnp.ones(1), method, max_steps=round(t / h), progress=False).last
        return abs(float(found[0]) - ends[offset])

    errors = [error(h) for h in (1 / 200, 1 / 400)]
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.1)
    assert errors[1] < 0.05 * abs(ends[1] - ends[2])


@pytest.mark.parametrize(
    "D, theta", [(growth, THETA), (redundant, jnp.array([0.5, 0.5, 0.3]))], ids=["full", "redundant"]
)
def test_the_momentum_is_a_least_squares_solution(D, theta):
    """Equation (37): d_k = argmin_c |P - psi^T c|_X, P the last tangent vector or v_k - v_{k-1}; by NumPy's solver."""
    size = theta.size
    delta = jnp.array([0.1, -0.2, 0.05])[:size]
    last = theta - 0.7 * delta
    state = State(last, delta, jnp.asarray(0.09), jnp.asarray(3))
    root = np.sqrt(WEIGHTS)
    psi, psi_last = (
        np.asarray(jax.jacfwd(lambda theta: jax.vmap(D(theta))(jnp.asarray(X)))(at)) for at in (theta, last)
    )
    v, v_last = (np.asarray(jax.vmap(D(at))(jnp.asarray(X))) for at in (theta, last))
    choices = {"step_size": riesz.Constant(0.09), "filter": NULL}
    still = step(riesz.ngd(**choices), REGRESSION, D, theta, state)
    for name, momentum in (("nhb", psi_last @ delta), ("nhb_fd", v - v_last)):
        expected = np.linalg.lstsq(root[:, None] * psi, root * momentum, rcond=1e-9)[0]
        moved = step(riesz.METHODS[name](beta=1.0, **choices), REGRESSION, D, theta, state)
        np.testing.assert_allclose(moved - still, expected, rtol=1e-8, atol=1e-11)


# ----------------------------------------------------------------------------------- section 5: the figures

HEAVY = ("NHB", "NHB-FD", "QNHB")
BOTH = ("NN-I", "NN-I-FD", "QNN-I", "NN-II", "NN-II-FD", "QNN-II")
CAPTIONS = {
    3: ("mackey-glass", ("NGD", *HEAVY, "NN-II", "NN-II-FD")),
    5: ("extended-xor", ("NGD", "GN-NGD", *HEAVY, "NN-II", "NN-II-FD", "NN-II-FD 0.5")),
    6: (
        "extended-xor",
        ("NGD", "GN-NGD", "GN-NHB", "GN-NHB-FD", "GN-QNHB", "GN-NN-II", "GN-NN-II-FD", "GN-NN-II-FD 0.5"),
    ),
    7: ("advection-diffusion", ("NGD", *HEAVY, "NN-II", "NN-II-FD")),
    8: ("reaction-diffusion", ("NGD", *HEAVY, "NN-II", "NN-II-FD", "NN-II 0.75", "NN-II-FD 0.75")),
    9: ("mackey-glass", ("NGD", *BOTH)),
    10: ("extended-xor", ("NGD", "GN-NGD", *BOTH)),
    11: ("extended-xor", ("NGD", "GN-NGD", *(f"GN-{label}" for label in BOTH))),
}


def named(label):
    """The method that a label means, with W and the scale of its momentum, by the words of the paper."""
    words = label.removeprefix("GN-").split()
    name = words[0].lower().replace("nn-ii", "nn2").replace("nn-i", "nn1").replace("-", "_")
    scale = {} if len(words) == 1 else {"beta": riesz.NesterovMomentum(scale=float(words[1]))}
    return riesz.METHODS[name](W=riesz.GaussNewton() if label.startswith("GN-") else riesz.L2(), **scale)


@pytest.mark.parametrize("number", CAPTIONS)
def test_figures_compare_the_methods_of_their_captions(number):
    """Each figure of the paper has its methods, on its problem, and a label means what the paper says."""
    problem, labels = CAPTIONS[number]
    (figure,) = (figure for figure in FIGURES if figure.problem == problem and set(figure.labels) == set(labels))
    assert figure.part == ("main" if number < 9 else "appendix")
    for label in labels:
        assert eqx.tree_equal(COMPETITORS[label].make(), named(label)), label
