"""Properties that hypothesis tries to break: solves with prescribed spectra, descent, invariances, zero residuals.

The oracle is f(G) = V f(s^2) V^T in NumPy's extended precision, from the factors that the rows were made of; nothing
of it passes through a decomposition. Shapes are few and fixed, so that examples share their compiled programs.
"""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riesz
from riesz._geometry.tangent import TangentSpace
from riesz._linalg.rows import Stored
from riesz._methods.result import code

ROUNDING = float(np.finfo(np.float64).eps)
SHAPES = [(12, 7), (7, 12), (9, 9), (2, 11)]
FILTERS = {"cutoff": riesz.Cutoff, "shift": riesz.Shift, "floor": riesz.Floor}
INVERSES = {
    "cutoff": lambda x, eps: np.where(x > eps, 1 / np.where(x > eps, x, 1), 0),
    "shift": lambda x, eps: 1 / (x + eps),
    "floor": lambda x, eps: 1 / np.maximum(x, eps),
}

FEW_AND_MANY = pytest.mark.parametrize("examples", [25, pytest.param(250, marks=pytest.mark.slow)])

seeds = st.integers(0, 2**32 - 1)


def holds(check, examples, **strategies):
    """Try a property on so many examples, the same ones every time."""
    settings(max_examples=examples, deadline=None, derandomize=True)(given(**strategies)(check))()


def orthogonal(random, n):
    """A random orthogonal matrix in extended precision: a product of n Householder reflections."""
    Q = np.eye(n, dtype=np.longdouble)
    for _ in range(n):
        v = random.standard_normal(n).astype(np.longdouble)
        Q -= np.outer(v, 2 / (v @ v) * (v @ Q))
    return Q


class Spectrum:
    """Rows Psi = U diag(s) V^T, known in extended precision and rounded to float64, and an eps for filters."""

    def __init__(self, shape, seed, condition, rank, clustered, smallness, size):
        """Condition 10^condition, the given share of full rank, eps = 10^-smallness times the largest eigenvalue."""
        self.random, (m, d) = np.random.default_rng(seed), shape
        k = min(m, d)
        places = self.random.integers(0, 2, k) if clustered else self.random.uniform(0, 1, k)
        places[0], places[-1] = (0, 1) if k > 1 else (0, 0)
        s = np.longdouble(10) ** (size - condition * np.sort(places).astype(np.longdouble))
        s[round(rank * k) :] = 0
        self.eps = float(np.longdouble(10) ** (2 * size - smallness))
        # No eigenvalue near the cutoff: there the filter jumps, and rounding decides.
        near = np.abs(np.log(np.where(s > 0, s**2, 1e-300) / self.eps)) < np.log(4)
        self.s = np.where(near, np.where(s**2 > self.eps, 2, 0.5) * np.sqrt(np.longdouble(self.eps)), s)
        self.U, self.V = orthogonal(self.random, m)[:, :k], orthogonal(self.random, d)
        self.psi = (self.U * self.s @ self.V[:, :k].T).astype(np.float64)
        self.largest = float(np.max(self.s))
        self.eigenvalues = np.concatenate([self.s**2, np.zeros(d - k, np.longdouble)])

    def vector(self, n):
        """A random vector."""
        return self.random.standard_normal(n)

    def gains(self, name):
        """f(lambda) for all d eigenvalues of G."""
        return INVERSES[name](self.eigenvalues, np.longdouble(self.eps))

    def riesz(self, name, c):
        """f(G) c."""
        return self.V @ (self.gains(name) * (c @ self.V))

    def project(self, name, r):
        """f(G) Psi^T r."""
        k = self.s.size
        return self.V[:, :k] @ (self.gains(name)[:k] * self.s * (r @ self.U))


def spectra(shape):
    return st.builds(
        Spectrum,
        shape=st.just(shape),
        seed=seeds,
        condition=st.floats(0, 16),
        rank=st.floats(0, 1),
        clustered=st.booleans(),
        smallness=st.floats(-1, 12),
        size=st.floats(-3, 3),
    )


@eqx.filter_jit
def solve(factorisation, psi, filters, c, r, scale):
    """riesz(c), project(r) and the rank, for every filter, from one factorisation."""
    plain = TangentSpace.of((), Stored(psi), factorisation, next(iter(filters.values())), scale)
    spaces = {name: plain.filtered(f) for name, f in filters.items()}
    return {name: (space.riesz(c), space.project(r), space.rank) for name, space in spaces.items()}


