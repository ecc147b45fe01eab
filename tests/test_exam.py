"""One exam for all methods: three steps of the library against the paper's formulas in dense NumPy (reference.py).

In `make test` every two choices of two factors meet. In `make test-all` every method sits it with every metric and
every filter on one shape of problem, meets all other factors pairwise, and sits the product of the factors. A new
method joins by its transcription in `reference.METHODS`.
"""

import functools
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
import riesz
from compiling import QUICK

STEPS = 3
EPS = 1e-3
TOLERANCE = 1e-9
SEED = 50

# The exercises: a shallow network from R^2 to R or R^2, with few points or many, one term or two.

INPUTS, NEURONS = 2, 3
SIZES = {"many": (24, 10, 6), "few": (4, 2, 2)}
"""The numbers of points of the first term, of the second, and of the inner product with a measure of its own."""
FACTOR = 0.3
"""What the second term is multiplied by."""


class Both(NamedTuple):
    """A part of the library and its transcription."""

    ours: Any
    theirs: Any


class Exercise(NamedTuple):
    D: Any
    loss: Both
    metrics: dict[str, Both]
    theta: np.ndarray


def scalar_network(theta):
    """D(theta)(x) = a^T tanh(A x + b) + c with theta = vec(A, a, b, c)."""
    A, a, b, c = jnp.split(theta, np.cumsum([NEURONS * INPUTS, NEURONS, NEURONS]))
    return lambda x: a @ jnp.tanh(A.reshape(NEURONS, INPUTS) @ x + b) + c[0]


def vector_network(theta):
    """The same with two outputs."""
    A, a, b, c = jnp.split(theta, np.cumsum([NEURONS * INPUTS, 2 * NEURONS, NEURONS]))
    return lambda x: a.reshape(2, NEURONS) @ jnp.tanh(A.reshape(NEURONS, INPUTS) @ x + b) + c


def at(net, operator, x):
    """theta -> z and theta -> dz/dtheta under an operator at points, transcribed."""
    return lambda theta: operator(net, theta, x)[0], lambda theta: operator(net, theta, x)[1]


def source(x):
    return jnp.stack([jnp.sin(x[0] + 2 * x[1]), x[0] * x[1]])


def scalar_terms(rng, net, x, w, s, w_s):
    """Logistic regression, and the residual of grad v = f."""
    labels = (x[:, 0] * x[:, 1] > 0) * 1.0
    f = np.stack([np.sin(s[:, 0] + 2 * s[:, 1]), s[:, 0] * s[:, 1]], axis=1)
    return [
        Both(
            riesz.logistic(riesz.points(x, data=labels, weights=w)),
            reference.Term(*at(net, reference.identity, x), w, reference.logistic, labels[:, None]),
        ),
        Both(
            FACTOR * riesz.residual(riesz.gradient, source, riesz.points(s, weights=w_s)),
            reference.Term(*at(net, reference.gradient, s), FACTOR * w_s, reference.least_squares, f),
        ),
    ]


def cauchy(z, y):
    return 0.5 * jnp.log(1 + jnp.sum((z - y) ** 2))


def linear(z, f):
    return -jnp.sum(z * f)


def vector_terms(rng, net, x, w, s, w_s):
    """Robust regression with a density that is not convex, and the linear form -(f, grad v)."""
    y, f = 2 * rng.normal(size=(len(x), 2)), rng.normal(size=(len(s), 2, INPUTS))
    return [
        Both(
            riesz.Integral(cauchy, riesz.points(x, data=y, weights=w)),
            reference.Term(*at(net, reference.identity, x), w, reference.cauchy, y),
        ),
        Both(
            FACTOR * riesz.Integral(linear, riesz.points(s, data=f, weights=w_s), operator=riesz.gradient),
            reference.Term(*at(net, reference.gradient, s), FACTOR * w_s, reference.linear, f.reshape(len(s), -1)),
        ),
    ]


def value_and_gradient(v):
    return lambda x: jnp.concatenate([jnp.ravel(v(x)), jnp.ravel(riesz.gradient(v)(x))])


