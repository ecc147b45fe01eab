"""The paper's formulas in dense NumPy, written a second time and without the library.

Everything is explicit: hand-written derivatives of a shallow network, Gram and cross-Gram matrices as sums over
points, eigendecompositions, and one function for each definition. Slow, plain, and meant to be read next to the
paper. Names follow it: psi, G, W, X, theta_k, y_k, alpha_k = h_k^2, beta_k, d_k.

Where a derivative is taken numerically it is a complex step, Im f(theta + i h e_j) / h, which is exact to rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# The model class of Example 2.1, D(theta)(x) = a s(A x + b) + c with s = tanh, for q outputs.
# theta = vec(A, a, b, c) with A in R^(k x n), a in R^(q x k), b in R^k, c in R^q.


class Network(NamedTuple):
    inputs: int
    neurons: int
    outputs: int

    @property
    def size(self):
        """d."""
        n, k, q = self
        return k * n + q * k + k + q

    def unpack(self, theta):
        n, k, q = self
        A, a, b, c = np.split(theta, np.cumsum([k * n, q * k, k]))
        return A.reshape(k, n), a.reshape(q, k), b, c

    def pack(self, dA, da, db, dc):
        """The derivatives in A, a, b, c, of shapes (m, p, *), as rows of length d."""
        m, p = db.shape[:2]
        return np.concatenate([part.reshape(m, p, -1) for part in (dA, da, db, dc)], axis=2)


def sigma(s):
    """tanh with its first two derivatives."""
    t = np.tanh(s)
    return t, 1 - t**2, -2 * t * (1 - t**2)


def identity(net, theta, x):
    """z_j = v(x_j) in R^q and psi(x_j) = dz_j/dtheta."""
    A, a, b, c = net.unpack(theta)
    s0, s1, _ = sigma(x @ A.T + b)
    eye = np.eye(net.outputs)
    ones = np.ones(len(x))
    z = s0 @ a.T + c
    dA = np.einsum("qk,mk,mn->mqkn", a, s1, x)
    da = np.einsum("qr,mk->mqrk", eye, s0)
    db = np.einsum("qk,mk->mqk", a, s1)
    dc = np.einsum("qr,m->mqr", eye, ones)
    return z, net.pack(dA, da, db, dc)


def gradient(net, theta, x):
    """z_j = grad v(x_j) in R^(q n), the input's index running fastest, and its derivative in theta."""
    A, a, b, _ = net.unpack(theta)
    _, s1, s2 = sigma(x @ A.T + b)
    m, n, q = len(x), net.inputs, net.outputs
    z = np.einsum("qk,mk,kn->mqn", a, s1, A)
    dA = np.einsum("qk,mk,ml,kn->mqnkl", a, s2, x, A) + np.einsum("qk,mk,ln->mqnkl", a, s1, np.eye(n))
    da = np.einsum("qr,mk,kn->mqnrk", np.eye(q), s1, A)
    db = np.einsum("qk,mk,kn->mqnk", a, s2, A)
    dc = np.zeros((m, q, n, q))
    rows = [part.reshape(m, q * n, -1) for part in (dA, da, db, dc)]
    return z.reshape(m, q * n), net.pack(*rows)


def value_and_gradient(net, theta, x):
    """z_j = (v(x_j), grad v(x_j))."""
    (v, dv), (g, dg) = identity(net, theta, x), gradient(net, theta, x)
    return np.concatenate([v, g], axis=1), np.concatenate([dv, dg], axis=1)


# Densities l(z, y) with l' and l'', for all points at once: z and y have shape (m, p), l'' has shape (m, p, p).


class Density(NamedTuple):
    value: Callable
    slope: Callable
    curvature: Callable


def eye(z):
    """The identity of R^p at every point."""
    m, p = z.shape
    return np.tile(np.eye(p), (m, 1, 1))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def square(r):
    """|r_j|^2, of shape (m, 1)."""
    return np.sum(r**2, axis=1, keepdims=True)


def cauchy_curvature(z, y):
    r, s = z - y, 1 + square(z - y)[:, :, None]
    return eye(z) / s - 2 * np.einsum("mp,mq->mpq", r, r) / s**2


