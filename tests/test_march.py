"""Time in slabs: exact solutions, what slabs share, what stops a march, and what it leaves."""

import json
import os
import signal
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz import Result
from riesz._problem.bound import Bound

key = jax.random.key(0)
line, line0 = riesz.mlp(key, (1, 8, 1))
plane, plane0 = riesz.mlp(key, (2, 6, 1))


def decay(v):
    """u' + u."""
    rate = riesz.derivative(v)
    return lambda t: rate(t) + v(t)


def decaying(t0, t1, before):
    """u' = -u, u(0) = 1."""
    D = riesz.hard_initial(line, 1.0 if before is None else before, t0)
    return riesz.residual(decay, 0.0, riesz.gauss_legendre(t0, t1, 12)), D


def march(slab=decaying, times=(0.0, 1.0, 2.0, 3.0), theta0=line0, **options):
    return riesz.march(slab, times, theta0, **({"progress": False} | options))


def short(**options):
    """Steps that differ by rounding nowhere: quick to make, and far from the end."""
    return march(**({"method": riesz.nhb(filter=riesz.Floor(1e-3)), "max_steps": 40} | options))


def on(v, times, points=9):
    """The values of v at points of [0, 1] at some times, of shape (times, points)."""
    x = jnp.linspace(0.0, 1.0, points)
    pairs = lambda t: jnp.stack([x, jnp.full_like(x, t)], axis=1)
    return x, jnp.stack([jax.jit(jax.vmap(v))(pairs(t)) for t in times])


# ---------------------------------------------------------------------------------------------- hard initial conditions


def nested(network, thetas, times, initial, order):
    """What `hard_initial` says, slab in slab, in the words of its definition."""
    v = initial
    for theta, t0 in zip(thetas, times, strict=True):
        inner = network(theta)

        def v(x, g=v, inner=inner, t0=t0):
            there, t = (lambda t: g(jnp.concatenate([x[:-1], t[None]]))), x[-1]
            if order == 1:
                return there(jnp.asarray(t0)) + (t - t0) * inner(x)
            value, rate = jax.jvp(there, (jnp.asarray(t0),), (jnp.asarray(1.0),))
            return value + rate * (t - t0) + (t - t0) ** 2 * inner(x)

    return v


class TestHardInitial:
    x = jnp.array([0.3, 0.7])
    bump = staticmethod(lambda x: jnp.exp(-(x[0] ** 2)) * (1 + jnp.sin(x[1])))

    @pytest.mark.parametrize("order", [1, 2])
    def test_begins_as_the_function_does(self, order):
        D = riesz.hard_initial(plane, self.bump, 0.4, order)
        v, at = D(plane0), jnp.array([0.3, 0.4])
        assert v(at) == self.bump(at)
        rate = lambda u: riesz.time_derivative(u)(at)
        if order == 2:
            np.testing.assert_allclose(rate(v), rate(self.bump), rtol=1e-15)
        else:
            np.testing.assert_allclose(rate(v), plane(plane0)(at), rtol=1e-15)

    @pytest.mark.parametrize(("slabs", "order"), [(2, 1), (6, 1), (3, 2), (10, 1)])
    def test_what_slabs_add_up_to_is_what_they_say_slab_in_slab(self, slabs, order):
        """With a model that differs from slab to slab, its period say, and a past of every length."""
        wide, _ = riesz.mlp(key, (3, 4, 1))
        thetas = jax.random.normal(key, (slabs, 21))
        times = np.cumsum(np.linspace(0.2, 0.4, slabs))
        before, plain = self.bump, self.bump
        for k in range(slabs):
            D = riesz.hard_initial(riesz.periodic(wide, (2.0 + k, None)), before, times[k], order)
            inner = lambda theta, k=k: riesz.periodic(wide, (2.0 + k, None))(theta)
            plain = nested(inner, thetas[k : k + 1], times[k : k + 1], plain, order)
            before = Bound(D, thetas[k])
        assert D.past.thetas.shape[0] == 8 * -(-(slabs - 1) // 8)
        x = jnp.array([0.3, times[-1] + 0.25])
        looks = lambda v: lambda x: jnp.stack([v(x), riesz.time_derivative(v)(x), riesz.laplacian(v)(x)])
        found, expected = jax.jit(looks(before))(x), jax.jit(looks(plain))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)

    def test_of_other_models_it_is_evaluated_slab_in_slab(self):
        """Where the slab before has another network, another order, or is wrapped, nothing can be added up."""
        small, small0 = riesz.mlp(key, (2, 3, 1))
        first = riesz.hard_initial(small, self.bump, 0.0)
        wrapped = riesz.hard_boundary(riesz.hard_initial(plane, self.bump, 0.0), lambda x: x[0])
        x = jnp.array([0.3, 0.9])
        for D, theta, order in ((first, small0, 1), (wrapped, plane0, 1), (first, small0, 2)):
            v = riesz.hard_initial(plane, Bound(D, theta), 0.5, order)
            assert v.past is None
            expected = nested(plane, [plane0], [0.5], D(theta), order)(x)
            np.testing.assert_allclose(v(plane0)(x), expected, rtol=1e-13)

    def test_of_times_alone_of_vectors_and_from_numbers(self):
        assert riesz.hard_initial(line, 2.0, 1.0)(line0)(1.5) == 2 + 0.5 * line(line0)(1.5)
        pair, pair0 = riesz.mlp(key, (2, 4, 2))
        v = riesz.hard_initial(pair, lambda x: jnp.stack([x[0], x[1]]), 0.25)(pair0)
        np.testing.assert_allclose(v(self.x), np.array([0.3, 0.25]) + 0.45 * pair(pair0)(self.x), rtol=1e-15)

    def test_the_pytree_and_the_start_come_through(self):
        D = riesz.hard_initial(plane, 0.0)
        assert jax.tree.structure(D.params(plane0)) == jax.tree.structure(plane.params(plane0))
        np.testing.assert_array_equal(D.start(key), plane0)


