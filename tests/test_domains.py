"""Domains: what discs, polygons and unions integrate exactly, and the fresh points that measures draw of theirs."""

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from numpy.polynomial import Polynomial
from scipy.stats import kstest

import riesz
from riesz._problem.measures._triangulate import triangulate

key = jax.random.key(0)
L = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (0.0, -1.0)]
COMB = [(0, 0), (7, 0), (7, 2), (6, 2), (6, 1), (5, 1), (5, 3), (4, 3), (4, 1), (3, 1), (3, 2), (1, 2), (1, 1), (0, 1)]
CENTRE, RADIUS = (0.5, -1.0), 1.5


def integral(over, f):
    """sum_j w_j f(x_j), with f of the two coordinates."""
    return float(np.asarray(over.weights) @ f(*np.asarray(over.x).T))


def degrees(total):
    """The exponents of all monomials up to a total degree."""
    return [(a, b) for a, b in itertools.product(range(total + 1), repeat=2) if a + b <= total]


def on_the_circle(a, b):
    """The integral of cos^a sin^b over all angles."""
    if a % 2 or b % 2:
        return 0.0
    return 2 * math.gamma((a + 1) / 2) * math.gamma((b + 1) / 2) / math.gamma((a + b) / 2 + 1)


def sides(vertices):
    """The two coordinates along every side, polynomials of a parameter in [0, 1], and its length."""
    for p, q in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        yield Polynomial([p[0], q[0] - p[0]]), Polynomial([p[1], q[1] - p[1]]), math.dist(p, q)


def moment(vertices, a, b):
    """The integral of x^a y^b over a polygon that turns to the left, by Green's theorem."""
    return sum((x ** (a + 1) * y**b * y.deriv()).integ()(1) / (a + 1) for x, y, _ in sides(vertices))