def energy(z, a):
    """(|v|^2 + a |grad v|^2)/2 for z = (v, grad v)."""
    v, gradient = jnp.split(z, [z.size // (1 + INPUTS)])
    return 0.5 * jnp.sum(v**2) + 0.5 * a * jnp.sum(gradient**2)


def inner_products(rng, net, terms, measures, own):
    """Every inner product that serves as W or X."""
    x, w = own
    a = rng.uniform(0.5, 2.0, size=len(x))
    diagonal = np.concatenate([np.ones((len(x), net.outputs)), np.tile(a[:, None], net.outputs * INPUTS)], axis=1)
    form = np.einsum("mp,pq->mpq", diagonal, np.eye(diagonal.shape[1]))

    def identity_form(z):
        return lambda theta: reference.eye(z(theta))

    gradients = [(at(net, reference.gradient, x), w) for x, w in measures]
    return {
        "L2": Both(riesz.L2(), reference.L2(terms)),
        "GaussNewton": Both(riesz.GaussNewton(), reference.gauss_newton(terms)),
        # H1 with a coefficient, over a measure of its own
        "InnerProduct": Both(
            riesz.InnerProduct(value_and_gradient, energy, riesz.points(x, data=a, weights=w)),
            [reference.Piece(*at(net, reference.value_and_gradient, x), w, lambda theta: form)],
        ),
        # the H1 seminorm, over the measures of all terms
        "Seminorm": Both(
            riesz.InnerProduct(riesz.gradient),
            [reference.Piece(z, jac, w, identity_form(z)) for (z, jac), w in gradients],
        ),
    }


@functools.cache
def exercise(points, terms, outputs):
    """A problem for the library and the same problem for the transcription."""
    rng = np.random.default_rng([SEED, points == "few", terms, outputs])
    net = reference.Network(INPUTS, NEURONS, outputs)
    # Weights that sum to about 4 rather than 1, so that plain gradients are long enough to be clipped.
    (x, w), (s, w_s), own = [(rng.normal(size=(m, INPUTS)), rng.uniform(2, 6, size=m) / m) for m in SIZES[points]]
    chosen = (scalar_terms if outputs == 1 else vector_terms)(rng, net, x, w, s, w_s)[:terms]
    loss = Both(functools.reduce(lambda a, b: a + b, [t.ours for t in chosen]), [t.theirs for t in chosen])
    measures = [(x, w), (s, FACTOR * w_s)][:terms]
    metrics = inner_products(rng, net, loss.theirs, measures, own)
    return Exercise({1: scalar_network, 2: vector_network}[outputs], loss, metrics, rng.normal(size=net.size))


# The programs: all choices that a method can see.


class Program(NamedTuple):
    method: str
    W: str | None
    filter: str | None
    points: str
    terms: int
    outputs: int
    X: str | None
    factorisation: str | None
    step_size: str


FILTERS = {
    "Cutoff": Both(riesz.Cutoff, reference.cutoff),
    "Shift": Both(riesz.Shift, reference.shift),
    "Floor": Both(riesz.Floor, reference.floor),
}
FACTORISATIONS = {"default": None, "Gram": riesz.Gram()}


class Pace(NamedTuple):
    """How long the steps are, and how much momentum they carry."""

    step_size: Both
    alpha: float
    beta: Any


def growing(k):
    return 0.2 * k


# Clipped goes with the paper's momentum, which is every method's default; Constant with one that depends on k. The
# constant is short enough that no program diverges: three growing steps would multiply rounding by a million.
PACES = {
    "Constant": Pace(Both(riesz.Constant, reference.constant), 0.0005, beta=growing),
    "Clipped": Pace(Both(riesz.Clipped, reference.clipped), 0.7, beta=None),
}
X = {
    "default": {"L2": "L2", "GaussNewton": "L2", "InnerProduct": "InnerProduct"},
    "other": {"L2": "Seminorm", "GaussNewton": "Seminorm", "InnerProduct": "GaussNewton"},
}
FACTORS = Program(
    method=list(reference.METHODS),
    W=["L2", "GaussNewton", "InnerProduct"],
    filter=list(FILTERS),
    points=list(SIZES),
    terms=[1, 2],
    outputs=[1, 2],
    X=list(X),
    factorisation=list(FACTORISATIONS),
    step_size=list(PACES),
)
CLASSICAL = {"gd", "heavy_ball", "nesterov"}
WITHOUT_X = {"ngd", "qnhb", "qnn1", "qnn2", "spring"}
WITHOUT_MOMENTUM = {"gd", "newton", "ngd"}


def settled(program):
    """The program without the choices that its method cannot see."""
    if program.method in CLASSICAL:
        return program._replace(W=None, filter=None, X=None, factorisation=None)
    if program.method == "newton":
        return program._replace(W=None, X=None, factorisation=None)
    return program._replace(X=None) if program.method in WITHOUT_X else program


def product(**fixed):
    """All programs with some factors fixed, each once."""
    levels = [[fixed[name]] if name in fixed else levels for name, levels in FACTORS._asdict().items()]
    return list(dict.fromkeys(settled(Program(*choice)) for choice in itertools.product(*levels)))


def pairs(program):
    """What a program examines at least: each pair of its choices."""
    return list(itertools.combinations([choice for choice in program._asdict().items() if choice[1] is not None], 2))


def meetings(program):
    """What a program examines: a method with each pair of its other choices."""
    method, *others = [choice for choice in program._asdict().items() if choice[1] is not None]
    return [(method, *pair) for pair in itertools.combinations(others, 2)]


def cover(candidates, chosen, meetings=meetings):
    """Add candidates, always the one with most new meetings, until every meeting takes place."""
    bit = {meeting: 1 << i for i, meeting in enumerate(dict.fromkeys(m for c in candidates for m in meetings(c)))}
    held = {program: sum(bit[meeting] for meeting in meetings(program)) for program in candidates}
    chosen, left = list(chosen), (1 << len(bit)) - 1
    for program in chosen:
        left &= ~held[program]
    while left:
        best = max(candidates, key=lambda program: (held[program] & left).bit_count())
        chosen.append(best)
        left &= ~held[best]
    return chosen


def levels(program):
    """The place of every choice in the list of its factor."""
    return [0 if choice is None else FACTORS[i].index(choice) for i, choice in enumerate(program)]


EVERY = product()
ONE_SHAPE = product(points="many", terms=1, outputs=1, X="default", factorisation="default", step_size="Clipped")
DEFAULT = cover(EVERY, ONE_SHAPE)
AT_ONCE = set(cover(DEFAULT, (), pairs))
# A step size sees only the length of g_k, so the full product takes one or the other, in turn.
FULL = [program for program in EVERY if sum(levels(program)) % 2 == 0]
REST = [program for program in FULL if program not in DEFAULT]


# The exam.


# Each program runs once, and there are thousands.
@eqx.filter_jit(compiler_options=QUICK)
def steps(method, loss, D, theta):
    """The iterates of a method, with their step sizes and the losses before them."""
    sample = method.draw(loss, D, theta)

    def step(carry, _):
        theta, state, info = method.step(loss, D, *carry, sample)
        return (theta, state), (theta, info.alpha, info.loss)

    return jax.lax.scan(step, (theta, method.init(theta)), length=STEPS)[1]


def ours(program):
    """Three steps of the library."""
    problem = exercise(program.points, program.terms, program.outputs)
    pace = PACES[program.step_size]
    options = {"step_size": pace.step_size.ours(pace.alpha)}
    if pace.beta is not None and program.method not in WITHOUT_MOMENTUM:
        options["beta"] = pace.beta
    if program.filter is not None:
        options["filter"] = FILTERS[program.filter].ours(EPS)
    if program.W is not None:
        options["W"] = problem.metrics[program.W].ours
        options["factorisation"] = FACTORISATIONS[program.factorisation]
    if program.X == "other":
        options["X"] = problem.metrics[X["other"][program.W]].ours
    method = riesz.METHODS[program.method](**options)
    return steps(method, problem.loss.ours, problem.D, jnp.asarray(problem.theta))


@functools.cache
def theirs(program):
    """Three steps of the transcription, and every eigenvalue that its filter has met on the way."""
    problem = exercise(program.points, program.terms, program.outputs)
    pace = PACES[program.step_size]
    eigenvalues = []

    def inverse(eigenvalue):
        eigenvalues.append(eigenvalue)
        return FILTERS[program.filter].theirs(eigenvalue, EPS)

    W = problem.metrics[program.W].theirs if program.W else None
    momentum = problem.metrics[X[program.X][program.W]].theirs if program.X else None
    transcribed = reference.Problem(problem.loss.theirs, W, momentum, inverse, pace.step_size.theirs(pace.alpha))
    return reference.run(program.method, transcribed, problem.theta, STEPS, pace.beta), np.array(eigenvalues)


def check(program):
    expected, eigenvalues = theirs(program)
    # At a jump of the filter rounding would decide: at eps for Cutoff, at 0 where the sign survives.
    if program.filter == "Cutoff":
        assert np.min(np.abs(eigenvalues / EPS - 1)) > 1e-4
    if program.method == "newton":
        assert np.min(np.abs(eigenvalues)) > 1e-6
    for result, exact in zip(ours(program), expected, strict=True):
        np.testing.assert_allclose(result, exact, rtol=TOLERANCE, atol=TOLERANCE)


SAT = itertools.count(1)


@pytest.fixture(autouse=True)
def bounded_memory():
    """Forget compiled programs now and then: each takes 5 MB and none is used twice."""
    yield
    if next(SAT) % 50 == 0:
        jax.clear_caches()


def label(program):
    return "-".join(str(choice) for choice in program if choice is not None)


@pytest.mark.parametrize(
    "program", [pytest.param(each, marks=() if each in AT_ONCE else pytest.mark.slow) for each in DEFAULT], ids=label
)
def test_three_steps(program):
    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("program", REST, ids=label)
def test_three_steps_of_the_full_product(program):
    check(program)


# The exam examined: it is complete, it can tell methods apart, and its transcription differentiates correctly.


def test_every_method_meets_every_pair_of_choices_in_at_most_200_programs():
    papers = set(riesz.METHODS) - {"auto"}  # which is no method of the paper, and has tests of its own
    assert set(reference.METHODS) == papers
    assert len(DEFAULT) == len(set(DEFAULT)) <= 200
    assert {m for program in DEFAULT for m in meetings(program)} == {m for program in EVERY for m in meetings(program)}
    natural = papers - CLASSICAL - {"newton"}
    one_shape = {(p.method, p.W, p.filter) for p in DEFAULT if (p.points, p.terms, p.outputs) == ("many", 1, 1)}
    assert one_shape >= set(itertools.product(natural, FACTORS.W, FACTORS.filter))


def test_the_full_product_leaves_out_step_sizes_only():
    assert {p._replace(step_size="") for p in FULL} == {p._replace(step_size="") for p in EVERY}


@pytest.mark.parametrize("outputs", FACTORS.outputs)
@pytest.mark.parametrize("terms", FACTORS.terms)
def test_points_are_many_or_few(terms, outputs):
    """More points than parameters, or fewer rows than parameters, so that both sides are factorised."""
    d = exercise("many", terms, outputs).theta.size
    assert SIZES["many"][0] > d
    problem = exercise("few", terms, outputs)
    for name in FACTORS.W:
        assert sum(piece.z(problem.theta).size for piece in problem.metrics[name].theirs) < d


def test_clipping_changes_the_step_size_from_step_to_step():
    """Only then does h_k/h_{k-1} differ from 1; and the bound on alpha must hold in some steps."""
    bound = PACES["Clipped"].alpha
    alphas = [theirs(program)[0][1] for program in DEFAULT if program.step_size == "Clipped"]
    assert all(np.ptp(alpha) > 1e-2 * np.max(alpha) for alpha in alphas)
    assert sum(np.max(alpha) == bound > np.min(alpha) for alpha in alphas) > 20


def test_curvature_is_clipped_somewhere():
    problem = exercise("many", 1, 2)
    eigenvalues = np.linalg.eigvalsh(problem.loss.theirs[0].curvature(problem.theta))
    assert (eigenvalues < -1e-2).any() and (eigenvalues > 1e-2).any()


@pytest.mark.parametrize("points, terms, outputs", [("many", 1, 1), ("few", 2, 2)])
def test_no_two_programs_agree(points, terms, outputs):
    """A method, a metric, a filter or an X taken for another cannot pass."""
    fixed = {"points": points, "terms": terms, "outputs": outputs}
    programs = product(**fixed, factorisation="default", step_size="Clipped")
    # Where all eigenvalues lie above eps, Cutoff is Floor.
    programs = [p for p in programs if p.filter != "Cutoff" or np.min(theirs(p)[1]) < EPS]
    ends = np.array([theirs(program)[0][0][-1] for program in programs])
    distances = np.max(np.abs(ends[:, None] - ends[None]), axis=2)
    assert np.min(distances[~np.eye(len(ends), dtype=bool)]) > 1e-5


def complex_step(f, x):
    """df/dx along a new last axis."""
    h = 1e-30
    return np.stack([np.imag(f(x + 1j * h * e)) / h for e in np.eye(x.size)], axis=-1)


@pytest.mark.parametrize("outputs", FACTORS.outputs)
def test_the_transcription_differentiates(outputs):
    problem = exercise("many", 2, outputs)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    for piece in itertools.chain(*(metric.theirs for metric in problem.metrics.values())):
        close(piece.jac(problem.theta), complex_step(piece.z, problem.theta))
    for term in problem.loss.theirs:
        for z, y in zip(term.z(problem.theta), term.data, strict=True):
            value, slope, curvature = (lambda z, f=f, y=y: f(z[None], y[None])[0] for f in term.density)
            close(slope(z), complex_step(value, z))
            close(curvature(z), complex_step(slope, z))
    whole = reference.Problem(problem.loss.theirs, None, None, None, None)
    close(whole.gradient(problem.theta), complex_step(whole.loss, problem.theta))
    close(whole.hessian(problem.theta), complex_step(whole.gradient, problem.theta))