class TestLocalTime:
    def test_the_clock_starts_later(self):
        x, v = jnp.array([0.3, 0.7]), riesz.local_time(plane, 0.5)(plane0)
        np.testing.assert_allclose(v(x), plane(plane0)(jnp.array([0.3, 0.2])), rtol=1e-14)
        np.testing.assert_allclose(riesz.local_time(line, 0.5)(line0)(0.75), line(line0)(0.25), rtol=1e-15)
        assert riesz.local_time(line, 0.5)(line0)(jnp.array([0.75])) == line(line0)(0.25)

    def test_the_past_of_a_slab_has_its_own_clocks(self):
        """As of the model in its own words, for three slabs."""
        times, thetas = (0.0, 0.3, 0.7), jax.random.normal(key, (3, plane0.size))
        before, plain = (lambda x: x[0] ** 2,) * 2
        for theta, t0 in zip(thetas, times, strict=True):
            before = Bound(riesz.hard_initial(riesz.local_time(plane, t0), before, t0), theta)
            plain = nested(lambda theta, t0=t0: riesz.local_time(plane, t0)(theta), [theta], [t0], plain, 1)
        x = jnp.array([0.4, 0.9])
        assert before.D.past.thetas.shape == (8, plane0.size)
        np.testing.assert_allclose(before(x), plain(x), rtol=1e-13)


class TestInitial:
    start = riesz.product(riesz.gauss_legendre(0.0, 1.0, 8), riesz.points([0.4]))
    bump = staticmethod(lambda x: jnp.sin(3 * x[0]) * jnp.exp(-x[1]))

    def test_is_the_squared_distance_there(self):
        """Of the functions and, of second order, of their derivatives in time: integrals that have a closed form."""
        v = lambda x: self.bump(x) + x[0] * x[1]  # x_0 (0.4, 1) apart
        assert float(riesz.initial(self.bump, self.start)(v)) == pytest.approx(0.5 * 0.16 / 3, rel=1e-12)
        assert float(riesz.initial(self.bump, self.start, 2)(v)) == pytest.approx(0.5 * 1.16 / 3, rel=1e-12)

    def test_of_numbers_vectors_and_times(self):
        now = riesz.points([2.0])
        assert float(riesz.initial(1.0, now)(lambda t: 1.0 + t)) == 2.0
        assert float(riesz.initial(lambda t: jnp.stack([t, -t]), now, 2)(lambda t: jnp.stack([t, 0 * t]))) == 2.5


# ------------------------------------------------------------------------------------------------------ exact solutions