def shoelace(vertices):
    x, y = np.transpose(vertices)
    return (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def inside(vertices, points):
    """Whether a ray from each point crosses the boundary an odd number of times."""
    odd = np.zeros(len(points), bool)
    x, y = points.T
    for p, q in zip(vertices, np.roll(vertices, -1, axis=0), strict=True):
        spans = (p[1] > y) != (q[1] > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            odd ^= spans & (x < p[0] + (y - p[1]) * (q[0] - p[0]) / (q[1] - p[1]))
    return odd


class TestDisc:
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
    def test_exact_up_to_total_degree_2n_minus_1(self, n):
        over = riesz.disc(CENTRE, RADIUS, n)
        for a, b in degrees(2 * n - 1):
            exact = RADIUS ** (a + b + 2) / (a + b + 2) * on_the_circle(a, b)
            found = integral(over, lambda x, y, a=a, b=b: (x - CENTRE[0]) ** a * (y - CENTRE[1]) ** b)
            assert found == pytest.approx(exact, rel=1e-12, abs=1e-12 * RADIUS ** (a + b + 2))

    @pytest.mark.parametrize("n", [1, 2, 3, 4])
    def test_no_more_than_that(self, n):
        over = riesz.disc((0, 0), 1, n)
        missed = [abs(integral(over, lambda x, y, a=a: x**a * y ** (2 * n - a))
                      - on_the_circle(a, 2 * n - a) / (2 * n + 2)) for a in range(2 * n + 1)]  # fmt: skip
        assert max(missed) > 1e-5

    def test_points_lie_inside_with_positive_weights(self):
        over = riesz.disc(CENTRE, RADIUS, 6)
        assert over.x.shape == (36, 2) and riesz.disc(CENTRE, RADIUS, 5).x.shape == (30, 2)
        assert np.all(np.linalg.norm(np.asarray(over.x) - np.array(CENTRE), axis=1) < RADIUS) and np.all(
            over.weights > 0
        )
        assert float(jnp.sum(over.weights)) == pytest.approx(math.pi * RADIUS**2, rel=1e-14)

    def test_drawn_points_fill_it_uniformly(self):
        drawn = riesz.monte_carlo_disc(CENTRE, RADIUS, 5000).draw(key)
        share = (np.linalg.norm(np.asarray(drawn.x) - np.array(CENTRE), axis=1) / RADIUS) ** 2
        assert kstest(share, "uniform").pvalue > 1e-3
        angle = np.arctan2(*(np.asarray(drawn.x) - np.array(CENTRE)).T) / (2 * np.pi) + 0.5
        assert kstest(angle, "uniform").pvalue > 1e-3
        assert float(jnp.sum(drawn.weights)) == pytest.approx(math.pi * RADIUS**2, rel=1e-12)

    def test_the_energy_of_poissons_equation_is_that_of_its_solution(self):
        solution = lambda x: (1 - x @ x) / 4
        assert float(riesz.ritz(1.0, 1.0, riesz.disc((0, 0), 1, 3))(solution)) == pytest.approx(
            -math.pi / 16, rel=1e-13
        )


class TestCircle:
    @pytest.mark.parametrize("n", [1, 4, 7])
    def test_exact_below_total_degree_n(self, n):
        over = riesz.circle(CENTRE, RADIUS, n)
        assert np.allclose(np.linalg.norm(np.asarray(over.x) - np.array(CENTRE), axis=1), RADIUS, rtol=1e-14)
        for a, b in degrees(n - 1):
            exact = RADIUS ** (a + b + 1) * on_the_circle(a, b)
            found = integral(over, lambda x, y, a=a, b=b: (x - CENTRE[0]) ** a * (y - CENTRE[1]) ** b)
            assert found == pytest.approx(exact, rel=1e-12, abs=1e-12 * RADIUS ** (a + b + 1))


@st.composite
def stars(draw):
    """Polygons that a point sees whole, most of them not convex, somewhere in the plane, either way round."""
    k = draw(st.integers(3, 12))
    gaps = np.array(draw(st.lists(st.floats(0.2, 1.0), min_size=k, max_size=k)))
    radii = np.array(draw(st.lists(st.floats(0.1, 1.0), min_size=k, max_size=k)))
    angles = 2 * np.pi * np.cumsum(gaps) / np.sum(gaps)
    assume(np.max(np.diff(angles, prepend=angles[-1] - 2 * np.pi)) < 0.9 * np.pi)
    around = np.array(draw(st.tuples(st.floats(-3, 3), st.floats(-3, 3))))
    vertices = around + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return vertices, draw(st.booleans())


def is_simple(vertices):
    """Whether a polygon of whole coordinates meets itself only where it must, by exact arithmetic."""

    def meeting(p, q, r, s):
        """The points that the segments pq and rs share: none, one, or more."""
        u, v, w = q - p, s - r, r - p
        cross = lambda a, b: int(a[0] * b[1] - a[1] * b[0])
        if cross(u, v):
            t, o = Fraction(cross(w, v), cross(u, v)), Fraction(cross(w, u), cross(u, v))
            return [p + t * u] if 0 <= t <= 1 and 0 <= o <= 1 else []
        if cross(u, w):
            return []
        ends = sorted(Fraction(int(c @ u), int(u @ u)) for c in (r - p, s - p))
        low, high = max(ends[0], 0), min(ends[1], 1)
        return [] if low > high else [p + low * u, p + high * u][: 1 + (low < high)]

    k = len(vertices)
    if len({tuple(v) for v in vertices}) < k:
        return False
    for i, j in itertools.combinations(range(k), 2):
        shared = meeting(vertices[i], vertices[(i + 1) % k], vertices[j], vertices[(j + 1) % k])
        if len(shared) != ((j - i) % k == 1) + ((i - j) % k == 1):
            return False
    return True


class TestPolygon:
    @settings(deadline=None, max_examples=25)
    @given(stars(), st.integers(1, 3))
    def test_stars_are_integrated_exactly_from_inside(self, star, n):
        vertices, backwards = star
        over = riesz.polygon(vertices[::-1] if backwards else vertices, n)
        weights = np.asarray(over.weights)
        assert np.all(weights > 0) and np.all(inside(vertices, np.asarray(over.x)))
        assert np.sum(weights) == pytest.approx(shoelace(vertices - vertices[0]), rel=1e-12)
        for a, b in degrees(2 * n - 1):
            size = float(weights @ np.abs(np.asarray(over.x)[:, 0] ** a * np.asarray(over.x)[:, 1] ** b))
            found = integral(over, lambda x, y, a=a, b=b: x**a * y**b)
            assert found == pytest.approx(moment(vertices, a, b), abs=1e-11 * (size + 4 ** (a + b)))

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=7))
    def test_what_crosses_or_touches_itself_is_refused_and_nothing_else(self, vertices):
        """On a lattice, where sides often touch, overlap, or go straight on."""
        whole = np.array(vertices)
        if not is_simple(whole):
            with pytest.raises(ValueError, match=r"^vertices must"):
                riesz.polygon_boundary(vertices, 1)
            return
        left = whole if shoelace(whole) > 0 else whole[::-1]
        triangles = triangulate(left.astype(float))
        areas = [shoelace(triangle) for triangle in triangles]
        assert min(areas) > 0 and sum(areas) == shoelace(left) and len(areas) <= len(vertices) - 2
        assert float(jnp.sum(riesz.polygon(vertices, 1).weights)) == pytest.approx(shoelace(left), rel=1e-14)

    @pytest.mark.parametrize("vertices", [L, COMB], ids=["L", "comb"])
    def test_an_l_and_a_comb(self, vertices):
        over = riesz.polygon(vertices, 3)
        for a, b in degrees(5):
            exact = moment(np.array(vertices, float), a, b)
            assert integral(over, lambda x, y, a=a, b=b: x**a * y**b) == pytest.approx(exact, rel=1e-12, abs=1e-13)
        assert len(over.x) <= 9 * (len(vertices) - 2)

    def test_an_l_is_two_boxes(self):
        boxes = riesz.gauss_legendre((-1, -1), (0, 1), 8) + riesz.gauss_legendre((0, 0), (1, 1), 8)
        wave = lambda x, y: np.sin(2 * x + y) * np.exp(x)
        assert integral(riesz.polygon(L, 10), wave) == pytest.approx(integral(boxes, wave), rel=1e-12)

    def test_a_fine_spiral_is_cut_into_triangles(self):
        angles = np.linspace(0, 6 * np.pi, 150)
        arm = lambda width: (1 + width + angles / 10)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        spiral = np.concatenate([arm(0.2), arm(0.0)[::-1]])
        assert float(jnp.sum(riesz.polygon(spiral, 1).weights)) == pytest.approx(shoelace(spiral), rel=1e-11)

    def test_drawn_points_lie_inside(self):
        over = riesz.monte_carlo_polygon(COMB, 2000)
        drawn = over.draw(key)
        assert np.all(inside(np.array(COMB, float), np.asarray(drawn.x)))
        assert float(jnp.sum(drawn.weights)) == pytest.approx(shoelace(COMB), rel=1e-12)

    def test_single_precision_stays_single(self):
        vertices = np.array(L, np.float32)
        for over in (riesz.polygon(vertices, 2), riesz.polygon_boundary(vertices, 2), riesz.disc(vertices[1], 1.0, 2)):
            fresh = jax.eval_shape(lambda over=over: over.fresh(key))
            assert over.x.dtype == over.weights.dtype == fresh.x.dtype == fresh.weights.dtype == np.float32