def solved(factorisation, psi, eps, c, r, scale=None):
    filters = {name: kind(eps) for name, kind in FILTERS.items()}
    answers = solve(factorisation, *jax.tree.map(jnp.asarray, (psi, filters, c, r, scale)))
    return {name: [np.asarray(part) for part in answer] for name, answer in answers.items()}


def tolerances(squares, shape, largest, gain):
    """What riesz and project may err by, for |c| = |r| = 1, when |f(G)| = gain and the largest singular value is given.

    QR and SVD are backward stable: the answer is that of Psi + E with |E| of the order of n u s_max. A divided
    difference of any of the three filters between eigenvalues a and b is at most 2 f(a) f(b) (for the cutoff with s a
    factor 2 away from it, 4 f(a) f(b)), and s f(s^2) <= gain^(1/2), so that to first order f(G) changes by a few
    |E| gain^(3/2), and f(G) Psi^T by a few |E| gain. A Gram matrix is formed with an error of the order of n u s_max^2,
    the squared condition number that its docstring warns of: f(G) changes by a few |E| s_max gain^2, f(G) Psi^T by
    a few |E| s_max gain^(3/2). Multiplying out adds a few n u gain |c|, and n u s_max gain |r|.
    """
    few = 4 * sum(shape) * ROUNDING
    condition = largest * np.sqrt(gain)
    worse = max(condition, 1) if squares else 1
    return few * gain * (1 + condition * worse), few * np.sqrt(gain) * condition * worse