def test_an_oscillation_keeps_its_digits_over_many_slabs():
    """u'' = -u from u = 0, u' = 1, in five slabs with 31 parameters each: sin."""
    network, theta0 = riesz.mlp(key, (1, 10, 1))

    def oscillator(v):
        curved = riesz.derivative(riesz.derivative(v))
        return lambda t: curved(t) + v(t)

    def slab(t0, t1, before):
        D = riesz.hard_initial(network, before or (lambda t: t), t0, order=2)
        return riesz.residual(oscillator, 0.0, riesz.gauss_legendre(t0, t1, 30)), D

    solution = march(slab, np.linspace(0, 10, 6), theta0)
    t = jnp.linspace(0.0, 10.0, 201)
    np.testing.assert_allclose(jax.vmap(solution.function)(t), jnp.sin(t), atol=1e-11)
    np.testing.assert_allclose(jax.vmap(riesz.derivative(solution.function))(t), jnp.cos(t), atol=1e-10)
    assert solution.result.converged and all(result.converged for result in solution.results)


@pytest.mark.slow
def test_heat_cools_slab_by_slab():
    """u_t = u_xx / 4 on (0, 1), zero at the ends: exp(-pi^2 t / 4) sin(pi x), in three slabs with 41 parameters."""
    network, theta0 = riesz.mlp(key, (2, 10, 1))
    inner = riesz.hard_boundary(network, riesz.box_bubble((0.0, None), (1.0, None)))
    bump = lambda x: jnp.sin(jnp.pi * x[0])

    def heat(v):
        rate, diffusion = riesz.time_derivative(v), riesz.spatial(riesz.laplacian)(v)
        return lambda x: rate(x) - 0.25 * diffusion(x)

    def slab(t0, t1, before):
        over = riesz.gauss_legendre((0.0, t0), (1.0, t1), (12, 6))
        return riesz.residual(heat, 0.0, over), riesz.hard_initial(inner, before or bump, t0)

    solution = march(slab, np.linspace(0, 1, 4), theta0, method=riesz.auto(long=False), max_steps=200)
    times = np.linspace(0, 1, 9)
    x, found = on(solution.function, times)
    exact = np.exp(-(np.pi**2) * times[:, None] / 4) * np.sin(np.pi * x)
    np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.slow
def test_a_wave_in_two_slabs():
    """u_tt = 4 u_xx on (0, 1), zero at the ends, from sin(pi x) at rest: sin(pi x) cos(2 pi t), to half a period."""
    network, theta0 = riesz.mlp(key, (2, 10, 1))
    inner = riesz.hard_boundary(network, riesz.box_bubble((0.0, None), (1.0, None)))
    bump = lambda x: jnp.sin(jnp.pi * x[0])

    def wave(v):
        bent, curved = riesz.partial(1, 1)(v), riesz.partial(0, 0)(v)
        return lambda x: bent(x) - 4 * curved(x)

    def slab(t0, t1, before):
        over = riesz.gauss_legendre((0.0, t0), (1.0, t1), (12, 8))
        return riesz.residual(wave, 0.0, over), riesz.hard_initial(inner, before or bump, t0, order=2)

    solution = march(slab, (0.0, 0.25, 0.5), theta0, max_steps=200)
    times = np.linspace(0, 0.5, 9)
    x, found = on(solution.function, times)
    np.testing.assert_allclose(found, np.cos(2 * np.pi * times)[:, None] * np.sin(np.pi * x), atol=1e-5)


def logistic(v):
    """u' - u (1 - u)."""
    rate = riesz.derivative(v)
    return lambda t: rate(t) - v(t) * (1 - v(t))


def weakly(t0, t1, before):
    """u' = u (1 - u), u(0) = 1/2, the start as one datum."""
    start = riesz.initial(0.5 if before is None else before, riesz.points([t0]))
    return riesz.residual(logistic, 0.0, riesz.gauss_legendre(t0, t1, 12)) + 10.0 * start, riesz.local_time(line, t0)


def test_a_start_that_is_a_term_of_the_loss():
    """The logistic equation, nonlinear: 1 / (1 + exp(-t))."""
    solution = march(weakly, (0.0, 1.0, 2.0, 3.0))
    t = jnp.linspace(0.0, 3.0, 61)
    np.testing.assert_allclose(jax.vmap(solution.function)(t), 1 / (1 + jnp.exp(-t)), atol=1e-10)