class TestPolygonBoundary:
    @settings(deadline=None, max_examples=15)
    @given(stars(), st.integers(1, 3))
    def test_every_side_is_integrated_exactly(self, star, n):
        vertices, backwards = star
        over = riesz.polygon_boundary(vertices[::-1] if backwards else vertices, n)
        assert over.x.shape == (n * len(vertices), 2) and np.all(over.weights > 0)
        for a, b in degrees(2 * n - 1):
            exact = sum(length * (x**a * y**b).integ()(1) for x, y, length in sides(vertices))
            size = sum(length for *_, length in sides(vertices)) * 4 ** (a + b)
            assert integral(over, lambda x, y, a=a, b=b: x**a * y**b) == pytest.approx(exact, abs=1e-12 * size)


SQUARE, INTERVAL = riesz.gauss_legendre((0, 0), (1, 1), 6), riesz.gauss_legendre(0.0, 2.0, 6)
WITH = {
    "grid": riesz.grid((0, 0), (1, 1), 4),
    "gauss_legendre": SQUARE,
    "sobol": riesz.sobol((0, 0), (1, 1), 8),
    "boundary": riesz.boundary((0, 0), (1, 3), 4),
    "simplex": riesz.simplex([(0, 0), (2, 0), (0, 1)], 4),
    "disc": riesz.disc(CENTRE, RADIUS, 6),
    "circle": riesz.circle(CENTRE, RADIUS, 20),
    "polygon": riesz.polygon(L, 5),
    "polygon_boundary": riesz.polygon_boundary(L, 5),
    "monte_carlo": riesz.monte_carlo((0, 0), (1, 1), 7),
    "monte_carlo_boundary": riesz.monte_carlo_boundary((0, 0), (1, 1), 7),
    "monte_carlo_simplex": riesz.monte_carlo_simplex([(0, 0), (2, 0), (0, 1)], 7),
    "monte_carlo_disc": riesz.monte_carlo_disc(CENTRE, RADIUS, 7),
    "monte_carlo_polygon": riesz.monte_carlo_polygon(L, 7),
    "quasi_monte_carlo": riesz.quasi_monte_carlo((0, 0), (1, 1), 8),
    "christoffel": riesz.christoffel(SQUARE, 7),
    "product": riesz.product(INTERVAL, INTERVAL),
    "start": riesz.product(INTERVAL, riesz.points([0.0])),
    "two times": riesz.product(INTERVAL, riesz.points([0.0, 1.0], weights=[1.0, 3.0])),
    "drawn product": riesz.product(riesz.monte_carlo(0.0, 1.0, 3), INTERVAL),
    "union": riesz.union(SQUARE, riesz.disc(CENTRE, RADIUS, 6), riesz.points([(0.0, 0.0), (3.0, 3.0)])),
    "drawn union": riesz.union(riesz.monte_carlo((0, 0), (1, 1), 7), riesz.circle(CENTRE, RADIUS, 20)),
}
WITHOUT = {
    "points": riesz.points([0.0, 1.0]),
    "data": riesz.points([0.0, 1.0], data=[1.0, 2.0]),
    "scaled": 2.0 * SQUARE,
    "minibatch": riesz.minibatch(SQUARE, 3),
    "importance": riesz.importance(lambda key, n: jax.random.normal(key, (n,)), jax.scipy.stats.norm.pdf, 5),
    "points times points": riesz.product(riesz.points([0.0]), riesz.points([1.0])),
    "times data": riesz.product(INTERVAL, riesz.points([0.0], data=[1.0])),
    "times minibatch": riesz.product(INTERVAL, riesz.minibatch(INTERVAL, 3)),
    "points and points": riesz.points([0.0]) + riesz.points([1.0]),
    "and minibatch": INTERVAL + riesz.minibatch(INTERVAL, 3),
    "christoffel of points": riesz.christoffel(riesz.points([0.0, 1.0]), 5),
}


