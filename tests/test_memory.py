"""Memory: predicted before anything is compiled, kept to by a ladder of factorisations, refused in a sentence."""

import itertools
import logging
import math
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from compiling import ORDINARY, ordinary_environment
from riesz._methods.auto import Auto
from riesz._running import memory as _budget
from riesz._running.memory import available, fitted, predicted


def network(widths):
    return riesz.mlp(jax.random.key(0), widths)


def regression(m):
    x = jnp.stack([jnp.linspace(-1.0, 1.0, m), jnp.cos(jnp.arange(1.0 * m))], axis=1)
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x[:, 0])))


def two_terms(m):
    x = regression(m).over.x
    return riesz.residual(riesz.gradient, 1.0, riesz.points(x)) + 10.0 * regression(m // 3)


def compiled(method, loss, D, theta):
    """The bytes of the compiled step's arguments, results and temporaries."""
    sample = method.draw(loss, D, theta)
    program = eqx.filter_jit(method.step).lower(loss, D, theta, method.init(theta), sample).compile(ORDINARY)
    found = program.compiled.memory_analysis()
    return found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes


FACTORISATIONS = (riesz.QRSVD(), riesz.Gram(), riesz.QRSVD(chunk=32), riesz.Gram(chunk=32))


@pytest.mark.at_once(3)
@pytest.mark.parametrize("m", [900, 60], ids=["more_rows", "fewer_rows"])
@pytest.mark.parametrize("factorisation", FACTORISATIONS, ids=str)
def test_the_prediction_is_what_the_compiler_says(factorisation, m):
    """Within a factor of two, rows above and below the 137 parameters; what LAPACK takes comes on top."""
    D, theta = network((2, 8, 11, 1))
    method, loss = riesz.ngd(factorisation=factorisation), regression(m)
    ratio = predicted(loss, D, theta, method) / compiled(method, loss, D, theta)
    assert 0.5 < ratio < 2.0


def test_the_prediction_holds_for_auto():
    D, theta = network((2, 8, 8, 1))
    assert (
        0.5
        < predicted(regression(900), D, theta, riesz.auto()) / compiled(riesz.auto(), regression(900), D, theta)
        < 2.0
    )


def test_copies_of_the_rows():
    """QRSVD holds the rows and the reflectors, in chunks too; Gram three copies, in chunks none."""
    (D, theta), m = network((2, 20, 20, 1)), 40000
    copy = m * theta.size * 8
    need = lambda factorisation: predicted(regression(m), D, theta, riesz.ngd(factorisation=factorisation)) / copy
    assert need(riesz.QRSVD()) == pytest.approx(2.0, abs=0.5)
    assert need(riesz.QRSVD(chunk=64)) == pytest.approx(2.0, abs=0.5)
    assert need(riesz.Gram()) == pytest.approx(3.0, abs=0.5)
    assert need(riesz.Gram(chunk=64)) < 0.5, "only what a pass through the network needs"


# Chunks and streams give the numbers of the stored rows.

PROBLEMS = {
    "regression": (regression, (2, 5, 1)),
    "fewer_rows": (lambda m: regression(m // 3), (2, 5, 1)),
    "two_terms": (two_terms, (2, 5, 1)),
    "classes": (
        lambda m: riesz.softmax(riesz.points(regression(m).over.x, data=jnp.arange(m) % 3)),
        (2, 4, 3),
    ),
}


@pytest.mark.at_once(2)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_tangent_spaces_in_chunks(problem):
    """Every verb of a tangent space, for chunks that divide the number of points and for chunks that do not."""
    make, widths = PROBLEMS[problem]
    loss, (D, theta) = make(31), network(widths)
    how = {"W": riesz.GaussNewton(), "filter": riesz.Shift(1e-3)}
    c = jnp.cos(jnp.arange(1.0 * theta.size))

    @eqx.filter_jit
    def verbs(factorisation):
        space = riesz.tangent_space(loss, D, theta, factorisation=factorisation, **how)
        r = jnp.sin(jnp.arange(1.0 * space.psi.shape[0]))
        solves = [space.project(r), space.riesz(c), space.inverse.norm(r, c)]
        products = [space.psi @ c, space.psi.T @ r, space.gram, space.norm(c), jnp.max(space.factors.eigenvalues)]
        return solves + products

    expected = verbs(riesz.QRSVD())
    for factorisation in (riesz.QRSVD(chunk=8), riesz.Gram(chunk=8), riesz.Gram(chunk=99)):
        for found, known in zip(verbs(factorisation), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-10)


def test_streamed_rows_are_nowhere_stored():
    """No array of the traced step holds all rows."""
    D, theta = network((2, 5, 1))
    m, loss = 203, regression(203)
    for method in (riesz.nhb(factorisation=riesz.Gram(chunk=8)), Auto(factorisation=riesz.Gram(chunk=8))):
        sample = method.draw(loss, D, theta)
        text = str(eqx.filter_make_jaxpr(method.step)(loss, D, theta, method.init(theta), sample)[0])
        assert f"f64[{m},{theta.size}]" not in text and f"f64[{m},1,{theta.size}]" not in text


# The ladder.

D, THETA = network((2, 5, 1))
LOSS = regression(400)


def run(**options):
    method = options.pop("method", riesz.nhb(filter=riesz.Floor(1e-3)))
    return riesz.minimise(LOSS, D, THETA, method, max_steps=3, progress=False, **options)


def between(method, low, high):
    """A limit between the needs of two changes of a method."""
    needs = [predicted(LOSS, D, THETA, method.solving(f)) for f in (low, high)]
    assert needs[0] < needs[1]
    return sum(needs) / 2


def test_enough_memory_changes_nothing(caplog):
    method = riesz.nhb()
    assert fitted(LOSS, D, THETA, method, None, None) is method
    assert fitted(LOSS, D, THETA, method, None, predicted(LOSS, D, THETA, method)) is method
    assert not caplog.records


@pytest.mark.parametrize("factorisation", [None, riesz.Gram()], ids=str)
def test_first_in_chunks_at_no_cost_in_accuracy(factorisation, caplog):
    method = riesz.nhb(filter=riesz.Floor(1e-3), factorisation=factorisation)
    chosen = riesz.QRSVD() if factorisation is None else factorisation
    memory = between(method, chosen.in_chunks(16), chosen)
    with caplog.at_level(logging.WARNING, "riesz"):
        limited = run(method=method, memory=memory)
    (record,) = caplog.records
    assert "points at a time: this costs time, but no accuracy" in record.message
    assert all(unit in record.message for unit in ("kB", "would take"))
    np.testing.assert_allclose(limited.theta, run(method=method).theta, rtol=1e-9, atol=1e-10)


def test_then_the_gram_side_with_a_note_of_what_it_costs(caplog):
    method = riesz.nhb(filter=riesz.Floor(1e-3))
    memory = between(method, riesz.Gram(16), riesz.QRSVD(16))
    with caplog.at_level(logging.WARNING, "riesz"):
        limited = run(method=method, memory=memory)
    (record,) = caplog.records
    assert "riesz.Gram(chunk=" in record.message and "squares the condition number" in record.message
    assert "below 2e-16" in record.message and "resolves 5e-32" in record.message
    np.testing.assert_allclose(limited.theta, run(method=method).theta, rtol=1e-8, atol=1e-9)


def test_the_ladder_of_auto(caplog):
    """With a point-wise form that is not the identity, rows before weighting are an array of their own."""
    loss = riesz.pseudo_huber(LOSS.over)
    needs = [predicted(loss, D, THETA, Auto(factorisation=f)) for f in (riesz.QRSVD(), riesz.QRSVD(16), riesz.Gram(16))]
    assert needs == sorted(needs, reverse=True)
    steps = [fitted(loss, D, THETA, riesz.auto(), None, need).factorisation for need in needs]
    assert steps[0] == riesz.QRSVD() and steps[1].points_at_once and isinstance(steps[1], riesz.QRSVD)
    assert isinstance(steps[2], riesz.Cholesky)
    assert len(caplog.records) == 2
    with pytest.raises(MemoryError):
        fitted(loss, D, THETA, riesz.auto(), None, needs[2] - 1)


def test_auto_on_the_gram_side_solves_a_curve_fit():
    """Auto damps by what its factorisation resolves, so that lost digits do not become long steps."""
    x = jnp.linspace(0.0, 3.0, 50)
    data = 2 * jnp.exp(-1.5 * x) + 0.5 + 0.01 * jnp.cos(40 * x)
    decay = lambda theta: lambda x: theta[0] * jnp.exp(-theta[1] * x) + theta[2]
    fit = lambda method: riesz.minimise(
        riesz.least_squares(riesz.points(x, data=data)), decay, jnp.ones(3), method, progress=False
    )
    ends = [fit(method) for method in (riesz.auto(), Auto(factorisation=riesz.Gram(chunk=16)))]
    assert all(end.result.converged for end in ends)
    np.testing.assert_allclose(ends[1].theta, ends[0].theta, rtol=1e-6)


def test_if_nothing_fits_a_sentence_with_the_figures():
    with pytest.raises(MemoryError) as caught:
        run(memory=1000.0)
    sentence = str(caught.value)
    assert len(sentence) <= 250 and sentence.endswith(".") and sentence.count(". ") == 0
    assert "1 kB" in sentence and "memory=" in sentence and "minibatch" in sentence
    thetas = jnp.stack([THETA] * 3)
    with pytest.raises(MemoryError, match="333 bytes for each of 3 runs"):
        riesz.minimise_many(LOSS, D, thetas, riesz.nhb(), memory=1000.0, threads=8, progress=False)


def test_starts_that_run_at_once_share_the_memory(caplog):
    need = predicted(LOSS, D, THETA, riesz.nhb())
    options = {"max_steps": 1, "progress": False, "memory": 1.5 * need}
    thetas = jnp.stack([THETA, THETA])
    riesz.minimise_many(LOSS, D, thetas, riesz.nhb(), threads=1, **options)
    assert not caplog.records
    riesz.minimise_many(LOSS, D, thetas, riesz.nhb(), threads=2, **options)
    assert len(caplog.records) == 1


def test_gigabytes_are_refused_or_streamed_without_being_touched(caplog):
    """200,000 points and 1518 parameters: 2.4 GB per copy of the rows, two copies."""
    D, theta = network((1, 37, 37, 1))
    x = jnp.linspace(-1.0, 1.0, 200_000)
    loss = riesz.least_squares(riesz.points(x, data=x))
    assert predicted(loss, D, theta, riesz.nhb()) > 2 * x.size * theta.size * 8
    method = fitted(loss, D, theta, riesz.nhb(), None, 1e9)
    assert isinstance(method.solver, riesz.Gram) and re.search(r"would take 5\.\d+ GB", caplog.records[0].message)
    before = jax.live_arrays()
    with pytest.raises(MemoryError, match=r"A step takes 5\.\d+ GB, and \d+ MB at least, but .* 100 MB"):
        riesz.minimise(loss, D, theta, riesz.nhb(), memory=1e8, progress=False)
    assert sum(a.nbytes for a in jax.live_arrays()) <= sum(a.nbytes for a in before) + x.nbytes


def test_a_pool_counts(caplog):
    """Christoffel points need the rows of a whole pool, which no factorisation of the step makes smaller."""
    pool = regression(5000).over
    loss = riesz.least_squares(riesz.christoffel(pool, 20))
    key = jax.random.key(0)
    assert predicted(loss, D, THETA, riesz.nhb(), key) > 2 * 5000 * THETA.size * 8
    with pytest.raises(MemoryError):
        riesz.minimise(loss, D, THETA, riesz.nhb(), key=key, memory=1e6, progress=False)


def test_an_integral_of_the_model_counts_once():
    """A normalised density: its integral is one for all points, and not one for each."""
    network, theta = riesz.mlp(jax.random.key(0), (2, 12, 1))
    D = riesz.normalised(network, riesz.gauss_legendre((0.0, 0.0), (1.0, 1.0), 80))
    few, many = (
        predicted(riesz.density_kl(riesz.points(jnp.full((m, 2), 0.5)), D.over), D, theta, riesz.auto())
        for m in (100, 40_000)
    )
    assert many - few < 8 * 39_900 * 20 * theta.size


def test_classical_methods_need_no_rows():
    D, theta = network((2, 8, 8, 1))
    assert predicted(regression(5000), D, theta, riesz.gd()) < 5000 * theta.size * 8


@pytest.mark.parametrize("memory, error", [(-1.0, ValueError), (math.nan, ValueError), ("1 GB", TypeError)])
def test_memory_is_a_positive_number(memory, error):
    with pytest.raises(error, match="memory"):
        run(memory=memory)


@pytest.mark.parametrize("chunk, error", [(0, ValueError), (1.5, TypeError)])
def test_chunks_are_whole_numbers(chunk, error):
    for factorisation in (riesz.QRSVD, riesz.Gram):
        with pytest.raises(error, match="chunk"):
            factorisation(chunk=chunk)


def test_what_is_available(tmp_path, monkeypatch):
    assert 0 < available() < math.inf
    monkeypatch.setattr(_budget, "_free_on_the_system", lambda: 8e9)
    group, nested = _budget._free_in_the_group, _budget._free_in_the_groups
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert group(tmp_path) == 2000.0
    monkeypatch.setattr(_budget, "_free_in_the_groups", lambda: group(tmp_path))
    assert available() == 2000.0
    (tmp_path / "memory.max").write_text("max\n")
    assert available() == 8e9
    assert group(tmp_path / "nowhere") == math.inf
    # A group inside others: the least that any of them leaves.
    for folder, limit in (("outer", "5000"), ("outer/inner", "max")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "memory.max").write_text(limit)
        (tmp_path / folder / "memory.current").write_text("1000")
    (tmp_path / "own").write_text("0::/outer/inner\n")
    assert nested(str(tmp_path), str(tmp_path / "own")) == 4000.0
    assert nested(str(tmp_path), str(tmp_path / "no such file")) == math.inf


class Accelerator:
    """A device with memory of its own."""

    platform = "gpu"

    def memory_stats(self):
        return {"bytes_limit": 5000, "bytes_in_use": 2000}


def test_a_device_with_memory_of_its_own_is_asked(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [Accelerator()])
    assert available() == 3000.0


# What a process really takes.

GROWN = """
import resource, sys
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, riesz
from riesz._running.memory import predicted

def problem(m):
    x = jnp.stack([jnp.linspace(-1.0, 1.0, m), jnp.cos(jnp.arange(1.0 * m))], axis=1)
    return riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x[:, 0])))

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

D, theta = riesz.mlp(jax.random.key(0), (2, 18, 18, 1))
method, factorisation = getattr(riesz, sys.argv[1])(), getattr(riesz, sys.argv[2])(int(sys.argv[3]) or None)
large = problem(40_000)
changed = method.solving(factorisation)
need = predicted(large, D, theta, changed)
riesz.minimise(problem(500), D, theta, changed, max_steps=2, progress=False)
before = peak()
riesz.minimise(large, D, theta, method, max_steps=2, progress=False, memory=need)
print(need, peak() - before)
"""
COMPILING = 64e6
"""Bytes that compiling a step may take."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is in kilobytes on Linux only")
@pytest.mark.parametrize(
    ("method", "factorisation", "chunk"),
    [
        ("ngd", "Gram", 4096),
        *(
            pytest.param(*rung, marks=pytest.mark.slow)
            for rung in itertools.product(["ngd", "auto"], ["QRSVD", "Gram"], [0, 4096])
            if rung[1:] != ("Gram", 0) and rung != ("ngd", "Gram", 4096)
        ),
    ],
)
def test_a_process_grows_by_no_more_than_the_share_leaves_room_for(method, factorisation, chunk):
    """40,000 points and 415 parameters, 133 MB a copy of the rows, with the memory that a rung of the ladder needs."""
    program = [sys.executable, "-c", GROWN, method, factorisation, str(chunk)]
    run = subprocess.run(program, env=ordinary_environment(), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    need, grown = map(int, run.stdout.split())
    assert grown < need / _budget.SHARE + COMPILING