# ------------------------------------------------------------------------------------------------------- one program


def compiled_slabs(slab, caplog, **options):
    """In which slabs of a march a program of the solver was compiled, with the solution."""
    seen = []

    def watched(t0, t1, before):
        seen.append(len(caplog.records))
        return slab(t0, t1, before)

    with jax.log_compiles(), caplog.at_level("WARNING"):
        solution = short(slab=watched, max_steps=5, **options)
    pairs = zip(seen, [*seen[1:], len(caplog.records)], strict=True)
    messages = [[record.getMessage() for record in caplog.records[a:b]] for a, b in pairs]
    return [any("Compiling jit(program)" in text for text in slab) for slab in messages], solution


def test_slabs_share_their_programs(caplog):
    """With the start as data all slabs do; with one that is built in, the first has no past."""
    network, theta0 = riesz.mlp(jax.random.key(1), (1, 7, 1))  # nobody else has compiled for it
    own = lambda v: decay(v)

    def built_in(t0, t1, before):
        D = riesz.hard_initial(network, 1.0 if before is None else before, t0)
        return riesz.residual(own, 0.0, riesz.gauss_legendre(t0, t1, 12)), D

    def weak(t0, t1, before):
        start = riesz.initial(1.0 if before is None else before, riesz.points([t0]))
        return riesz.residual(own, 0.0, riesz.gauss_legendre(t0, t1, 12)) + start, riesz.local_time(network, t0)

    times = np.arange(7.0)
    compiled, solution = compiled_slabs(built_in, caplog, times=times, theta0=theta0)
    assert compiled == [True, True, False, False, False, False]
    assert not any("anew" in note for note in solution.notes)
    compiled, _ = compiled_slabs(weak, caplog, times=times, theta0=theta0)
    assert compiled == [True, False, False, False, False, False]


def test_functions_that_are_made_in_every_slab_are_told(caplog):
    def slab(t0, t1, before):
        fresh = lambda v: decay(v)
        D = riesz.hard_initial(line, 1.0 if before is None else before, t0)
        return riesz.residual(fresh, 0.0, riesz.gauss_legendre(t0, t1, 12)), D

    compiled, solution = compiled_slabs(slab, caplog, times=(0.0, 1.0, 2.0, 3.0, 4.0))
    assert compiled == [True] * 4
    (note,) = [note for note in solution.notes if "anew" in note]
    assert note.endswith("test_functions_that_are_made_in_every_slab_are_told.<locals>.slab.<locals>.<lambda>.")


# --------------------------------------------------------------------------------------------------- the whole function


@pytest.fixture(scope="module")
def solution():
    return short()


class TestFunction:
    def test_is_the_earlier_slab_at_a_time_between_two(self, solution):
        """Also where it is compiled, or asked at many times; outside it is the nearest."""
        v = solution.function
        pieces = [slab.function for slab in solution.slabs]
        for t, k in ((-0.5, 0), (0.0, 0), (0.3, 0), (1.0, 0), (1.0 + 1e-15, 1), (2.0, 1), (2.5, 2), (3.0, 2), (4.0, 2)):
            assert v(t) == pieces[k](t) == v(jnp.array([t])), t
            np.testing.assert_allclose(jax.jit(v)(t), pieces[k](t), rtol=1e-14, atol=1e-15)
        t = jnp.linspace(-1.0, 4.0, 21)
        expected = [float(v(s)) for s in t]
        np.testing.assert_allclose(jax.vmap(v)(t), expected, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(jax.jit(jax.vmap(v))(t), expected, rtol=1e-14, atol=1e-15)

    def test_can_be_differentiated(self, solution):
        t = jnp.array([0.5, 1.0, 1.5, 2.5])
        owners = [0, 0, 1, 2]
        for operator in (riesz.derivative, riesz.laplacian, jax.grad):
            found = jax.vmap(operator(solution.function))(t)
            expected = [operator(solution.slabs[k].function)(s) for k, s in zip(owners, t, strict=True)]
            np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_is_a_module_that_can_be_passed(self, solution):
        value = eqx.filter_jit(lambda v, t: v(t))
        np.testing.assert_allclose(value(solution.function, 1.5), solution.function(1.5), rtol=1e-14)


def test_a_slab_starts_from_the_parameters_of_the_one_before():
    seen = []

    def slab(t0, t1, before):
        seen.append((float(t0), float(t1), before))
        return decaying(t0, t1, before)

    solution = short(slab=slab)
    assert [pair[:2] for pair in seen] == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)] and seen[0][2] is None
    alone = riesz.minimise(
        *decaying(jnp.asarray(1.0), jnp.asarray(2.0), seen[1][2]),
        solution.slabs[0].theta,
        riesz.nhb(filter=riesz.Floor(1e-3)),
        max_steps=40,
        progress=False,
    )
    np.testing.assert_array_equal(alone.theta, solution.slabs[1].theta)
    t = jnp.asarray(1.3)
    assert seen[2][2](t) == solution.slabs[1].function(t)


