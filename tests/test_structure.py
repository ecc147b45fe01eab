"""What a step costs, read off its traced program: Jacobians, factorisations, and arrays that must not appear.

The numbers of points, of parameters and of rows are chosen so that a shape tells what an array is.
"""

import collections
import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from compiling import ORDINARY
from programs import inner
from riesz._problem import features

M, D_SIZE, WIDTH = 29, 13, 4
MORE = 17
"""The points of a second term."""
METRIC = 11
"""The points of an inner product with a measure of its own."""

NATURAL = ("ngd", "nhb", "nhb_fd", "qnhb", "nn1", "nn1_fd", "qnn1", "nn2", "nn2_fd", "qnn2", "spring")
CLASSICAL = ("gd", "heavy_ball", "nesterov")


def network(theta):
    """A network with 13 parameters."""
    a, b, c = theta[:WIDTH], theta[WIDTH : 2 * WIDTH], theta[2 * WIDTH : 3 * WIDTH]
    return lambda x: a @ jnp.tanh(b * x + c) + theta[3 * WIDTH]


THETA = jnp.linspace(-1.0, 1.0, D_SIZE)


def regression(m=M):
    x = jnp.linspace(-1.0, 1.0, m)
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x)))


def two_terms():
    return regression() + 2.0 * riesz.residual(riesz.derivative, 0.0, riesz.grid(-1.0, 1.0, MORE))


def classification():
    x = jnp.linspace(-1.0, 1.0, M)
    return riesz.logistic(riesz.points(x, data=(x > 0.2).astype(int)))


class Program:
    """One step of a method, traced."""

    def __init__(self, method, loss, theta=THETA):
        sample = method.draw(loss, network, theta)
        closed, _, _ = eqx.filter_make_jaxpr(method.step)(loss, network, theta, method.init(theta), sample)
        self.equations = list(inner(closed.jaxpr))
        self.count = collections.Counter(equation.primitive.name for equation in self.equations)

    @property
    def factorisations(self):
        """How many QR, SVD and eigenvalue decompositions there are."""
        return tuple(self.count[name] for name in ("geqrf", "svd", "eigh"))

    def outputs(self, primitive=None):
        """The shapes of everything that is computed, or that one primitive computes."""
        for equation in self.equations:
            if primitive in (None, equation.primitive.name):
                yield from (v.aval.shape for v in equation.outvars if hasattr(v.aval, "shape"))


def natural(name, loss=None, **choices):
    return Program(riesz.METHODS[name](**choices), regression() if loss is None else loss)


@functools.cache
def default(name):
    """A step of a method with its defaults, on the regression problem."""
    return natural(name)


def test_the_walk_sees_nested_programs():
    """The counts below would be empty promises if factorisations inside loops and branches went unseen."""

    def nested(a):
        body = lambda i, a: jax.lax.cond(i > 1, lambda a: jnp.linalg.qr(a)[0], lambda a: a, a)
        return jax.jit(lambda a: jax.lax.fori_loop(0, 3, body, a))(a)

    closed = jax.make_jaxpr(nested)(jnp.eye(3))
    assert sum(equation.primitive.name == "qr" for equation in inner(closed.jaxpr)) == 1


@pytest.mark.parametrize("name", (*NATURAL, "auto"))
def test_q_is_never_formed(name):
    """The reflectors of QR are kept, and applied to every right-hand side."""
    counts = Program(riesz.METHODS[name](), two_terms()).count
    assert counts["householder_product"] == counts["qr"] == 0
    assert counts["geqrf"] > 0


@pytest.mark.parametrize("loss", [regression, two_terms])
@pytest.mark.parametrize("name", NATURAL)
def test_factorisations_where_x_is_w(name, loss):
    """Gradient and momentum share one QR and one SVD; NN-I needs them at theta_k and at y_k, QNN-I at y_k only."""
    expected = 2 if name in ("nn1", "nn1_fd") else 1
    assert natural(name, loss()).factorisations == (expected, expected, 0)


@pytest.mark.parametrize("name", NATURAL)
def test_factorisations_where_x_is_not_w(name):
    """A second factorisation only where the transport projects; NN-I has X at theta_k and W at y_k."""
    expected = 1 if name in ("ngd", "qnhb", "qnn1", "qnn2", "spring") else 2
    over = riesz.grid(-1.0, 1.0, METRIC)
    for choices in ({"W": riesz.GaussNewton()}, {"X": riesz.InnerProduct(riesz.derivative, over=over)}):
        assert natural(name, classification(), **choices).factorisations == (expected, expected, 0)


def test_the_same_inner_product_given_twice_is_one():
    for W in (riesz.L2, riesz.GaussNewton, lambda: riesz.InnerProduct(riesz.derivative)):
        assert natural("nhb", classification(), W=W(), X=W()).factorisations == (1, 1, 0)


@pytest.mark.parametrize("name", CLASSICAL)
def test_classical_methods_factorise_nothing(name):
    program = Program(riesz.METHODS[name](), regression())
    assert program.factorisations == (0, 0, 0)
    assert (M, 1, D_SIZE) not in set(program.outputs()), "a gradient needs no Jacobian"


@pytest.mark.parametrize("loss", [regression, two_terms, classification])
def test_auto_factorises_once_for_all_dampings(loss):
    assert Program(riesz.auto(), loss()).factorisations == (1, 1, 0)


JACOBIANS = {
    "ngd": 1,
    "nhb": 1,
    "nhb_fd": 1,
    "nn1": 2,  # at theta_k and at y_k
    "qnn1": 1,  # at y_k alone
    "nn2": 1,
    "spring": 1,
    "gd": 0,
    "newton": 0,
    "auto": 2,  # one, and the JVP of another where the speeds of parameters are due
}