least_squares = Density(
    value=lambda z, y: 0.5 * np.sum((z - y) ** 2, axis=1),
    slope=lambda z, y: z - y,
    curvature=lambda z, y: eye(z),
)
logistic = Density(
    value=lambda z, y: np.sum(np.log(1 + np.exp(z)) - y * z, axis=1),
    slope=lambda z, y: sigmoid(z) - y,
    curvature=lambda z, y: (sigmoid(z) * (1 - sigmoid(z)))[:, :, None] * eye(z),
)
# Not convex: where |z - y| > 1, l'' is negative along z - y.
cauchy = Density(
    value=lambda z, y: 0.5 * np.log(1 + square(z - y))[:, 0],
    slope=lambda z, y: (z - y) / (1 + square(z - y)),
    curvature=cauchy_curvature,
)
linear = Density(
    value=lambda z, y: -np.sum(z * y, axis=1),
    slope=lambda z, y: -y,
    curvature=lambda z, y: 0 * eye(z),
)


class Term(NamedTuple):
    """sum_j w_j l(z_j(theta), y_j), with a factor in front of the term part of its weights."""

    z: Callable
    jac: Callable
    weights: np.ndarray
    density: Density
    data: np.ndarray

    def value(self, theta):
        return self.weights @ self.density.value(self.z(theta), self.data)

    def slope(self, theta):
        return self.density.slope(self.z(theta), self.data)

    def curvature(self, theta):
        return self.density.curvature(self.z(theta), self.data)


# Inner products (f, g) = sum_j w_j (A f)_j^T M_j (A g)_j, as lists of pieces: one for each operator and measure.


class Piece(NamedTuple):
    z: Callable
    jac: Callable
    weights: np.ndarray
    form: Callable
    """theta -> M, of shape (m, p, p)."""


def L2(terms):
    """The identity on the z of every term."""
    return [Piece(t.z, t.jac, t.weights, lambda theta, t=t: eye(t.z(theta))) for t in terms]


def gauss_newton(terms):
    """The functional Hessian at D(theta); negative eigenvalues of l'' count as zero."""

    def positive_part(M):
        eigenvalues, U = np.linalg.eigh(M)
        return np.einsum("mpi,mi,mqi->mpq", U, np.maximum(eigenvalues, 0), U)

    return [Piece(t.z, t.jac, t.weights, lambda theta, t=t: positive_part(t.curvature(theta))) for t in terms]


def cross_gram(inner_product, theta, other):
    """G(theta, other) = (psi(theta), psi(other)^T), the inner product being the one at theta."""
    return sum(
        np.einsum("m,mpi,mpq,mqj->ij", s.weights, s.jac(theta), s.form(theta), s.jac(other)) for s in inner_product
    )


def gram(inner_product, theta):
    """G(theta) = (psi(theta), psi(theta)^T)."""
    return cross_gram(inner_product, theta, theta)


def against_difference(inner_product, theta, last):
    """(psi(theta), D(theta) - D(last))."""
    return sum(
        np.einsum("m,mpi,mpq,mq->i", s.weights, s.jac(theta), s.form(theta), s.z(theta) - s.z(last))
        for s in inner_product
    )


# Filters: the regularised inverse of one eigenvalue.


def cutoff(eigenvalue, eps):
    return 1 / eigenvalue if eigenvalue > eps else 0.0


def shift(eigenvalue, eps):
    return 1 / (eigenvalue + eps)


def floor(eigenvalue, eps):
    return 1 / eigenvalue if eigenvalue > eps else 1 / eps


# Step sizes: from the coefficients g_k of the gradient term to alpha_k.


def constant(alpha):
    return lambda g: alpha


def clipped(alpha):
    return lambda g: min(1 / np.linalg.norm(g), alpha)