def test_models_in_all_the_ways_that_minimise_takes():
    """A module that carries its parameters, and a function of parameters: the same numbers as their parametrisation."""

    class Wave(eqx.Module):
        a: jax.Array
        b: jax.Array

        def __call__(self, t):
            return jnp.tanh(self.a * t + self.b)

    module = Wave(jnp.asarray(0.3), jnp.asarray(0.1))
    apply, params = lambda p, t: jnp.tanh(p["a"] * t + p["b"]), {"a": 0.3, "b": 0.1}
    by = lambda D: lambda t0, t1, before: (weakly(t0, t1, before)[0], D)
    expected = short(slab=by(riesz.parametrise(module)[0]), theta0=jnp.array([0.3, 0.1]))
    for D, theta0 in ((module, None), (apply, params)):
        found = short(slab=by(D), theta0=theta0)
        for one, other in zip(found.slabs, expected.slabs, strict=True):
            np.testing.assert_allclose(one.theta, other.theta, rtol=1e-12)


def test_every_slab_draws_points_of_its_own():
    seen = []

    def slab(t0, t1, before):
        seen.append((riesz.residual(decay, 0.0, riesz.monte_carlo(t0, t1, 20)), decaying(t0, t1, before)[1]))
        return seen[-1]

    solution = short(slab=slab, key=key, max_steps=5)
    alone = riesz.minimise(
        *seen[1],
        solution.slabs[0].theta,
        riesz.nhb(filter=riesz.Floor(1e-3)),
        key=jax.random.fold_in(key, 1),
        max_steps=5,
        progress=False,
    )
    np.testing.assert_array_equal(alone.history["loss"], solution.slabs[1].history["loss"])


# ---------------------------------------------------------------------------------------------------- what it leaves


def test_the_record_of_all_slabs():
    solution = short()
    assert repr(solution).startswith("MarchSolution(3 slabs, t=0 to 3, highest loss=")
    assert solution.steps == 120 == sum(slab.steps for slab in solution.slabs)
    assert solution.results == (Result.STEP_LIMIT,) * 3 and solution.result is Result.STEP_LIMIT
    assert solution.seconds == pytest.approx(sum(slab.history["seconds"][-1] for slab in solution.slabs))
    table = solution.table()
    assert next(iter(table)) == "slab" and {column.shape for column in table.values()} == {(123,)}
    for k, slab in enumerate(solution.slabs):
        np.testing.assert_array_equal(table["loss"][table["slab"] == k], slab.history["loss"])
    assert any(note.startswith("Slabs 0, 1, 2: not converged (STEP_LIMIT)") for note in solution.notes)
    rows = solution.summary().splitlines()
    assert rows[1].startswith("slab 1  1 to 2  STEP_LIMIT  loss ") and "40 steps" in rows[1]
    assert rows[3].startswith("- ")


def test_notes_name_their_slabs():
    """The note of one slab alone is told of that one, the same note of several is told once."""
    solution = march(max_steps=1000)
    for k, slab in enumerate(solution.slabs):
        for note in slab.notes:
            (told,) = [line for line in solution.notes if line.endswith(f": {note}")]
            assert str(k) in told.split(":")[0]