@pytest.mark.parametrize("loss", [regression, two_terms])
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name, loss, monkeypatch):
    """How often rows are assembled in a traced step, for each term of the loss."""
    count, derivative = itertools.count(), features.derivative
    monkeypatch.setattr(features, "derivative", lambda f, theta: (next(count), derivative(f, theta))[1])
    problem = loss()
    Program(riesz.METHODS[name](), problem)
    assert next(count) == JACOBIANS[name] * len(problem.terms)


def test_newton_diagonalises_once():
    assert Program(riesz.newton(), regression()).factorisations == (0, 0, 1)


@pytest.mark.parametrize("name", ["nhb", "nn2"])
def test_gram_diagonalises_once(name):
    program = natural(name, factorisation=riesz.Gram())
    assert program.factorisations == (0, 0, 1)
    assert list(program.outputs("dot_general")).count((D_SIZE, D_SIZE)) == 1


@pytest.mark.parametrize("step_size", [riesz.Armijo(), riesz.GridSearch()], ids=["armijo", "grid"])
@pytest.mark.parametrize("name", ["nhb", "nn1", "nn2"])
def test_line_searches_factorise_nothing(name, step_size):
    expected = 2 if name == "nn1" else 1
    assert natural(name, step_size=step_size).factorisations == (expected, expected, 0)


@pytest.mark.parametrize("name", NATURAL)
def test_no_gram_and_no_cross_gram_matrix(name):
    """No product of two Jacobians: of shape (d, d) are only those of reflectors, one for each factorisation."""
    shapes = list(default(name).outputs("dot_general"))
    assert shapes.count((D_SIZE, D_SIZE)) == default(name).count["geqrf"] > 0


@pytest.mark.parametrize("loss", [regression, two_terms, classification])
@pytest.mark.parametrize("name", (*NATURAL, *CLASSICAL))
def test_no_batch_by_batch_array(name, loss):
    """Differentiating the batch by reverse mode would carry every point against every point: m x m numbers."""
    choices = {"W": riesz.GaussNewton()} if name in NATURAL and loss is classification else {}
    for shape in Program(riesz.METHODS[name](**choices), loss()).outputs():
        assert shape.count(M) <= 1 and shape.count(MORE) <= 1, shape
        assert np.prod(shape) < M * M, shape


def test_the_batch_jacobian_would_be_noticed():
    """The check above on the program that it is meant to refuse."""
    x = jnp.linspace(-1.0, 1.0, M)
    closed = jax.make_jaxpr(jax.jacrev(lambda theta: jax.vmap(network(theta))(x)))(THETA)
    assert any(v.aval.shape.count(M) > 1 for equation in inner(closed.jaxpr) for v in equation.outvars)


@pytest.mark.parametrize("name", ["nhb", "nhb_fd", "qnhb", "nn2", "nn2_fd", "qnn2", "spring"])
def test_momentum_costs_no_jacobian(name):
    """NHB, NN-II and their variants assemble rows of shape (m, p, d) exactly as often as NGD."""
    rows = (M, 1, D_SIZE)
    ngd = list(default("ngd").outputs()).count(rows)
    assert ngd > 0
    assert list(default(name).outputs()).count(rows) == ngd


@pytest.mark.parametrize("name", ["ngd", "nhb", "nhb_fd", "qnhb", "nn1_fd", "qnn2"])
def test_a_second_order_retraction_costs_no_jacobian_and_no_factorisation(name):
    """A nested JVP and a right-hand side: rows and factorisations are those of the straight retraction."""
    rows, straight, bent = (M, 1, D_SIZE), default(name), natural(name, retraction=riesz.SecondOrder())
    assert list(bent.outputs()).count(rows) == list(straight.outputs()).count(rows)
    assert bent.factorisations == straight.factorisations


PASSES = {
    "ngd": 1,  # the Jacobian, which brings the values along
    "nhb": 2,  # the Jacobian, and one JVP at theta_{k-1}
    "nhb_fd": 2,  # the Jacobian, and one forward pass at theta_{k-1}
    "qnhb": 1,
    "nn1": 3,  # two Jacobians and one JVP
    "qnn1": 2,  # one forward pass at theta_k for the history, and the Jacobian at y_k
    "nn2": 3,  # the Jacobian, one JVP, and one forward pass at y_k
    "qnn2": 2,
    "spring": 1,
}


@pytest.mark.at_once(4)
@pytest.mark.parametrize("name", PASSES)
def test_passes_through_the_model(name):
    """Values and Jacobian come out of one pass; each transport adds one, each look ahead one.

    Counted in the compiled program, by the hyperbolic tangents that it evaluates: a pass takes one for every point
    and neuron.
    """
    method, loss = riesz.METHODS[name](), regression()
    sample = method.draw(loss, network, THETA)
    program = jax.jit(lambda theta, state: method.step(loss, network, theta, state, sample))
    cost = program.lower(THETA, method.init(THETA)).compile(ORDINARY).cost_analysis()
    passes, rest = divmod(int(cost["transcendentals"]), M * WIDTH)
    assert passes == PASSES[name]
    assert rest < M, "a few square roots"


@pytest.mark.parametrize("name", ["ngd", "nhb", "nn2"])
def test_the_small_side_is_factorised(name):
    """With fewer rows than parameters nothing of shape (d, d) is made at all."""
    m = 7
    program = Program(riesz.METHODS[name](), regression(m))
    assert program.factorisations == (1, 1, 0)
    assert (D_SIZE, D_SIZE) not in set(program.outputs())
    assert (m, m) in set(program.outputs("svd"))
