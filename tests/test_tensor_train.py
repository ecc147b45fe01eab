"""Tensor trains against dense tensors, their retraction against dense truncation, and paths that see no gauge."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz._methods.truncation import truncated

key = jax.random.key(0)
LEGENDRE, FOURIER = riesz.Legendre(-1.0, 3.0, 4), riesz.Fourier(0.0, 2.0, 5)


def train(seed=0, ranks=(2, 3), features=(LEGENDRE, FOURIER, LEGENDRE)):
    return riesz.tensor_train(jax.random.key(seed), ranks, features)


def dense(cores):
    """The tensor of coefficients, all cores contracted."""
    tensor = np.asarray(cores[0])[0]
    for core in cores[1:]:
        tensor = np.tensordot(tensor, np.asarray(core), 1)
    return tensor[..., 0]


def dense_tangent(cores, steps):
    """sum_i C_1 ... dC_i ... C_n, term by term."""
    return sum(dense([*cores[:i], step, *cores[i + 1 :]]) for i, step in enumerate(steps))


def tt_svd(tensor, ranks):
    """The tensor truncated by one SVD after another, with nothing but reshapes of full tensors."""
    sizes, left, cores, rest = tensor.shape, 1, [], tensor
    for size, rank in zip(sizes[:-1], ranks, strict=True):
        U, s, Vt = np.linalg.svd(rest.reshape(left * size, -1), full_matrices=False)
        cores.append(U[:, :rank].reshape(left, size, rank))
        rest, left = s[:rank, None] * Vt[:rank], rank
    return dense([*cores, rest.reshape(left, sizes[-1], 1)])


def polynomials(t, size, low=-1.0, high=3.0, derivative=0):
    """Orthonormal Legendre polynomials by NumPy."""
    scale = np.sqrt(2 * np.arange(size) + 1)
    domain = dict(domain=[low, high])
    return np.stack(
        [scale[k] * np.polynomial.Legendre.basis(k, **domain).deriv(derivative)(t) for k in range(size)], axis=-1
    )


def waves(t, size, period=2.0, derivative=0):
    """The first of 1, cos, sin, cos 2, sin 2, ..., orthonormal; the n-th derivative is a shift by n quarter turns."""
    frequencies = 2 * np.pi * ((np.arange(size) + 1) // 2) / period
    shifts = np.where(np.arange(size) % 2 == 1, 0.0, -np.pi / 2) + derivative * np.pi / 2
    values = np.sqrt(2) * frequencies**derivative * np.cos(np.asarray(t)[..., None] * frequencies + shifts)
    values[..., 0] = 1.0 if derivative == 0 else 0.0
    return values


class TestBases:
    @pytest.mark.parametrize("size", [1, 2, 3, 8])
    @pytest.mark.parametrize(("cls", "oracle"), [(riesz.Legendre, polynomials), (riesz.Fourier, waves)])
    def test_follow_their_formulas(self, cls, oracle, size):
        basis = cls(-1.0, 3.0, size) if cls is riesz.Legendre else cls(0.0, 2.0, size)
        t = np.linspace(-0.9, 2.7, 11)
        found = jax.vmap(basis)(t)
        np.testing.assert_allclose(found, oracle(t, size), atol=1e-13)
        slope = jax.vmap(riesz.derivative(basis))(t)
        np.testing.assert_allclose(slope, oracle(t, size, derivative=1), atol=1e-11)

    def test_are_orthonormal_in_the_mean(self):
        nodes, weights = np.polynomial.legendre.leggauss(12)
        values = np.asarray(jax.vmap(riesz.Legendre(-1.0, 3.0, 9))(2 * nodes + 1))
        np.testing.assert_allclose(values.T @ (weights[:, None] / 2 * values), np.eye(9), atol=1e-13)
        values = np.asarray(jax.vmap(riesz.Fourier(0.0, 2.0, 9))(np.arange(30) / 15))
        np.testing.assert_allclose(values.T @ values / 30, np.eye(9), atol=1e-13)

    def test_of_integers_and_in_single_precision(self):
        assert riesz.Legendre(-1, 1, 3)(0.5).dtype == jnp.float64
        assert riesz.Fourier(0, 1, 3)(jnp.float32(0.5)).dtype == jnp.float32


class TestTrain:
    def test_is_the_dense_tensor_on_a_grid(self):
        D, theta = train()
        axes = np.linspace(-1, 3, 5), np.linspace(0, 2, 4), np.linspace(-1, 3, 3)
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        features = polynomials(axes[0], 4), waves(axes[1], 5), polynomials(axes[2], 4)
        expected = np.einsum("abc,ia,jb,kc->ijk", dense(D.params(theta)), *features)
        np.testing.assert_allclose(jax.vmap(D(theta))(mesh).reshape(5, 4, 3), expected, atol=1e-12)

    def test_takes_operators(self):
        D, theta = train()
        x = np.array([0.3, 0.4, 2.0])
        orders = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2]])
        parts = lambda order: (
            polynomials(x[0], 4, derivative=order[0]),
            waves(x[1], 5, derivative=order[1]),
            polynomials(x[2], 4, derivative=order[2]),
        )
        expected = sum(np.einsum("abc,a,b,c", dense(D.params(theta)), *parts(order)) for order in orders)
        np.testing.assert_allclose(jax.jit(riesz.laplacian(D(theta)))(x), expected, rtol=1e-11)

    def test_its_own_laplacian_is_the_carried_one(self):
        """Of neighbours alike, which go through the loop, and not, in one dimension, and row by row."""
        for ranks, features in (((2, 3), train()[0].bases), ((3,) * 5, LEGENDRE), ((1, 1), FOURIER), ((), LEGENDRE)):
            D, theta = riesz.tensor_train(key, ranks, features)
            x = jnp.linspace(0.3, 1.9, len(ranks) + 1)
            own = lambda theta, D=D, x=x: riesz.laplacian(D(theta))(x)
            carried = lambda theta, D=D, x=x: riesz.laplacian(lambda x: D(theta)(x))(x)  # this function knows none
            assert hasattr(D(theta), "own_laplacian")
            np.testing.assert_allclose(own(theta), carried(theta), rtol=1e-11)
            rows = jax.grad(own)(theta), jax.grad(carried)(theta)
            np.testing.assert_allclose(*rows, atol=1e-11 * np.abs(rows[1]).max())

    def test_of_one_dimension_is_linear_and_takes_scalars(self):
        D, theta = riesz.tensor_train(key, (), LEGENDRE)
        np.testing.assert_allclose(D(theta)(0.5), polynomials(0.5, 4) @ np.asarray(theta), rtol=1e-13)
        assert D(theta)(jnp.array([0.5])) == D(theta)(0.5)

    def test_its_parameters_are_its_cores(self):
        D, theta = train()
        assert [core.shape for core in D.params(theta)] == [(1, 4, 2), (2, 5, 3), (3, 4, 1)]
        np.testing.assert_array_equal(np.concatenate([np.ravel(core) for core in D.params(theta)]), theta)
        assert D.ranks == (2, 3)

    def test_starts_with_mean_square_one(self):
        n = 400
        D, _ = train()
        thetas = jax.vmap(lambda k: riesz.tensor_train(k, (2, 3), D.bases)[1])(jax.random.split(key, n))
        squares = np.array([np.sum(dense(D.params(theta)) ** 2) for theta in np.asarray(thetas)])
        assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(n)
        assert 4 * squares.std() / np.sqrt(n) < 0.5

    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_starts_neither_vanish_nor_explode_in_many_dimensions(self, rank):
        """The mean square over the box, exactly: products of Gram matrices of the cores."""
        for n in (10, 100):
            D, _ = riesz.tensor_train(key, (rank,) * (n - 1), riesz.Legendre(0.0, 1.0, 3))
            gram = np.ones((20, 1, 1))
            for core in jax.vmap(D.params)(jax.vmap(D.start)(jax.random.split(key, 20))):
                gram = np.einsum("sab,sakc,sbkd->scd", gram, core, core)
            assert 1e-2 < np.median(gram) < 1e1
            assert np.max(gram) < 1e2

    def test_the_gauge_is_the_null_space_of_its_tangent_system(self):
        D, theta = train()
        x = jax.random.uniform(key, (200, 3))
        loss = riesz.residual(riesz.identity, 0.0, riesz.points(x))
        rank = jax.jit(lambda theta: riesz.tangent_space(loss, D, theta, filter=riesz.Cutoff(1e-12)).rank)
        assert rank(theta) == theta.size - 2**2 - 3**2


@eqx.filter_jit
def retract(D, theta, delta):
    """Where the retraction leads; it asks the linearisation for nothing but theta."""
    return riesz.Truncation(D)(types.SimpleNamespace(theta=theta), None, delta)


def gauged(D, theta, seed=3):
    """The same function with random matrices, singular values in [1/2, 2], put between its cores and taken out."""
    cores, rng = [np.asarray(core) for core in D.params(theta)], np.random.default_rng(seed)
    for i, rank in enumerate(D.ranks):
        U, V = (np.linalg.qr(rng.normal(size=(rank, rank)))[0] for _ in range(2))
        matrix = U * rng.uniform(0.5, 2.0, rank) @ V
        cores[i] = np.tensordot(cores[i], matrix, 1)
        cores[i + 1] = np.tensordot(np.linalg.inv(matrix), cores[i + 1], 1)
    return jnp.concatenate([jnp.ravel(core) for core in cores])


class TestTruncation:
    def displaced(self, size=1.0, **options):
        D, theta = train(**options)
        delta = size * jax.random.normal(jax.random.key(7), theta.shape)
        full = dense(D.params(theta)) + dense_tangent(D.params(theta), D.params(delta))
        return D, theta, delta, full

    def test_is_the_best_approximation_in_two_dimensions(self):
        D, theta, delta, full = self.displaced(ranks=(2,), features=(LEGENDRE, FOURIER))
        U, s, Vt = np.linalg.svd(full)
        landed = dense(D.params(retract(D, theta, delta).theta))
        np.testing.assert_allclose(landed, U[:, :2] * s[:2] @ Vt[:2], atol=1e-13 * s[0])
        assert s[2] > 1e-2 * s[0], "something is cut"

    @pytest.mark.parametrize("ranks", [(2, 3), (1, 1), (4, 4), (2, 3, 2)])
    def test_is_the_dense_truncation(self, ranks):
        features = (LEGENDRE, FOURIER, LEGENDRE, FOURIER)[: len(ranks) + 1]
        D, theta, delta, full = self.displaced(ranks=ranks, features=features)
        landed = dense(D.params(retract(D, theta, delta).theta))
        np.testing.assert_allclose(landed, tt_svd(full, ranks), atol=1e-12 * np.abs(full).max())

    def test_of_one_dimension_adds(self):
        D, theta = riesz.tensor_train(key, (), LEGENDRE)
        np.testing.assert_array_equal(retract(D, theta, 2 * theta).theta, 3 * theta)

    def test_says_what_it_took(self):
        D, theta, delta, _ = self.displaced()
        landing = retract(D, theta, delta)
        np.testing.assert_array_equal(landing.delta, delta)
        assert (landing.scale, landing.bending) == (1, 0)

    def test_of_zero_is_the_function_itself(self):
        D, theta = train()
        landed = retract(D, theta, jnp.zeros_like(theta)).theta
        np.testing.assert_allclose(dense(D.params(landed)), dense(D.params(theta)), atol=1e-14)

    def test_all_cores_but_the_last_have_orthonormal_columns(self):
        D, theta, delta, _ = self.displaced()
        for core in D.params(retract(D, theta, delta).theta)[:-1]:
            columns = np.asarray(core).reshape(-1, core.shape[2])
            np.testing.assert_allclose(columns.T @ columns, np.eye(core.shape[2]), atol=1e-14)

    def test_leaves_the_tangent_at_second_order(self):
        D, theta, delta, _ = self.displaced()
        cores = D.params(theta)
        tangent, sizes = dense_tangent(cores, D.params(delta)), np.array([1e-2, 1e-3, 1e-4])

        def miss(t):
            landed = dense(D.params(retract(D, theta, t * delta).theta))
            return np.linalg.norm(landed - dense(cores) - t * tangent) / np.linalg.norm(tangent)

        slopes = np.diff(np.log10([miss(t) for t in sizes])) / np.diff(np.log10(sizes))
        np.testing.assert_allclose(slopes, 2, atol=0.1)

    def test_depends_on_functions_alone(self):
        """The same v and the same tangent vector in another gauge: the same landing."""
        D, theta, delta, full = self.displaced()
        other = gauged(D, theta)
        basis = np.asarray(jax.jacfwd(lambda theta: jnp.ravel(self.contract(D.params(theta))))(other))
        tangent = full - dense(D.params(theta))
        moved, *_ = np.linalg.lstsq(basis, tangent.ravel(), rcond=1e-12)
        first = dense(D.params(retract(D, theta, delta).theta))
        second = dense(D.params(retract(D, other, jnp.asarray(moved)).theta))
        np.testing.assert_allclose(second, first, atol=1e-11 * np.abs(first).max())

    def contract(self, cores):
        tensor = cores[0][0]
        for core in cores[1:]:
            tensor = jnp.tensordot(tensor, core, 1)
        return tensor[..., 0]

    def test_a_small_displacement_is_a_small_step_in_parameters(self):
        """Once cores are orthonormal; so that the tolerance of `minimise` can be met."""
        D, theta, delta, _ = self.displaced()
        theta = retract(D, theta, delta).theta
        np.testing.assert_allclose(retract(D, theta, 0 * delta).theta, theta, atol=1e-13)
        near = retract(D, theta, 1e-6 * delta).theta
        assert np.linalg.norm(near - theta) < 1e-4

    def test_a_function_of_lower_rank_stays(self):
        """Singular values that are zero do no harm."""
        D, _ = train(ranks=(2, 3))
        cores = [np.zeros(core.shape) for core in D.params(jnp.zeros(50))]
        for core, size in zip(cores, (4, 5, 4), strict=True):
            core[0, :, 0] = np.arange(1.0, size + 1)
        theta = jnp.concatenate([jnp.ravel(core) for core in cores])
        landed = retract(D, theta, jnp.zeros(50)).theta
        np.testing.assert_allclose(dense(D.params(landed)), dense(cores), atol=1e-12)

    def test_serves_many_starts_at_once(self):
        D, theta, delta, _ = self.displaced()
        both = jax.vmap(lambda delta: retract(D, theta, delta).theta)(jnp.stack([delta, 0.1 * delta]))
        for landed, t in zip(both, (1, 0.1), strict=True):
            one = dense(D.params(retract(D, theta, t * delta).theta))
            np.testing.assert_allclose(dense(D.params(landed)), one, atol=1e-12)

    def test_truncates_to_any_ranks(self):
        D, theta, _, _ = self.displaced()
        cut = truncated(D.params(theta), (1, 2))
        np.testing.assert_allclose(dense(cut), tt_svd(dense(D.params(theta)), (1, 2)), atol=1e-13)


# -------------------------------------------------------------------------------------------------- minimising

X = jax.vmap(lambda k: jax.random.uniform(k, 3, float, jnp.array([-1.0, 0.0, -1.0]), jnp.array([3.0, 2.0, 3.0])))(
    jax.random.split(jax.random.key(2), 300)
)


@pytest.mark.at_once(1)
@pytest.mark.parametrize(("name", "features"), [("auto", FOURIER), ("ngd", (LEGENDRE, FOURIER, LEGENDRE))])
def test_a_function_of_the_given_ranks_is_recovered(name, features):
    """From its values at random points, and everywhere: the dense tensors agree."""
    D, theta = train(1, features=features)
    target = train(5, features=features)[1]
    loss = riesz.least_squares(riesz.points(X, data=jax.vmap(D(target))(X)))
    full = riesz.ngd(filter=riesz.Cutoff(1e-10), step_size=riesz.Constant(1.0), retraction=riesz.Truncation(D))
    solution = riesz.minimise(loss, D, theta, {"auto": riesz.auto(), "ngd": full}[name], max_steps=100, tolerance=1e-12)
    assert solution.result.converged
    expected = dense(D.params(target))
    error = dense(D.params(solution.theta)) - expected
    assert np.linalg.norm(error) < 1e-10 * np.linalg.norm(expected)


LOSS = riesz.least_squares(riesz.points(X, data=jnp.exp(jnp.sin(X[:, 0] * X[:, 1]) - X[:, 2] / 3)))
"""A loss that no train of these ranks brings to zero."""
STEP = riesz.Constant(0.3)
PATHS = {
    "ngd": lambda **choices: riesz.ngd(**choices),
    "nhb": lambda **choices: riesz.nhb(beta=0.5, X=riesz.L2(), **choices),
    "nn2": lambda **choices: riesz.nn2(**choices),
}


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", PATHS)
def test_the_path_of_functions_does_not_see_the_gauge(name):
    D, theta = train(4)
    other = gauged(D, theta)
    assert np.linalg.norm(other - theta) > 1
    method = PATHS[name](filter=riesz.Cutoff(1e-10), step_size=STEP, retraction=riesz.Truncation(D))
    previous = dense(D.params(theta))
    for steps in (1, 2, 5, 10):
        first, second = (riesz.minimise(LOSS, D, start, method, max_steps=steps) for start in (theta, other))
        here, there = dense(D.params(first.last)), dense(D.params(second.last))
        assert np.linalg.norm(there - here) < 1e-9 * np.linalg.norm(here)
        assert np.linalg.norm(here - previous) > 1e-3 * np.linalg.norm(here)
        np.testing.assert_array_equal(first.history["rank"], theta.size - 13)
        previous = here


def test_straight_lines_do_see_it():
    """The test above can fail."""
    D, theta = train(4)
    method = riesz.ngd(filter=riesz.Cutoff(1e-10), step_size=STEP)
    here, there = (
        dense(D.params(riesz.minimise(LOSS, D, start, method, max_steps=3).last)) for start in (theta, gauged(D, theta))
    )
    assert np.linalg.norm(there - here) > 1e-3 * np.linalg.norm(here)


def test_a_wrapped_train_is_truncated_as_it_is():
    """Affine wrappers carry the retraction along: the boundary stays exact, the fit converges."""
    D, theta = riesz.tensor_train(key, (2,), riesz.Legendre(0.0, 1.0, 5))
    wrapped = riesz.hard_boundary(D, riesz.box_bubble((0, 0), (1, 1)))
    x = riesz.grid((0, 0), (1, 1), 12).x
    exact = lambda x: x[0] * (1 - x[0]) * jnp.sin(jnp.pi * x[1])
    loss = riesz.least_squares(riesz.points(x, data=jax.vmap(exact)(x)))
    method = riesz.ngd(filter=riesz.Cutoff(1e-10), step_size=riesz.Constant(1.0), retraction=riesz.Truncation(D))
    v = riesz.minimise(loss, wrapped, theta, method, max_steps=30, tolerance=1e-10).function
    assert v(jnp.array([0.0, 0.3])) == v(jnp.array([0.2, 1.0])) == 0
    np.testing.assert_allclose(v(jnp.array([0.5, 0.25])), np.sin(np.pi / 4) / 4, rtol=1e-4)


@pytest.mark.parametrize("name", ["qnhb", "qnn1", "qnn2"])
def test_quasi_methods_are_refused(name):
    with pytest.raises(ValueError, match="^retraction changes the generating system"):
        riesz.METHODS[name](retraction=riesz.Truncation(train()[0]))


def test_momentum_that_cannot_follow_is_refused():
    retraction = riesz.Truncation(train()[0])
    with pytest.raises(ValueError, match="^retraction changes the generating system, so that the two moves"):
        riesz.nn1(retraction=retraction)
    for beta in (0.5, lambda k: 0.0):
        with pytest.raises(ValueError, match="^retraction changes the generating system, which"):
            riesz.ngd(beta=beta, retraction=retraction)
    jax.eval_shape(lambda: riesz.ngd(retraction=retraction))  # with no momentum at all, also where it is traced


def test_a_second_call_compiles_nothing(caplog):
    """Other cores, other intervals: the same program, also for the retraction."""

    def fit(seed, low):
        D, theta = train(seed, features=(riesz.Legendre(low, 3.0, 4), FOURIER, LEGENDRE))
        method = PATHS["nhb"](filter=riesz.Cutoff(10.0**low), step_size=STEP, retraction=riesz.Truncation(D))
        return LOSS, D, theta, method

    riesz.minimise(*fit(0, -1.0), max_steps=3)
    other = fit(1, -1.5)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        riesz.minimise(*other, max_steps=3)
    assert any("Finished tracing" in record.message for record in caplog.records), "the log is heard"
    assert not any("Compiling" in record.message for record in caplog.records)


# --------------------------------------------------------------------------------------------------- bad input

D, theta = train()
WRONG = {
    "no key": (lambda: riesz.tensor_train(0, (2,), LEGENDRE), TypeError, "key must be one random key"),
    "one rank": (lambda: riesz.tensor_train(key, 2, LEGENDRE), TypeError, "ranks must list the ranks .*, not 2"),
    "text": (lambda: riesz.tensor_train(key, "23", LEGENDRE), TypeError, "ranks must list the ranks"),
    "rank zero": (lambda: train(ranks=(0, 2)), ValueError, "ranks must be at least 1, but it is 0"),
    "half a rank": (lambda: train(ranks=(1.5, 2)), TypeError, "ranks must be a whole number, not 1.5"),
    "a rank too many": (lambda: train(ranks=(2, 2, 2)), ValueError, "ranks must be one fewer than features.*3 and 3"),
    "first too large": (lambda: train(ranks=(5, 4)), ValueError, "ranks must be possible.*entry 0 is 5.*be is 4"),
    "last too large": (lambda: train(ranks=(4, 6)), ValueError, "ranks must be possible.*entry 1 is 6.*be is 4"),
    "neighbours": (lambda: train(ranks=(1, 6)), ValueError, "ranks must be possible.*entry 1 is 6.*be is 4"),
    "no basis": (lambda: riesz.tensor_train(key, (2,), jnp.sin), TypeError, "features must be a basis"),
    "not all bases": (lambda: riesz.tensor_train(key, (2,), [LEGENDRE, 4]), TypeError, "features must be a .*not 4"),
    "interval": (lambda: riesz.Legendre(1.0, 1.0, 3), ValueError, "low must lie below high, but they are 1.0 and 1.0"),
    "nan": (lambda: riesz.Fourier(float("nan"), 1.0, 3), ValueError, "low must be finite"),
    "box": (lambda: riesz.Fourier((0, 0), 1.0, 3), ValueError, "low must be a single number"),
    "no end": (lambda: riesz.Fourier(0.0, None, 3), TypeError, "high must be a number, not None"),
    "size": (lambda: riesz.Legendre(0.0, 1.0, 0), ValueError, "size must be at least 1"),
    "point": (lambda: D(theta)(jnp.zeros(2)), ValueError, r"x must hold points of shape \(3,\) for this train"),
    "theta": (lambda: D(theta[1:]), ValueError, r"theta must have shape \(50,\)"),
    "no train": (lambda: riesz.Truncation(riesz.mlp(key, (1, 1))[0]), TypeError, "D must be a tensor train"),
    "a pair": (lambda: riesz.Truncation((D, theta)), TypeError, "D must be a tensor train"),
}


@pytest.mark.parametrize(("call", "error", "pattern"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_call_is_answered_with_one_sentence(call, error, pattern):
    with pytest.raises(error, match=f"^{pattern}") as caught:
        call()
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