def at_a_step(over):
    """The points of one step, where all tangent functions are one."""
    at = SimpleNamespace(features=lambda x: jnp.ones((x.shape[0], 1, 1)))
    return jax.jit(lambda key: over.draw(key, at))(key)


class TestFresh:
    @pytest.mark.at_once(8)
    @pytest.mark.parametrize("name", WITH)
    def test_as_many_as_a_step_has_with_the_mass_of_the_domain(self, name):
        over = WITH[name]
        assert isinstance(over.domain, riesz.AbstractDomain)
        draw = jax.jit(lambda key: over.fresh(key))
        fresh, step = draw(key), at_a_step(over)
        assert fresh.x.shape == step.x.shape and fresh.x.dtype == step.x.dtype and fresh.data is None
        assert np.all(fresh.weights == fresh.weights[0])
        mass = float(jnp.sum(step.weights)) if name != "christoffel" else 1.0
        assert float(jnp.sum(fresh.weights)) == pytest.approx(mass, rel=1e-12)
        assert float(over.domain.volume) == pytest.approx(mass, rel=1e-12)
        assert not np.array_equal(fresh.x, draw(jax.random.key(1)).x)

    @pytest.mark.parametrize(
        "name", [name for name, over in WITH.items() if not over.drawn and name not in ("grid", "sobol")]
    )
    def test_they_integrate_what_the_quadrature_integrates(self, name):
        over = WITH[name]
        f = lambda x, y: np.stack([x, y, x * y, x**2, y**2, (x - 1) ** 2 * y])
        n = 20000
        fresh = jax.jit(lambda key: over.fresh(key, n))(key)
        values = float(over.domain.volume) * f(*np.asarray(fresh.x).T)
        exact = f(*np.asarray(over.x).T) @ np.asarray(over.weights)
        assert np.all(np.abs(np.mean(values, axis=1) - exact) <= 4.5 * np.std(values, axis=1) / math.sqrt(n) + 1e-12)

    @pytest.mark.parametrize("name", WITHOUT)
    def test_none_where_there_is_no_domain(self, name):
        assert WITHOUT[name].domain is None and WITHOUT[name].fresh(key) is None

    def test_those_of_an_energy_have_its_coefficients(self):
        seen = []

        def f(x):
            seen.append(x)
            return jnp.sin(x)

        for over in (riesz.grid(0.0, 1.0, 5), riesz.monte_carlo(0.0, 1.0, 5)):
            fresh = riesz.ritz(lambda x: 1 + x, f, over).over.fresh(key)
            x = fresh.x
            np.testing.assert_array_equal(fresh.data, jnp.stack([jnp.sin(x), 1 + x], axis=1))
            assert x.shape == (5,) and float(jnp.sum(fresh.weights)) == pytest.approx(1.0, rel=1e-14)
        loss = riesz.ritz(lambda x: 1 + x, f, riesz.grid(0.0, 1.0, 5))
        seen.clear()
        loss(jnp.sin)
        assert not seen  # fixed points keep their data
        assert riesz.ritz(1.0, f, riesz.points([0.0, 1.0])).over.fresh(key) is None