def test_the_verdict_is_that_of_a_slab_that_has_not_converged():
    def slab(t0, t1, before):
        loss, D = decaying(t0, t1, before)
        return (loss if 1 <= t0 < 2 else 1e-30 * loss), D

    solution = march(slab, target=1e-25, max_steps=3)
    assert solution.results == (Result.TARGET_REACHED, Result.STEP_LIMIT, Result.TARGET_REACHED)
    assert solution.result is Result.STEP_LIMIT
    assert any(note.startswith("Slab 1: not converged (STEP_LIMIT)") for note in solution.notes)


def test_logs_have_their_slabs(tmp_path):
    rows = []
    solution = short(log=[tmp_path / "run.jsonl", rows.append])
    table = solution.table()
    np.testing.assert_array_equal([row["slab"] for row in rows], table["slab"])
    np.testing.assert_array_equal([row["loss"] for row in rows], table["loss"])
    for k, slab in enumerate(solution.slabs):
        lines = (tmp_path / f"run.slab-{k}.jsonl").read_text().splitlines()
        np.testing.assert_array_equal([json.loads(line)["loss"] for line in lines], slab.history["loss"])


def test_one_progress_bar(capsys):
    short(progress="auto")
    assert capsys.readouterr().err == ""
    solution = short(progress=True)
    shown = capsys.readouterr().err
    assert "120/120" in shown and "slab 2 of 3" in shown and f"loss={float(solution.slabs[2].loss):.3e}" in shown
    short(progress=True, target=1e3)  # reached at the start of each
    assert "120" not in capsys.readouterr().err.splitlines()[-1]


# ------------------------------------------------------------------------------------------------------ what stops it


def stop_in(slab, steps, act=lambda: True):
    """A callback that acts when a slab has made so many steps; None for all of them."""

    def callback(total, so_far):
        assert total == so_far.steps
        now = so_far.slabs[-1]
        late = now.result is not Result.RUNNING if steps is None else now.steps >= steps
        return act() if late and len(so_far.slabs) == slab + 1 else None

    return callback


def interrupt():
    raise KeyboardInterrupt


STOPS = {
    "callback": (stop_in(1, 8), Result.STOPPED_BY_CALLBACK),
    "interruption": (stop_in(1, 8, interrupt), Result.INTERRUPTED),
}


@pytest.mark.parametrize(("callback", "result"), STOPS.values(), ids=STOPS.keys())
def test_what_is_stopped_returns_the_slabs_that_were_made(callback, result):
    whole, solution = short(), short(callback=callback)
    assert solution.results == (Result.STEP_LIMIT, result) and solution.result is result
    np.testing.assert_array_equal(solution.times, [0.0, 1.0, 2.0])
    assert solution.notes[-1] == f"The march was stopped at slab 1 of 0 to 2 ({result.name})."
    np.testing.assert_array_equal(solution.slabs[0].theta, whole.slabs[0].theta)
    steps = solution.slabs[1].steps
    assert 8 <= steps < 40
    np.testing.assert_array_equal(solution.slabs[1].history["loss"], whole.slabs[1].history["loss"][: steps + 1])
    assert solution.function(1.5) == solution.slabs[1].function(1.5) == solution.function(1.5)