class Problem(NamedTuple):
    """A loss with the choices of a method: W and X, how eigenvalues are inverted, how long steps are."""

    terms: list
    W: list
    X: list
    inverse: Callable
    """eigenvalue -> its regularised inverse."""
    step_size: Callable

    def loss(self, theta):
        """L(theta)."""
        return sum(t.value(theta) for t in self.terms)

    def differential(self, at, along):
        """L'(D(at))(psi(along))."""
        return sum(np.einsum("m,mp,mpi->i", t.weights, t.slope(at), t.jac(along)) for t in self.terms)

    def gradient(self, theta):
        """nabla L(theta) = L'(D(theta))(psi(theta))."""
        return self.differential(theta, theta)

    def hessian(self, theta):
        """H_L = G + K, with G_ij = H_L(psi_i, psi_j) not clipped and K_ij = L'(H_D(e_i, e_j))."""
        h, size = 1e-30, theta.size
        G = sum(
            np.einsum("m,mpi,mpq,mqj->ij", t.weights, t.jac(theta), t.curvature(theta), t.jac(theta))
            for t in self.terms
        )
        K = np.zeros((size, size))
        for i, e in enumerate(np.eye(size)):
            for t in self.terms:
                H_D = np.imag(t.jac(theta + 1j * h * e)) / h
                K[i] += np.einsum("m,mp,mpj->j", t.weights, t.slope(theta), H_D)
        return G + K

    def dagger(self, G):
        """The regularised pseudo-inverse, sum_i f(lambda_i) u_i u_i^T."""
        eigenvalues, U = np.linalg.eigh(G)
        return sum(self.inverse(eigenvalue) * np.outer(u, u) for eigenvalue, u in zip(eigenvalues, U.T, strict=True))

    def signed_dagger(self, H):
        """The same for a symmetric matrix: the filter acts on |lambda|, and the sign of lambda survives."""
        eigenvalues, U = np.linalg.eigh(H)
        return sum(
            np.sign(eigenvalue) * self.inverse(abs(eigenvalue)) * np.outer(u, u)
            for eigenvalue, u in zip(eigenvalues, U.T, strict=True)
        )

    def natural_gradient(self, theta):
        """G(theta)^+ nabla L(theta)."""
        return self.dagger(gram(self.W, theta)) @ self.gradient(theta)


# The momentum term h_{k-1} P^X P^(k-1) = psi(theta_k)^T d_k: the two choices of section 4.3, and that of QNHB.


def projected(problem, theta, last):
    """d_k = G_X(theta_k)^+ G_X(theta_k, theta_{k-1}) (theta_k - theta_{k-1})."""
    return problem.dagger(gram(problem.X, theta)) @ cross_gram(problem.X, theta, last) @ (theta - last)


def difference(problem, theta, last):
    """d_k = G_X(theta_k)^+ (psi(theta_k), v_k - v_{k-1})_X."""
    return problem.dagger(gram(problem.X, theta)) @ against_difference(problem.X, theta, last)


def quasi(problem, theta, last):
    """d_k = theta_k - theta_{k-1}."""
    return theta - last


def unresolved(problem, theta, last):
    """d_k = (I - G_W(theta_k)^+ G_W(theta_k)) (theta_k - theta_{k-1}): SPRING's, which is not the paper's."""
    G = gram(problem.W, theta)
    return (theta - last) - problem.dagger(G) @ G @ (theta - last)


# One step of every method: from theta_k, theta_{k-1}, h_{k-1} and beta_k to theta_{k+1} and alpha_k.


def gd(problem, theta, last, h_last, beta):
    """theta_{k+1} = theta_k - alpha_k nabla L(theta_k)."""
    g = problem.gradient(theta)
    alpha = problem.step_size(g)
    return theta - alpha * g, alpha


def heavy_ball(problem, theta, last, h_last, beta):
    """theta_{k+1} = theta_k + beta_k h_k/h_{k-1} (theta_k - theta_{k-1}) - alpha_k nabla L(theta_k)."""
    g = problem.gradient(theta)
    alpha = problem.step_size(g)
    h = np.sqrt(alpha)
    return theta + beta * h / h_last * (theta - last) - alpha * g, alpha


def nesterov(problem, theta, last, h_last, beta):
    """y_k = theta_k + beta_k (theta_k - theta_{k-1}), theta_{k+1} = y_k - alpha_k nabla L(y_k)."""
    y = theta + beta * (theta - last)
    g = problem.gradient(y)
    alpha = problem.step_size(g)
    return y - alpha * g, alpha


