"""Many devices: the same numbers, rows that stay where they are, checkpoints that know no mesh."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import riesz
from riesz._linalg.solvers.reflectors import SpreadReflectors
from riesz._running import loop
from riesz._running.prepare import Options, checked_mesh, prepare

SHIFT = riesz.Shift(1e-3)
CHUNK = 16


def mesh_of(count, kind=AxisType.Auto):
    return jax.make_mesh((count,), ("points",), devices=jax.devices()[:count], axis_types=(kind,))


def fit(widths=(1, 8, 1), m=101):
    x = jnp.linspace(-1.0, 1.0, m)
    noise = 0.1 * jax.random.normal(jax.random.key(7), x.shape)
    D, theta = riesz.mlp(jax.random.key(0), widths)
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x) + noise)), D, theta


def poisson(drawn=False):
    """Two terms with different operators and numbers of points, that are no multiples of eight."""
    inside = riesz.monte_carlo([0.0, 0.0], [1.0, 1.0], 45) if drawn else riesz.grid([0.0, 0.0], [1.0, 1.0], 7)
    edge = riesz.points(jnp.stack([jnp.zeros(13), jnp.linspace(0.0, 1.0, 13)], axis=1), data=jnp.zeros(13))
    loss = riesz.residual(riesz.laplacian, lambda x: -jnp.sin(x[0]), inside)
    D, theta = riesz.mlp(jax.random.key(1), (2, 6, 1))
    return loss + 10.0 * riesz.least_squares(edge), D, theta


PROBLEMS = {
    "a fit": fit,
    "rows fewer than parameters": lambda: fit((1, 40, 1)),
    "layers, rows fewer than parameters": lambda: fit((1, 12, 12, 1), 61),
    "two terms": poisson,
    "drawn points": lambda: poisson(drawn=True),
}
SOLVERS = {
    "QRSVD": riesz.QRSVD(),
    "QRSVD, chunks": riesz.QRSVD(CHUNK),
    "Gram": riesz.Gram(),
    "Gram, chunks": riesz.Gram(CHUNK),
    "Cholesky": riesz.Cholesky(),
    "Cholesky, chunks": riesz.Cholesky(CHUNK),
}


def values(problem, theta):
    loss, D, _ = problem
    return [jax.vmap(term.operator(D(theta)))(term.draw_points(jax.random.key(3), D, theta).x) for term in loss.terms]


def distance(problem, first, second):
    """Of two sets of parameters, as functions: relative to the larger."""
    pairs = zip(values(problem, first), values(problem, second), strict=True)
    return max(float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in pairs)


def runs(problem, method, steps, **options):
    key = jax.random.key(5) if problem[0].drawn else None
    return riesz.minimise(*problem, method, max_steps=steps, key=key, progress=False, throw=False, **options)


@pytest.mark.at_once(3)
@pytest.mark.parametrize("count", (1, 2, 8))
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_step_is_the_same_on_any_number_of_devices(name, solver, count):
    problem, method = PROBLEMS[name](), riesz.ngd(filter=SHIFT, factorisation=SOLVERS[solver])
    expected, found = runs(problem, method, 1), runs(problem, method, 1, mesh=mesh_of(count))
    assert distance(problem, found.theta, expected.theta) < 1e-12
    assert found.history["rank"] == expected.history["rank"]


@pytest.mark.at_once(1)
@pytest.mark.parametrize("count", (2, 8))
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", ("nhb", "spring", "nn2", "qnhb"))
def test_twenty_steps_are_the_same(method, name, count):
    problem, method = PROBLEMS[name](), getattr(riesz, method)(filter=SHIFT)
    expected, found = runs(problem, method, 20), runs(problem, method, 20, mesh=mesh_of(count))
    assert distance(problem, found.theta, expected.theta) < 1e-10


@pytest.mark.at_once(1)
@pytest.mark.parametrize("count", (8, 2))
def test_auto(count):
    # Every parameter turns its tangent function. Those that do not, as a last bias, auto scales by 1e-8, so that the
    # rounding of their large columns is 1e-8 of the others.
    waves = lambda p, x: p[0] @ jnp.sin(p[1] * x + p[2])
    problem = fit()[0], *riesz.parametrise(waves, jnp.array([[1.0, 0.5], [2.0, 5.0], [0.3, 0.1]]))
    expected, found = runs(problem, riesz.auto(), 1), runs(problem, riesz.auto(), 1, mesh=mesh_of(count))
    assert distance(problem, found.theta, expected.theta) < 1e-12
    expected, found = runs(problem, riesz.auto(), 1000), runs(problem, riesz.auto(), 1000, mesh=mesh_of(count))
    assert found.result is expected.result and expected.result.converged
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-6)


@pytest.mark.at_once(1)
@pytest.mark.parametrize(
    "kind, shape", ((AxisType.Explicit, (4, 2)), (AxisType.Explicit, (8,)), (AxisType.Auto, (4, 2)))
)
def test_any_mesh_will_do(kind, shape):
    names = ("hosts", "cores")[: len(shape)]
    mesh = jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))
    problem, method = fit(), riesz.nhb(filter=SHIFT)
    expected = runs(problem, method, 3)
    found = runs(problem, method, 3, mesh=mesh)
    assert distance(problem, found.theta, expected.theta) < 1e-12
    with jax.set_mesh(mesh):
        found = runs(problem, method, 3, mesh=mesh)
    assert distance(problem, found.theta, expected.theta) < 1e-12


@pytest.mark.slow
def test_data_on_one_device_are_taken_from_there():
    loss, D, theta = fit()
    theta = jax.device_put(theta, jax.devices()[3])
    found = runs((loss, D, theta), riesz.ngd(filter=SHIFT), 2, mesh=mesh_of(2))
    assert found.steps == 2 and np.isfinite(found.loss)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("operator", (riesz.identity, riesz.gradient))
def test_inner_products_of_their_own(operator):
    problem = fit()
    X = riesz.InnerProduct(operator, over=riesz.grid(-1.0, 1.0, 33))
    method = riesz.nhb(X=X, filter=SHIFT)
    expected, found = runs(problem, method, 5), runs(problem, method, 5, mesh=mesh_of(8))
    assert distance(problem, found.theta, expected.theta) < 1e-11


@pytest.mark.slow
def test_a_residual_vector_stays_whole():
    t = jnp.linspace(0.0, 1.0, 13)
    residual = lambda v: v(t[3]) - jnp.cos(t)
    D, theta = riesz.parametrise(lambda p, x: jnp.exp(p[0] * t) * p[1] + 0 * x, jnp.array([0.3, 0.5]))
    loss = riesz.Loss((riesz.ResidualVector(residual),)) + riesz.least_squares(
        riesz.points(jnp.linspace(0.0, 1.0, 7), data=jnp.ones((7, 13)))
    )
    found, expected = (
        riesz.minimise(loss, D, theta, riesz.ngd(filter=SHIFT), max_steps=3, progress=False, mesh=mesh)
        for mesh in (mesh_of(4), None)
    )
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-12)


class Powers(eqx.Module):
    """A parametrisation that counts by a Python number, which is a leaf of it."""

    count: int

    def __call__(self, theta):
        return lambda x: sum(theta[i] * x**i for i in range(self.count))


def test_numbers_of_python_stay_what_they_are():
    loss, _, _ = fit()
    found = runs((loss, Powers(3), jnp.zeros(3)), riesz.ngd(filter=SHIFT), 2, mesh=mesh_of(2))
    assert found.steps == 2 and np.isfinite(found.loss)


def test_metrics_and_callbacks_see_whole_values():
    loss, D, theta = fit()
    seen = []
    size = lambda theta: jnp.sum(theta**2)
    found = runs((loss, D, theta), riesz.nhb(filter=SHIFT), 8, mesh=mesh_of(8), metrics={"size": size},
                 callback=lambda steps, so_far: seen.append(so_far.theta))  # fmt: skip
    assert all(len(theta.sharding.device_set) == 1 for theta in (*seen, found.theta, found.last))
    np.testing.assert_allclose(found.history["size"][-1], size(found.last), rtol=1e-14)
    assert np.isfinite(jnp.sum(jax.vmap(found.function)(jnp.linspace(0.0, 1.0, 5))))


def test_a_checkpoint_goes_on_with_another_mesh(tmp_path):
    loss, D, theta = fit()
    problem, method = (riesz.least_squares(riesz.minibatch(loss.over, 45)), D, theta), riesz.ngd(filter=SHIFT)
    expected = runs(problem, method, 12)
    begun = runs(problem, method, 5, mesh=mesh_of(8), checkpoint=tmp_path)
    assert begun.steps == 5 and not any("devices" in note for note in begun.notes)
    found = runs(problem, method, 12, mesh=mesh_of(2), checkpoint=tmp_path)
    assert any("8 devices" in note and "with 2" in note for note in found.notes)
    assert distance(problem, found.theta, expected.theta) < 1e-10
    alone = runs(problem, method, 12, checkpoint=tmp_path)
    assert alone.steps == 12 and np.array_equal(alone.theta, found.theta)


# What the compiled program moves between devices. ---------------------------------------------------------------------


def moved(problem, method, count=8):
    """The sizes of what a step sends, by the kind of collective."""
    loss, D, theta = problem
    key = jax.random.key(0) if loss.drawn else None
    options = Options.checked(theta, 1, None, None, None, None, False)
    made, key, _ = prepare(loss, D, theta, method, key, options, None, mesh=checked_mesh(mesh_of(count)))
    carry = loop.start(made, theta, key, mesh=made.mesh)
    tests = loop.Tests(np.nan, dict.fromkeys(loop.TOLERANCES, np.nan), np.asarray(0))
    arrays, rest = eqx.partition((made, carry, key, np.asarray(1), tests), eqx.is_array)
    program = jax.jit(lambda arrays: eqx.filter(loop._advance(*eqx.combine(arrays, rest)), eqx.is_array))
    text = program.lower(arrays).compile().as_text()
    sizes = {}
    for shapes, kind in re.findall(
        r"= (\(?[a-z0-9]+\[[^=]*?) (all-gather|all-reduce|all-to-all|collective-permute)", text
    ):
        for shape in re.findall(r"\[([0-9,]*)\]", shapes):
            size = int(np.prod([int(n) for n in shape.split(",") if n] or [1]))
            sizes[kind] = max(sizes.get(kind, 0), size)
    return sizes


def tall():
    return fit((1, 8, 1), 4000)


@pytest.mark.at_once(2)
@pytest.mark.parametrize("solver", ("Gram", "Gram, chunks", "Cholesky, chunks", "Cholesky"))
def test_a_gram_matrix_is_one_sum_and_no_row_is_gathered(solver):
    problem = tall()
    d = problem[2].size
    sizes = moved(problem, riesz.ngd(filter=SHIFT, factorisation=SOLVERS[solver]))
    assert sizes.get("all-reduce", 0) >= d * d
    assert sizes.get("all-gather", 0) + sizes.get("all-to-all", 0) < 4000
    assert sizes.get("collective-permute", 0) < 4000


@pytest.mark.parametrize("chunk", (None, CHUNK))
def test_the_factor_R_is_found_without_gathering_rows(chunk):
    problem = tall()
    d = problem[2].size
    sizes = moved(problem, riesz.ngd(filter=SHIFT, factorisation=riesz.QRSVD(chunk)))
    assert max(sizes.values()) <= 8 * d * d, sizes


def test_two_terms_stay_on_their_devices():
    loss, D, theta = poisson()
    sizes = moved((loss, D, theta), riesz.ngd(filter=SHIFT, factorisation=riesz.Gram()))
    assert sizes.get("all-gather", 0) < theta.size, sizes


@pytest.mark.slow
def test_a_kernel_matrix_is_a_sum_over_parameters():
    problem = fit((1, 400, 1), 16)
    sizes = moved(problem, riesz.ngd(filter=SHIFT, factorisation=riesz.Gram()))
    assert sizes.get("all-gather", 0) < 16 * problem[2].size / 2, sizes


# The parts. -----------------------------------------------------------------------------------------------------------


@pytest.mark.at_once(1)
@pytest.mark.parametrize("shape", ((61, 5), (64, 5), (24, 20)))
def test_spread_reflectors_are_a_QR_factorisation(shape):
    mesh = checked_mesh(mesh_of(8))
    A = jax.random.normal(jax.random.key(0), shape)
    x = A[:, 0] ** 2

    @jax.jit
    def products(A):
        Q, R = SpreadReflectors.of(A, mesh)
        return R, Q.array(), Q.transposed(x), Q @ R[:, :2]

    R, dense, inside, outside = products(A)
    np.testing.assert_allclose(dense @ R, A, atol=1e-13)
    np.testing.assert_allclose(dense.T @ dense, np.eye(shape[1]), atol=1e-13)
    np.testing.assert_allclose(inside, dense.T @ x, atol=1e-13)
    np.testing.assert_allclose(outside, dense @ R[:, :2], atol=1e-13)


def test_the_fingerprint_knows_no_mesh():
    problem = fit()
    options = Options.checked(problem[2], 1, None, None, None, None, False)
    made, _, _ = prepare(*problem, None, None, options, None, mesh=checked_mesh(mesh_of(8)))
    assert made.mesh is not None and dataclasses.replace(made, mesh=None).mesh is None


def test_mistakes_are_told():
    loss, D, theta = fit()
    with pytest.raises(TypeError, match="mesh must be a mesh"):
        riesz.minimise(loss, D, theta, mesh=8)
    with pytest.raises(ValueError, match="minimise_many"):
        riesz.minimise_many(loss, D, theta[None], mesh=mesh_of(2))