@FEW_AND_MANY
@pytest.mark.parametrize("factorisation", [riesz.QRSVD(), riesz.Gram(), "scaled"], ids=["qrsvd", "gram", "scaled"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_solves_are_the_dense_formula(examples, shape, factorisation):
    """Condition 1 to 1e16, rank zero to full, more and fewer rows than parameters; in scaled coordinates too."""
    (m, d), scaled = shape, factorisation == "scaled"

    def check(rows):
        c, r = rows.vector(d), rows.vector(m)
        S = 10 ** rows.random.uniform(-3, 3, d) if scaled else np.ones(d)
        ours, scale = (riesz.QRSVD(), S) if scaled else (factorisation, None)
        # S^-1 f(S^-1 G S^-1) S^-1 (S c) for the rows Psi S: in the coordinates S theta it is f(G) c.
        answers = solved(ours, rows.psi * S[None, :], rows.eps, c * S, r, scale)
        for name, (representer, projection, rank) in answers.items():
            gain = float(np.max(rows.gains(name)))
            for_c, for_r = tolerances(isinstance(factorisation, riesz.Gram), shape, rows.largest, gain)
            off = np.linalg.norm(S * representer - rows.riesz(name, c))
            assert off <= for_c * np.linalg.norm(c), name
            off = np.linalg.norm(S * projection - rows.project(name, r))
            assert off <= for_r * np.linalg.norm(r), name
            assert rank == np.sum(rows.eigenvalues > rows.eps), name

    holds(check, examples, rows=spectra(shape))


@FEW_AND_MANY
@pytest.mark.parametrize("factorisation", [riesz.QRSVD(), riesz.Gram()], ids=["qrsvd", "gram"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_filtered_gradients_descend(examples, shape, factorisation):
    """c^T f(G) c >= 0 up to rounding, and > 0 where the exact one is above rounding."""
    m, d = shape

    def check(rows, inside):
        k = rows.s.size
        # Covectors of a loss lie in the row space; others have a part in the null space of G, which a cutoff drops.
        c = (rows.V[:, :k] @ rows.vector(k)).astype(float) if inside else rows.vector(d)
        for name, (representer, _, rank) in solved(factorisation, rows.psi, rows.eps, c, rows.vector(m)).items():
            gain = float(np.max(rows.gains(name)))
            rounding = tolerances(isinstance(factorisation, riesz.Gram), shape, rows.largest, gain)[0] * (c @ c)
            slope, exact = c @ representer, float(c @ rows.riesz(name, c))
            assert slope >= -rounding, name
            assert slope > 0 or exact <= rounding, name
            assert slope != 0 or (name == "cutoff" and rank == 0), name

    holds(check, examples, rows=spectra(shape), inside=st.booleans())


@FEW_AND_MANY
@pytest.mark.parametrize("factorisation", [riesz.QRSVD(), riesz.Gram()], ids=["qrsvd", "gram"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_units_and_the_order_and_mixing_of_rows_change_nothing(examples, shape, factorisation):
    """Psi -> t Psi with eps -> t^2 eps; a permutation of the rows; an orthogonal matrix in front of them."""
    m, d = shape

    def check(rows, t):
        c, r = rows.vector(d), rows.vector(m)
        order, Q = rows.random.permutation(m), orthogonal(rows.random, m).astype(float)
        plain = solved(factorisation, rows.psi, rows.eps, c, r)
        others = {
            "units": (solved(factorisation, t * rows.psi, t**2 * rows.eps, c, r), t),
            "order": (solved(factorisation, rows.psi[order], rows.eps, c, r[order]), 1),
            "mixing": (solved(factorisation, Q @ rows.psi, rows.eps, c, Q @ r), 1),
        }
        for name, (representer, projection, rank) in plain.items():
            gain = float(np.max(rows.gains(name)))
            for_c, for_r = tolerances(isinstance(factorisation, riesz.Gram), shape, rows.largest, gain)
            for change, (changed, unit) in others.items():
                # Each of the two may be off by the tolerance.
                off = np.linalg.norm(unit**2 * changed[name][0] - representer)
                assert off <= 2 * for_c * np.linalg.norm(c), (name, change)
                off = np.linalg.norm(unit * changed[name][1] - projection)
                assert off <= 2 * for_r * np.linalg.norm(r), (name, change)
                assert rank == changed[name][2], (name, change)

    holds(check, examples, rows=spectra(shape), t=st.floats(1e-3, 1e3))


@eqx.filter_jit
def step(method, loss, D, theta):
    """One step from rest, and what it tells."""
    new, _, info = method.step(loss, D, theta, method.init(theta), method.draw(loss, D, theta))
    return new, info


@FEW_AND_MANY
@pytest.mark.parametrize("kind", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_ngd_never_climbs_on_linear_least_squares(examples, shape, kind):
    """f(lambda) lambda <= 1 for every filter, so any alpha in (0, 1] lowers 1/2 |Psi theta - y|^2, or keeps it."""
    m, d = shape
    D, _ = riesz.linear(lambda x: x, size=d)

    def check(rows, alpha):
        theta, y = rows.vector(d), rows.vector(m)
        psi, target = jnp.asarray(rows.psi), jnp.asarray(y)
        loss = riesz.least_squares(riesz.points(psi, data=target, weights=jnp.ones(m)))
        method = riesz.ngd(filter=kind(rows.eps), step_size=riesz.Constant(alpha))
        new, info = step(method, loss, D, jnp.asarray(theta))
        residual = lambda theta: rows.psi.astype(np.longdouble) @ theta - y
        before, after = residual(theta), residual(np.asarray(new))
        # The step is off by the tolerance of project, and theta + delta is rounded.
        gain = float(np.max(INVERSES[kind.__name__.lower()](rows.eigenvalues, rows.eps)))
        off = tolerances(False, shape, rows.largest, gain)[1] * np.linalg.norm(before)
        off = rows.largest * (off + ROUNDING * np.linalg.norm(new))
        assert np.linalg.norm(after) <= np.linalg.norm(before) + off
        assert float(info.loss) == pytest.approx(float(before @ before) / 2, rel=1e-12)
        # The first-order change is -alpha c^T f(G) c, and 1 - alpha/2 of it is sure at the least.
        k = rows.s.size
        gains = np.asarray(INVERSES[kind.__name__.lower()](rows.s**2, rows.eps))
        decrease = alpha * (1 - alpha / 2) * np.sum(gains * (rows.s * (before @ rows.U[:, :k])) ** 2)
        assert after @ after / 2 <= before @ before / 2 - decrease + off * np.linalg.norm(before)

    holds(check, examples, rows=spectra(shape), alpha=st.floats(1e-3, 1.0))


POINTS = jnp.linspace(-1.0, 1.0, 12)
network, start = riesz.mlp(jax.random.key(0), (1, 4, 1), activation="tanh")
gradient = eqx.filter_jit(lambda loss, D, theta: jax.grad(lambda theta: loss(D(theta)))(theta))
tangent_rows = eqx.filter_jit(lambda loss, D, theta: riesz.tangent_space(loss, D, theta).psi)


def regression(seed, size, split=False):
    """A network of standard normal weights and normal data: in one term, or in three with the same weights."""
    random = np.random.default_rng(seed)
    theta = jnp.asarray(size * random.standard_normal(start.size))
    y, weights = random.standard_normal(POINTS.size), random.uniform(0.1, 1, POINTS.size)
    whole = riesz.least_squares(riesz.points(POINTS, data=jnp.asarray(y), weights=jnp.asarray(weights)))
    if not split:
        return whole, theta
    order = random.permutation(POINTS.size)
    parts = [whole.over.take(jnp.asarray(part)) for part in np.split(order, [5, 9])]
    first, second, third = (riesz.least_squares(riesz.points(p.x, p.data, p.weights)) for p in parts)
    # A factor in front of a term is a factor of its weights.
    third = riesz.least_squares(riesz.points(parts[2].x, parts[2].data, parts[2].weights / 4))
    return whole, first + second + 4.0 * third, theta


@FEW_AND_MANY
@pytest.mark.parametrize("kind", FILTERS.values(), ids=FILTERS)
def test_ngd_steps_of_a_network_point_downhill(examples, kind):
    """L'(delta) < 0, with the slope from jax.grad of the loss; at most 0 where a cutoff leaves no direction."""

    def check(seed, size, smallness):
        loss, theta = regression(seed, size)
        new, info = step(riesz.ngd(filter=kind(10.0**-smallness)), loss, network, theta)
        slope = gradient(loss, network, theta) @ (new - theta)
        assert slope < 0 or (kind is riesz.Cutoff and info.rank == 0 and slope == 0)

    holds(check, examples, seed=seeds, size=st.floats(0.1, 3), smallness=st.floats(-1, 12))


@FEW_AND_MANY
@pytest.mark.parametrize("kind", [riesz.Shift, riesz.Floor], ids=["shift", "floor"])
def test_splitting_and_reordering_a_measure_changes_nothing(examples, kind):
    """Points in another order, in three terms, one of them with a factor: the same step of ngd."""

    def check(seed, size, smallness):
        whole, parts, theta = regression(seed, size, split=True)
        method = riesz.ngd(filter=kind(10.0**-smallness), step_size=riesz.Constant(1.0))
        (one, told), (other, retold) = (step(method, loss, network, theta) for loss in (whole, parts))
        psi = tangent_rows(whole, network, theta)
        largest, shape = np.linalg.norm(psi, 2), psi.shape
        # Each of the two may be off by the tolerance of project, and by the rounding of theta + delta.
        off = tolerances(False, shape, largest, 10.0**smallness)[1] * np.sqrt(2 * float(told.loss))
        assert np.linalg.norm(one - other) <= 2 * (off + ROUNDING * np.linalg.norm(one))
        assert float(retold.loss) == pytest.approx(float(told.loss), rel=1e-14)
        assert float(retold.gradient_norm) == pytest.approx(float(told.gradient_norm), rel=1e-10)

    holds(check, examples, seed=seeds, size=st.floats(0.1, 3), smallness=st.floats(-1, 12))


# The natural methods are those that choose a factorisation, and auto, which leaves no choice.
NATURAL = [name for name, make in riesz.METHODS.items() if "factorisation" in inspect.signature(make).parameters]


@pytest.mark.at_once(5)
@FEW_AND_MANY
@pytest.mark.parametrize("name", [*NATURAL, "auto"])
def test_a_zero_residual_gives_a_zero_step(name, examples):
    """Exactly: where every residual is 0.0, so are four steps in a row, momentum included."""
    last_layer = lambda model: (model.weights[-1], model.biases[-1])
    zeroed = eqx.tree_at(last_layer, network.params(jnp.ones_like(start)), replace_fn=jnp.zeros_like)
    hidden = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(zeroed)])
    loss = riesz.least_squares(riesz.points(POINTS, data=jnp.zeros_like(POINTS)))
    method = riesz.METHODS[name]()

    @eqx.filter_jit
    def steps(theta):
        sample = method.draw(loss, network, theta)
        once = lambda carry, _: (lambda new, state, info: ((new, state), info))(
            *method.step(loss, network, *carry, sample)
        )
        return jax.lax.scan(once, (theta, method.init(theta)), length=4)

    def check(seed, size):
        # A network whose last layer is zero is zero exactly, while its tangent functions are not.
        theta = hidden * size * np.random.default_rng(seed).standard_normal(start.size)
        (last, _), info = steps(theta)
        assert np.all(info.rank > 0)
        assert np.all(info.loss == 0) and np.all(info.gradient_norm == 0)
        assert np.all(info.step_norm == 0) and np.array_equal(last, theta)
        assert int(info.end[-1]) == code(riesz.Result.CONVERGED_GRADIENT if name == "auto" else riesz.Result.RUNNING)

    holds(check, examples, seed=seeds, size=st.floats(0.1, 3))
