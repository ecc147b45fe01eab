"""Kernel matrices layer by layer: those of the rows, whatever way parameters enter, though no rows are stored."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._geometry import layered
from riesz._geometry.assembly import Chunked, rows_of
from riesz._geometry.inner_products import L2, GaussNewton
from riesz._geometry.layers import plan
from riesz._geometry.linearise import linearise
from riesz._linalg.solvers import DEFAULT
from riesz._problem.features import features
from riesz._running.shape import LARGE, WIDE, by_shape

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (9, 3))
VALUES = riesz.least_squares(riesz.points(X, data=jnp.sin(X[:, 0]), weights=jnp.linspace(0.1, 1.0, 9)))
GRADIENT = riesz.residual(riesz.gradient, 0.0, riesz.points(X))
LAPLACIAN = riesz.residual(riesz.laplacian, 1.0, riesz.points(X))
CLASSES = riesz.softmax(riesz.points(X, data=jnp.arange(9) % 4))

SCALAR = riesz.mlp(KEY, (3, 12, 12, 1))
VECTOR = riesz.mlp(KEY, (3, 12, 12, 4))


def parametrised(apply, **shapes):
    keys = jax.random.split(KEY, len(shapes))
    params = {name: jax.random.normal(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}
    return riesz.parametrise(apply, params)


from_the_left = parametrised(lambda p, x: jnp.tanh(x @ p["a"] + p["b"]) @ p["c"], a=(3, 16), b=(16,), c=(16,))
transposed = parametrised(lambda p, x: jnp.sum(jnp.tanh(p["a"].T @ jnp.tanh(p["a"] @ x))), a=(16, 3))
tensor = parametrised(lambda p, x: jnp.sum(jnp.tanh(jnp.einsum("abi,i->ab", p["a"], x)) ** 2), a=(4, 5, 3))
entries = parametrised(
    lambda p, x: jnp.tanh(p["a"] @ x) @ p["c"] + jnp.sum(p["small"] ** 2) * x[0], a=(16, 3), c=(16,), small=(2, 3)
)
part = parametrised(
    lambda p, x: jnp.sum(jnp.tanh(p["a"] @ x)) + jnp.sum(p["a"][:2] @ x) + jnp.sum(jnp.tanh(p["b"] @ x)),
    a=(4, 3), b=(20, 3),
)  # fmt: skip
waves = parametrised(
    lambda p, x: jnp.real(jnp.sum((p["c"] @ jnp.exp(1j * jnp.tanh(p["a"] @ x))) ** 2)), a=(16, 3), c=(1, 16)
)
empty = parametrised(
    lambda p, x: jnp.sum(jnp.tanh(p["a"] @ x)) + jnp.sum(p["b"][:, :0] @ x[:0]) + jnp.sum(p["none"] @ x),
    a=(16, 3), b=(2, 3), none=(0, 3),
)  # fmt: skip
CASES = {
    "values": (VALUES, *SCALAR, L2(), 3),
    "gradient": (GRADIENT, *SCALAR, L2(), 3),
    "Laplacian": (LAPLACIAN, *SCALAR, L2(), 2),
    "two terms": (LAPLACIAN + VALUES, *SCALAR, L2(), 2),
    "several outputs": (GRADIENT, *VECTOR, L2(), 3),
    "classes": (CLASSES, *VECTOR, GaussNewton(), 3),
    "products from the left": (VALUES, *from_the_left, L2(), 2),
    "a matrix and its transpose": (VALUES, *transposed, L2(), 1),
    "a tensor": (VALUES, *tensor, L2(), 1),
    "parameters that enter otherwise": (VALUES, *entries, L2(), 2),
    "a matrix of which a part is used again": (VALUES, *part, L2(), 1),
    "a real matrix times complex values": (VALUES, *waves, L2(), 1),
    "empty matrices": (VALUES, *empty, L2(), 1),
}


def by_layers(D, theta, blocks, chunk=4):
    how = plan(D, theta, [(block.operator, block.over.x) for block in blocks])
    assert how is not None
    return layered.Layered.of(Chunked(D, theta, blocks, chunk), theta, blocks, how, chunk)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


@pytest.mark.at_once(3)
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_is_that_of_the_rows(case):
    loss, D, theta, metric, matrices = CASES[case]
    at = linearise(loss, D, theta, riesz.ngd().draw(loss, D, theta))
    blocks = metric.blocks(at, None)
    psi, expected = by_layers(D, theta, blocks), rows_of(D, theta, blocks, None)
    assert len(psi.how.matrices) == matrices
    found = jax.jit(lambda theta: by_layers(D, theta, blocks).kernel())(theta)
    close(found, expected.kernel())


@pytest.mark.at_once(3)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chunk", [4, 1000])
def test_products_are_those_of_the_rows(case, chunk):
    """Also where the rows of a matrix with many columns are held, because all points are within a chunk."""
    loss, D, theta, metric, _ = CASES[case]
    at = linearise(loss, D, theta, riesz.ngd().draw(loss, D, theta))
    blocks = metric.blocks(at, None)
    expected = rows_of(D, theta, blocks, None)
    rows, d = expected.shape
    several = jax.random.normal(KEY, (rows, 2)), jax.random.normal(KEY, (d, 2))

    def products(theta):
        psi, (r, delta) = by_layers(D, theta, blocks, chunk), several
        one = psi @ delta[:, 0], psi.T @ r[:, 0]
        return *one, psi @ delta, psi.T @ r, psi.kernel(), psi.array(), psi.norms()

    r, delta = several
    known = expected @ delta, expected.T @ r, expected.kernel(), expected.array(), expected.norms()
    for found, wanted in zip(jax.jit(products)(theta), (known[0][:, 0], known[1][:, 0], *known), strict=True):
        close(found, wanted)


def test_rows_for_some_outputs_at_a_time(monkeypatch):
    """Where a matrix has many columns at a point, its rows are assembled, but not all at once."""
    loss, D, theta, metric, _ = CASES["Laplacian"]
    at = linearise(loss, D, theta, riesz.ngd().draw(loss, D, theta))
    blocks = metric.blocks(at, None)
    expected = rows_of(D, theta, blocks, None).kernel()
    monkeypatch.setattr(layered, "NUMBERS", 9 * 12 * 5)  # five of twelve outputs
    for chunk in (4, 1000):
        close(by_layers(D, theta, blocks, chunk).kernel(), expected)


def until_small(y):
    return jax.lax.while_loop(lambda y: jnp.max(jnp.abs(y)) > 0.5, lambda y: 0.9 * jnp.sin(y), y)


@pytest.mark.parametrize(
    "model",
    [
        lambda theta: lambda x: jnp.sum(jnp.convolve(theta, x)),
        lambda theta: lambda x: jnp.sum(jnp.tanh(theta.reshape(10, 2) * x[0])),
        lambda theta: lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.tanh(theta[:9].reshape(3, 3) @ y), x)[0],
        lambda theta: lambda x: jnp.sum(until_small(theta[:18].reshape(6, 3) @ x)),
    ],
    ids=["convolution", "entry by entry", "a loop", "a loop of unknown length"],
)
def test_a_model_without_matrix_products_has_no_layers(model):
    assert plan(model, jnp.ones(20), [(riesz.identity, X)]) is None


FILTERS = {"Shift": riesz.Shift(1e-3), "Floor": riesz.Floor(1e-3), "Cutoff": riesz.Cutoff(1e-3)}
RUNS = [("spring", "Shift"), *((name, filter) for name in ("ngd", "nhb", "nn2", "qnhb") for filter in FILTERS)]


@pytest.mark.at_once(3)
@pytest.mark.parametrize(("name", "filter"), RUNS)
def test_a_run_without_rows_is_the_run_with_them(name, filter):
    filter = FILTERS[filter]
    unstored = riesz.Cholesky(4) if isinstance(filter, riesz.Shift) else riesz.Gram(4)
    found = []
    for solver in (riesz.QRSVD(), unstored):
        method = riesz.METHODS[name](filter=filter, factorisation=solver)
        found.append(riesz.minimise(VALUES, *SCALAR, method, max_steps=5, progress=False))
    np.testing.assert_allclose(*(solution.history["loss"] for solution in found), rtol=1e-9)


@pytest.mark.parametrize("solver", [riesz.Cholesky(4), riesz.ConjugateGradients(tolerance=1e-12)], ids=str)
def test_a_loop_of_unknown_length_after_a_matrix_product(solver):
    D, theta = parametrised(lambda p, x: p["c"] @ until_small(p["a"] @ x), a=(12, 3), c=(12,))
    runs = [
        riesz.minimise(VALUES, D, theta, riesz.ngd(filter=riesz.Shift(1e-3), factorisation=each), max_steps=2)
        for each in (riesz.QRSVD(), solver)
    ]
    np.testing.assert_allclose(*(run.history["loss"] for run in runs), rtol=1e-9)


def test_rows_are_counted_as_they_are():
    """Those of a residual vector once, and none of a linear density under Gauss-Newton."""
    D, theta = riesz.mlp(KEY, (3, 100, 100, 1))
    x, method = jax.random.normal(KEY, (300, 3)), riesz.ngd(filter=riesz.Shift(1e-3), W=riesz.GaussNewton())
    assert x.shape[0] * theta.size < WIDE < x.shape[0] ** 2 * theta.size
    vector = riesz.ResidualVector(lambda v: jax.vmap(v)(x))
    assert by_shape(vector, D, theta, method, None).solver == DEFAULT
    linear = riesz.Integral(lambda z, _: z, riesz.points(jnp.tile(x, (10, 1))))
    fit = riesz.least_squares(riesz.points(x[:50], data=x[:50, 0]))
    assert by_shape(fit + linear, D, theta, method, None).solver == DEFAULT
    assert by_shape(fit + linear, D, theta, riesz.ngd(filter=riesz.Shift(1e-3)), None).solver != DEFAULT


def test_large_rows_are_not_stored_where_nobody_chose_a_solver():
    D, theta = riesz.mlp(KEY, (3, 110, 110, 110, 1), init="glorot")
    x = jax.random.normal(KEY, (1000, 3))
    loss = riesz.least_squares(riesz.points(x, data=x[:, 0]))
    assert x.shape[0] * theta.size > LARGE
    method = riesz.ngd(filter=riesz.Shift(1e-3))
    solution = riesz.minimise(loss, D, theta, method, max_steps=1, progress=False)
    assert "Cholesky" in " ".join(solution.notes)
    assert solution.loss < solution.history["loss"][0]
    assert solution.history["solver_residual"][0] < 1e-12


@pytest.mark.at_once(1)
@pytest.mark.parametrize("case", CASES)
def test_norms_and_turning_are_those_of_the_rows(case):
    loss, D, theta, metric, _ = CASES[case]
    at = linearise(loss, D, theta, riesz.ngd().draw(loss, D, theta), rows=False, chunk=4)
    blocks = metric.blocks(at, None)
    psi, direction = by_layers(D, theta, blocks), jnp.cos(jnp.arange(theta.size))
    rows = lambda theta: jnp.concatenate(
        [block.weigh(features(D, block.operator, theta, block.over.x).jacobians) for block in blocks]
    )
    norms = jax.jit(lambda theta: by_layers(D, theta, blocks).norms())(theta)
    np.testing.assert_allclose(norms**2, jnp.sum(rows(theta) ** 2, axis=0), atol=1e-12)
    turned = jax.jit(lambda theta: jax.jvp(rows, (theta,), (direction,))[1])(theta)
    found = jax.jit(lambda theta: by_layers(D, theta, blocks).turned(direction))(theta)
    np.testing.assert_allclose(found, jnp.sum(turned**2, axis=0), rtol=1e-9, atol=1e-9 * float(jnp.max(found)))
    psi, scale = psi.in_coordinates(jnp.exp(jnp.sin(jnp.arange(theta.size))))
    np.testing.assert_allclose(psi.in_coordinates(scale)[1], scale, rtol=1e-12)
    scaled = rows(theta) / scale[None, :]
    np.testing.assert_allclose(psi.scaled(scale).kernel(), scaled @ scaled.T, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(psi.scaled(scale).array(), scaled, rtol=1e-9, atol=1e-11)
    other = rows(theta) * jnp.arange(1.0, 1 + theta.size)[None, :]
    unlike = by_layers(D, theta, blocks).scaled(1 / jnp.arange(1.0, 1 + theta.size))
    np.testing.assert_allclose(unlike.kernel(), other @ other.T, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_auto_on_layers_does_not_see_units_of_inputs_outputs_and_layers():
    x = jax.random.uniform(KEY, (20, 3))
    network = lambda p, x: p["c"] @ jnp.tanh(p["b"] @ jnp.tanh(p["a"] @ x))
    D, theta = parametrised(network, a=(8, 3), b=(8, 8), c=(8,))
    a, b, c = 10.0 ** jnp.array([3.0, -2.0, 5.0]), 1e4, 1e-3  # units of inputs, of a layer, of the output
    scaled = lambda p, x: c * p["c"] @ jnp.tanh(b * (p["b"] @ jnp.tanh(p["a"] @ (a * x))))
    params = D.params(theta)
    E, eta = riesz.parametrise(scaled, {"a": params["a"] / a[None, :], "b": params["b"] / b, "c": params["c"] / c})
    over = riesz.points(x, data=jnp.sin(x[:, 0]))
    solve = lambda D, theta: riesz.minimise(
        riesz.least_squares(over), D, theta, riesz.auto(factorisation=riesz.Cholesky(8)), max_steps=3, progress=False
    )
    first, second = solve(D, theta), solve(E, eta)
    values = [jax.vmap(found.function)(x) for found in (first, second)]
    np.testing.assert_allclose(*values, rtol=1e-6)