def test_a_wish_at_the_end_of_a_slab_makes_no_other_one():
    """The callback says stop with the last step of a slab, whose own result stands."""
    solution = short(callback=stop_in(0, None))
    assert solution.results == (Result.STEP_LIMIT,) and solution.result is Result.STOPPED_BY_CALLBACK
    assert solution.notes[-1].startswith("The march was stopped at slab 0 of 0 to 2")


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_ctrl_c_between_two_slabs_returns_the_first():
    def slab(t0, t1, before):
        if before is not None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return decaying(t0, t1, before)

    solution = short(slab=slab)
    assert len(solution.slabs) == 1 and solution.result is Result.INTERRUPTED


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_one_ctrl_c_stops_the_march_and_not_only_its_slab():
    solution = short(callback=stop_in(1, 8, lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert solution.results == (Result.STEP_LIMIT, Result.INTERRUPTED)


def test_the_time_limit_is_for_all_slabs_together(monkeypatch):
    """Each chunk takes as long as the clock says, which is a second."""
    clock = iter(np.arange(0.0, 1e6, 0.5))
    monkeypatch.setattr("riesz._running.run.time.perf_counter", lambda: next(clock))
    chunks = lambda solution: solution.seconds / 0.5
    whole = short()
    limit = whole.slabs[0].history["seconds"][-1] + 0.6 * whole.slabs[1].history["seconds"][-1]
    solution = short(max_seconds=limit)
    assert solution.results == (Result.STEP_LIMIT, Result.TIME_LIMIT) and solution.result is Result.TIME_LIMIT
    assert limit <= solution.seconds < whole.seconds and chunks(solution) < chunks(whole)
    exactly = short(max_seconds=whole.slabs[0].history["seconds"][-1] + 1e-9 - 1e-9)
    assert exactly.result is Result.TIME_LIMIT and len(exactly.slabs) == 1


def test_a_slab_that_fails_raises_with_what_there_is():
    def slab(t0, t1, before):
        loss, D = decaying(t0, t1, before)
        return loss * jnp.where(t0 > 0.5, jnp.inf, 1.0), D

    def broken(v):
        return lambda t: jnp.where(t > 1, jnp.nan, 1.0) * decay(v)(t)

    def failing(t0, t1, before):
        return riesz.residual(broken, 0.0, riesz.gauss_legendre(t0, t1, 12)), decaying(t0, t1, before)[1]

    with pytest.raises(riesz.SolveError, match=r"^In slab 1, from t = 1 to 2: The loss is not finite at") as caught:
        short(slab=failing)
    found = caught.value.solution
    assert found.results == (Result.STEP_LIMIT, Result.NONFINITE_INPUT) and found.result is Result.NONFINITE_INPUT
    assert isinstance(found, riesz.MarchSolution)
    quiet = short(slab=failing, throw=False)
    assert quiet.results == found.results and "(NONFINITE_INPUT)" in quiet.notes[-1]


def test_an_error_in_a_later_slab_costs_no_earlier_one():
    def slab(t0, t1, before):
        if t0 > 1.5:
            raise LookupError("the user's own.")
        return decaying(t0, t1, before)

    with pytest.raises(riesz.SolveError, match=r"^In slab 2, from t = 2 to 3, slab fails: the user's own\.$") as caught:
        short(slab=slab, throw=False)
    assert isinstance(caught.value.__cause__, LookupError) and len(caught.value.solution.slabs) == 2


def test_an_error_in_the_first_slab_is_the_users():
    def slab(t0, t1, before):
        raise LookupError("own")

    with pytest.raises(LookupError, match="own"):
        short(slab=slab)


# ------------------------------------------------------------------------------------------------------- checkpoints


def same(one, other):
    """All bits of two marches, but the time that they took."""
    assert one.results == other.results
    for a, b in zip(one.slabs, other.slabs, strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        np.testing.assert_array_equal(a.last, b.last)
        for name in set(a.history) - {"seconds"}:
            np.testing.assert_array_equal(a.history[name], b.history[name], err_msg=name)


@pytest.mark.parametrize("where", [(0, 8), (1, 8), (1, None), (2, 1)], ids=["first", "second", "between", "third"])
def test_an_interrupted_march_goes_on_with_the_same_bits(tmp_path, where):
    folder, options = tmp_path / "run", {"method": None}
    expected = short(**options)
    stopped = short(**options, checkpoint=folder, callback=stop_in(*where, interrupt))
    assert stopped.result is Result.INTERRUPTED and len(stopped.slabs) == where[0] + 1
    same(short(**options, checkpoint=riesz.Checkpoint(folder)), expected)
    made = []
    again = short(**options, checkpoint=folder, callback=lambda *told: made.append(told))
    same(again, expected)
    assert not made  # all slabs were read
    assert sorted(path.name for path in folder.iterdir()) == ["slab-0", "slab-1", "slab-2"]


def test_more_times_go_on_from_the_end(tmp_path):
    expected = short(times=(0.0, 1.0, 2.0, 3.0))
    short(times=(0.0, 1.0, 2.0), checkpoint=tmp_path)
    same(short(times=(0.0, 1.0, 2.0, 3.0), checkpoint=tmp_path), expected)


def test_another_march_in_the_folder_is_refused(tmp_path):
    short(checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match=r"slab-1.* is of another loss, data or parametrisation"):
        short(checkpoint=tmp_path, times=(0.0, 1.0, 1.5))