class TestSteps:
    """A step needs no domain, whose arrays have no axis of points."""

    @pytest.mark.at_once(8)
    @pytest.mark.parametrize("name", WITH)
    def test_their_points_have_none(self, name):
        assert at_a_step(WITH[name]).domain is None

    def test_buckets_keep_it_and_parts_drop_it(self):
        over = WITH["disc"]
        filled = over.filled(5)
        assert filled.domain is over.domain and filled.x.shape == (41, 2)
        assert float(jnp.sum(filled.weights)) == pytest.approx(float(over.domain.volume), rel=1e-14)
        mesh = Mesh(np.array(jax.devices()[:1]), ("points",))
        for part in (over.take(jnp.array([1, 2])), 2.0 * over, over.spread(mesh)):
            assert part.domain is None

    def test_chunks_of_an_inner_product_of_its_own(self):
        class Same(riesz.AbstractMeasure):
            """Points that are returned as they are."""

            over: riesz.Points
            drawn = False

            def draw(self, key, features=None):
                return self.over

        D, theta = riesz.mlp(key, (2, 3, 1))
        loss = riesz.residual(riesz.identity, 1.0, riesz.points(SQUARE.x))
        psi = lambda over: riesz.tangent_space(
            loss, D, theta, W=riesz.InnerProduct(over=over), factorisation=riesz.Gram(chunk=8)
        ).project(jnp.ones(36))
        np.testing.assert_array_equal(
            psi(Same(WITH["gauss_legendre"])), psi(riesz.points(SQUARE.x, weights=SQUARE.weights))
        )


class TestUnion:
    def test_integrals_add(self):
        f = lambda x, y: np.cos(x) * y**2
        parts = [SQUARE, WITH["disc"], riesz.points([(0.0, 1.0)], weights=[3.0])]
        expected = sum(integral(part, f) for part in parts)
        for over in (riesz.union(*parts), parts[0] + parts[1] + parts[2], sum(parts)):
            assert isinstance(over, riesz.Points) and integral(over, f) == pytest.approx(expected, rel=1e-14)
        assert riesz.union(SQUARE).x.shape == SQUARE.x.shape

    def test_drawn_parts_are_drawn_apart(self):
        drawn = riesz.monte_carlo(0.0, 1.0, 4)
        over = drawn + drawn + riesz.grid(2.0, 3.0, 2)
        step = over.draw(key)
        assert over.drawn and step.x.shape == (10,) and not np.array_equal(step.x[:4], step.x[4:8])
        np.testing.assert_array_equal(step.x[8:], [2.0, 3.0])
        assert float(jnp.sum(step.weights)) == pytest.approx(3.0, rel=1e-14)

    def test_data_are_joined(self):
        over = riesz.points([0.0], data=[1.0]) + riesz.minibatch(riesz.points([1.0, 1.0], data=[2.0, 2.0]), 1)
        step = over.draw(key)
        np.testing.assert_array_equal(step.data, [1.0, 2.0])
        np.testing.assert_array_equal(step.weights, [1.0, 1.0])

    def test_a_loss_over_a_union_is_the_sum_of_losses(self):
        term = lambda over: riesz.residual(riesz.gradient, 0.0, over)
        v = lambda x: jnp.sin(x[0]) * x[1]
        whole = term(SQUARE + WITH["disc"])(v)
        assert float(whole) == pytest.approx(float((term(SQUARE) + term(WITH["disc"]))(v)), rel=1e-14)