def newton(problem, theta, last, h_last, beta):
    """theta_{k+1} = theta_k - alpha_k H_L(theta_k)^-1 nabla L(theta_k)."""
    g = problem.signed_dagger(problem.hessian(theta)) @ problem.gradient(theta)
    alpha = problem.step_size(g)
    return theta - alpha * g, alpha


def ngd(problem, theta, last, h_last, beta):
    """theta_{k+1} = theta_k - alpha_k G^+ nabla L(theta_k)."""
    g = problem.natural_gradient(theta)
    alpha = problem.step_size(g)
    return theta - alpha * g, alpha


def natural_heavy_ball(momentum):
    """theta_{k+1} = theta_k + h_k/h_{k-1} beta_k d_k - alpha_k G^+ nabla L(theta_k)."""

    def step(problem, theta, last, h_last, beta):
        d = momentum(problem, theta, last)
        g = problem.natural_gradient(theta)
        alpha = problem.step_size(g)
        h = np.sqrt(alpha)
        return theta + h / h_last * beta * d - alpha * g, alpha

    return step


def natural_nesterov_1(momentum):
    """y_k = theta_k + beta_k d_k, theta_{k+1} = y_k - alpha_k G(y_k)^+ nabla L(y_k)."""

    def step(problem, theta, last, h_last, beta):
        d = momentum(problem, theta, last)
        y = theta + beta * d
        g = problem.natural_gradient(y)
        alpha = problem.step_size(g)
        return y - alpha * g, alpha

    return step


def natural_nesterov_2(momentum):
    """y_k = theta_k + beta_k d_k, theta_{k+1} = y_k - alpha_k G(theta_k)^+ L'(D(y_k))(psi(theta_k))."""

    def step(problem, theta, last, h_last, beta):
        d = momentum(problem, theta, last)
        y = theta + beta * d
        g = problem.dagger(gram(problem.W, theta)) @ problem.differential(at=y, along=theta)
        alpha = problem.step_size(g)
        return y - alpha * g, alpha

    return step


# Every method with its beta_k, which is 1/2 for heavy balls and (k - 1)/(k + 1) for Nesterov unless said otherwise.


def no_beta(k):
    return 0.0


def heavy_ball_beta(k):
    return 0.5


def spring_beta(k):
    return 0.9


def nesterov_beta(k):
    return (k - 1) / (k + 1)


METHODS = {
    "gd": (gd, no_beta),
    "heavy_ball": (heavy_ball, heavy_ball_beta),
    "nesterov": (nesterov, nesterov_beta),
    "newton": (newton, no_beta),
    "ngd": (ngd, no_beta),
    "nhb": (natural_heavy_ball(projected), heavy_ball_beta),
    "nhb_fd": (natural_heavy_ball(difference), heavy_ball_beta),
    "qnhb": (natural_heavy_ball(quasi), heavy_ball_beta),
    "nn1": (natural_nesterov_1(projected), nesterov_beta),
    "nn1_fd": (natural_nesterov_1(difference), nesterov_beta),
    "qnn1": (natural_nesterov_1(quasi), nesterov_beta),
    "nn2": (natural_nesterov_2(projected), nesterov_beta),
    "nn2_fd": (natural_nesterov_2(difference), nesterov_beta),
    "qnn2": (natural_nesterov_2(quasi), nesterov_beta),
    "spring": (natural_heavy_ball(unresolved), spring_beta),
}


def run(name, problem, theta, steps, beta=None):
    """The iterates theta_2, theta_3, ... of a method from theta_1, with their step sizes and the losses before them."""
    step, default = METHODS[name]
    beta = beta or default
    thetas, alphas, losses = [], [], []
    last, h_last = theta, 1.0  # the first step has no momentum
    for k in range(1, steps + 1):
        losses.append(problem.loss(theta))
        following, alpha = step(problem, theta, last, h_last, beta(k))
        theta, last, h_last = following, theta, np.sqrt(alpha)
        thetas.append(theta)
        alphas.append(alpha)
    return np.array(thetas), np.array(alphas), np.array(losses)
