"""The contract of `minimise` and `minimise_many`: what they return, when they stop, what they never do.

Nearly all tests share three compiled programs: a smooth fit, a fit on drawn points, and a parabola behind a wall
where the loss is not a number.
"""

import itertools
import os
import signal
import subprocess
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz import Result
from riesz._running import run as _run

STEP_COLUMNS = {"gradient_norm", "step_norm", "alpha", "scale", "rank", "accepted"}


# ------------------------------------------------------------------------------------------- a smooth fit

TRACES = {"ripple": 0}


def ripple(p, x):
    TRACES["ripple"] += 1
    return p["a"] * jnp.sin(p["b"] * x) + p["c"]


def ripple_model():
    return riesz.parametrise(ripple, {"a": jnp.array(0.4), "b": jnp.array(0.9), "c": jnp.array(0.1)})


D, THETA = ripple_model()
X = jnp.linspace(0.0, 2.0, 21)
LOSS = riesz.least_squares(riesz.points(X, data=0.8 * jnp.sin(1.7 * X) - 0.2 + 0.05 * jnp.cos(20 * X)))
METHOD = riesz.nhb(filter=riesz.Floor(1e-3), step_size=riesz.Clipped(0.05))


def size(theta):
    return jnp.linalg.norm(theta)


def height(theta):
    return (theta[0] - 0.8) ** 2


def pitch(theta):
    return (theta[1] - 1.7) ** 2


METRICS = {"size": size, "height": height, "pitch": pitch}


def fit(max_steps=40, theta=THETA, method=METHOD, **options):
    return riesz.minimise(LOSS, D, theta, method, max_steps=max_steps, progress=False, **options)


@pytest.fixture(scope="module")
def full():
    """A run of 100 steps, with which shorter ones are compared bit by bit."""
    return fit(100, metrics=METRICS)


@eqx.filter_jit
def hand_step(method, loss, D, theta, state):
    return method.step(loss, D, theta, state, method.draw(loss, D, theta))


@pytest.fixture(scope="module")
def by_hand():
    """The first 12 iterates, and what their steps told, from the method's own verbs."""
    theta, state, thetas, infos = THETA, METHOD.init(THETA), [THETA], []
    for _ in range(12):
        theta, state, info = hand_step(METHOD, LOSS, D, theta, state)
        thetas.append(theta)
        infos.append(info)
    return thetas, jax.tree.map(lambda *column: np.array(column), *infos)


def same(one, other):
    """Two solutions that agree bit by bit, their times aside."""
    np.testing.assert_array_equal(one.theta, other.theta)
    np.testing.assert_array_equal(one.last, other.last)
    np.testing.assert_array_equal(one.loss, other.loss)
    assert one.steps == other.steps and one.result is other.result
    assert set(one.history) == set(other.history)
    for name in set(one.history) - {"seconds"}:
        np.testing.assert_array_equal(one.history[name], other.history[name], err_msg=name)


def test_history_is_what_the_steps_tell(full, by_hand):
    """history["loss"][k] is the loss before step k; every other column is the step's own info."""
    thetas, info = by_hand
    history = full.history
    np.testing.assert_allclose(history["loss"][:12], info.loss, rtol=1e-9)
    np.testing.assert_allclose(history["loss"][12], LOSS(D(thetas[12])), rtol=1e-9)
    for name in ("gradient_norm", "step_norm", "alpha", "rank", "accepted"):
        np.testing.assert_allclose(history[name][:12], getattr(info, name), rtol=1e-7, err_msg=name)
    gradient = jax.grad(lambda theta: LOSS(D(theta)))
    for k in (0, 3):
        np.testing.assert_allclose(history["gradient_norm"][k], jnp.linalg.norm(gradient(thetas[k])), rtol=1e-9)
        np.testing.assert_allclose(history["step_norm"][k], jnp.linalg.norm(thetas[k + 1] - thetas[k]), rtol=1e-7)


@pytest.mark.parametrize("steps", [0, 1, 2, 31, 32, 33, 100])
def test_the_step_limit_and_the_lengths_of_columns(full, steps):
    """loss, seconds and metrics have steps + 1 entries, what belongs to a step has `steps`; a limit never raises."""
    solution = fit(steps, metrics=METRICS)
    assert solution.steps == steps and solution.result is Result.STEP_LIMIT
    for name in ("loss", "seconds", *METRICS):
        assert solution.history[name].shape == (steps + 1,), name
    for name in STEP_COLUMNS & set(solution.history):
        assert solution.history[name].shape == (steps,), name
    for name in set(solution.history) - {"seconds"}:
        np.testing.assert_array_equal(solution.history[name], full.history[name][: solution.history[name].size])


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": 3}, {"target": 1e9}])
def test_the_history_has_all_its_columns(options):
    """Also after no step at all, so that a plot of the step size needs no special case."""
    solution = fit(**options)
    assert set(solution.history) == {"loss", "seconds"} | STEP_COLUMNS
    for name in STEP_COLUMNS:
        assert solution.history[name].shape == (solution.steps,)


def test_a_run_without_tolerance_stops_at_no_step_size():
    """None leaves convergence to the method: a run at its minimiser, close to zero, goes on to the step limit."""
    best = fit(100).theta
    assert float(jnp.linalg.norm(0.1 * best)) < 1
    solution = riesz.minimise(LOSS, scaled, 0.1 * best, METHOD, max_steps=5, progress=False)
    assert solution.steps == 5 and solution.result is Result.STEP_LIMIT


def scaled(theta):
    return D(10.0 * theta)


def test_the_best_and_the_last_iterate(full):
    """On fixed points theta is the best iterate, `last` where the method stands."""
    history = full.history["loss"]
    assert float(full.loss) == history.min()
    np.testing.assert_allclose(LOSS(D(full.theta)), full.loss, rtol=1e-12)
    np.testing.assert_allclose(LOSS(D(full.last)), history[-1], rtol=1e-12)
    np.testing.assert_allclose(full.function(X[3]), D(full.theta)(X[3]), rtol=0)

    wild = fit(30, method=riesz.nhb(beta=0.9, filter=riesz.Floor(1e-3), step_size=riesz.Clipped(3.0)))
    history = wild.history["loss"]
    assert float(wild.loss) == history.min() < history[-1], "here the best must not be the last"
    np.testing.assert_allclose(LOSS(D(wild.theta)), wild.loss, rtol=1e-12)
    np.testing.assert_allclose(LOSS(D(wild.last)), history[-1], rtol=1e-12)


def test_going_on_from_last():
    """`last` is a start: without momentum, two short runs are one long run."""
    method = riesz.nhb(beta=0.0, filter=riesz.Floor(1e-3), step_size=riesz.Clipped(0.3))
    whole = fit(9, method=method)
    first = fit(4, method=method)
    second = fit(5, theta=first.last, method=method)
    joined = np.concatenate([first.history["loss"], second.history["loss"][1:]])
    np.testing.assert_allclose(joined, whole.history["loss"], rtol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 50, 64, 65])
def test_a_target_stops_at_the_first_iterate_that_reaches_it(full, k):
    """Wherever the boundaries of compiled chunks lie, and without a step from a start that is good enough."""
    losses = full.history["loss"]
    first = int(np.argmax(losses <= losses[k]))
    assert first == k, "the loss must fall for this test to try the boundaries of chunks"
    solution = fit(100, target=float(losses[k]))
    assert solution.steps == first and solution.result is Result.TARGET_REACHED
    np.testing.assert_array_equal(solution.history["loss"], losses[: first + 1])

    heights = full.history["height"]
    first = int(np.argmax(heights <= heights[k]))
    solution = fit(100, target={"height": float(heights[k])}, metrics=METRICS)
    assert solution.steps == first and solution.result is Result.TARGET_REACHED
    np.testing.assert_array_equal(solution.history["height"], heights[: first + 1])
    np.testing.assert_array_equal(solution.history["size"], full.history["size"][: first + 1])
    np.testing.assert_array_equal(solution.history["loss"], losses[: first + 1])
    assert solution.history["alpha"].shape == (first,)
    np.testing.assert_allclose(size(solution.last), solution.history["size"][-1], rtol=1e-14)


def test_several_metric_targets_must_all_be_reached(full):
    for late in ("height", "pitch"):
        target = {name: float(full.history[name][33 if name == late else 10]) for name in ("height", "pitch")}
        reached = np.array([full.history[name] <= target[name] for name in target]).all(axis=0)
        first = int(np.argmax(reached))
        assert first > 10
        solution = fit(100, target=target, metrics=METRICS)
        assert solution.steps == first and solution.result is Result.TARGET_REACHED


def test_a_missed_target_does_not_raise():
    for options in ({"target": -1.0}, {"target": {"height": -1.0}, "metrics": METRICS}):
        solution = fit(3, **options)
        assert solution.steps == 3 and solution.result is Result.STEP_LIMIT


def test_metrics_are_their_functions_at_every_iterate(full, by_hand):
    thetas, _ = by_hand
    np.testing.assert_allclose(full.history["size"][:13], [size(theta) for theta in thetas], rtol=1e-9)
    np.testing.assert_allclose(full.history["height"][:13], [height(theta) for theta in thetas], rtol=1e-7)


def test_metrics_do_not_change_the_run(full):
    plain = fit(100)
    for name in plain.history:
        if name != "seconds":
            np.testing.assert_array_equal(plain.history[name], full.history[name])


@pytest.mark.parametrize("tolerance", [3e-2, 1e-3, 1e-5])
def test_tolerance(full, tolerance):
    """Stop at the first step with |step| <= t (|theta| + t)."""
    history = full.history
    small = history["step_norm"] <= tolerance * (history["size"][1:] + tolerance)
    assert small.any() and not small[0]
    solution = fit(100, tolerance=tolerance)
    assert solution.steps == int(np.argmax(small)) + 1 and solution.result is Result.CONVERGED_STEP


def test_tolerance_of_the_gradient(full):
    """Stop at the first step whose gradient is at most the tolerance."""
    tolerance = float(np.median(full.history["gradient_norm"]))
    first = int(np.argmax(full.history["gradient_norm"] <= tolerance)) + 1
    solution = fit(100, tolerance={"gradient": tolerance})
    assert solution.steps == first > 1 and solution.result is Result.CONVERGED_GRADIENT


def test_tolerance_of_the_loss(full):
    """Stop after five steps in a row that change the loss by at most a share of it."""
    loss = full.history["loss"]
    change = np.abs(np.diff(loss)) / loss[:-1]
    tolerance = float(np.quantile(change, 0.5))
    rows = np.convolve(change <= tolerance, np.ones(5), "valid") == 5
    assert rows.any() and not rows[0]
    solution = fit(100, tolerance={"loss": tolerance, "step": 0.0})
    assert solution.steps == int(np.argmax(rows)) + 5 and solution.result is Result.CONVERGED_LOSS


def test_every_result_is_a_sentence():
    """It ends with a full stop; what is not a success says what to do next, after a semicolon."""
    for result in Result:
        assert str(result).endswith(".") and str(result)[0].isupper()
        assert not (result.converged and result.failed)
        success = result.converged or result in (Result.RUNNING, Result.TARGET_REACHED, Result.STOPPED_BY_CALLBACK)
        assert success or ";" in str(result), result


def test_seconds_are_a_clock(full):
    seconds = full.history["seconds"]
    assert seconds[0] == 0 and np.all(np.diff(seconds) > 0) and seconds[-1] < 60


def test_the_time_limit_stops_between_chunks():
    solution = fit(100_000, max_seconds=1e-9)
    assert solution.result is Result.TIME_LIMIT
    assert 1 <= solution.steps <= 32
    assert solution.history["loss"].shape == (solution.steps + 1,)


def test_a_target_reached_in_time_is_not_a_time_limit(full):
    solution = fit(100, target=float(full.history["loss"][1]), max_seconds=1e-9)
    assert solution.result is Result.TARGET_REACHED


def test_the_callback_sees_the_run_grow(full):
    seen = []
    fit(100, callback=lambda step, solution: seen.append((step, solution)))
    steps = [step for step, _ in seen]
    assert steps[-1] == 100 and np.all(np.diff(steps) > 0) and max(np.diff([0, *steps])) <= 32
    assert len(steps) > 3
    for step, solution in seen:
        assert solution.steps == step
        np.testing.assert_array_equal(solution.history["loss"], full.history["loss"][: step + 1])
        assert float(solution.loss) == solution.history["loss"].min()
    assert [solution.result for _, solution in seen[:-1]] == [Result.RUNNING] * (len(seen) - 1)


def test_the_callback_stops_the_run(full):
    solution = fit(100, callback=lambda step, _: step >= 10)
    assert solution.result is Result.STOPPED_BY_CALLBACK and 10 <= solution.steps < 42
    np.testing.assert_array_equal(solution.history["loss"], full.history["loss"][: solution.steps + 1])


@pytest.mark.parametrize("true", [np.True_, jnp.asarray(True), np.array(True)], ids=["scalar", "jax", "numpy"])
def test_a_comparison_of_arrays_stops_a_run(true):
    assert fit(42, callback=lambda steps, solution: true).steps == 1
    assert fit(42, callback=lambda steps, solution: ~true).steps == 42


@pytest.mark.parametrize("answer", [None, False, 0, "go on", []])
def test_only_true_stops(answer):
    assert fit(5, callback=lambda step, solution: answer).result is Result.STEP_LIMIT


def test_a_callback_does_not_overrule_a_target(full):
    solution = fit(100, target=float(full.history["loss"][1]), callback=lambda step, solution: True)
    assert solution.result is Result.TARGET_REACHED


def test_an_error_in_the_callback_is_the_users():
    def broken(step, solution):
        raise LookupError("the user's own")

    with pytest.raises(LookupError, match="own"):
        fit(callback=broken)


def test_ctrl_c_returns_what_there_is(full):
    def interrupt(step, solution):
        if step >= 8:
            raise KeyboardInterrupt

    solution = fit(100, callback=interrupt)
    assert solution.result is Result.INTERRUPTED and solution.steps >= 8
    np.testing.assert_array_equal(solution.history["loss"], full.history["loss"][: solution.steps + 1])
    assert float(solution.loss) == solution.history["loss"].min()


def interrupt_while_recording(monkeypatch, call):
    """Send SIGINT while the host writes down a chunk, the worst moment for it to come: between two columns."""
    measure, calls = _run.measure, itertools.count(1)

    def interrupted(*arguments, **options):
        columns = measure(*arguments, **options)
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return columns

    monkeypatch.setattr(_run, "measure", interrupted)


in_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)


@in_main_thread
def test_ctrl_c_leaves_a_consistent_history(full, monkeypatch):
    interrupt_while_recording(monkeypatch, call=6)
    solution = fit(20_000, metrics=METRICS)
    assert solution.result is Result.INTERRUPTED and 4 <= solution.steps < 100
    for name in ("loss", "seconds", *METRICS):
        assert solution.history[name].shape == (solution.steps + 1,), name
    for name in STEP_COLUMNS:
        assert solution.history[name].shape == (solution.steps,), name
    np.testing.assert_array_equal(solution.history["loss"], full.history["loss"][: solution.steps + 1])
    np.testing.assert_allclose(size(solution.last), solution.history["size"][-1], rtol=1e-14)


@in_main_thread
def test_ctrl_c_stops_many_starts(monkeypatch):
    interrupt_while_recording(monkeypatch, call=20)
    many = fit_many(max_steps=200_000, metrics=METRICS, threads=2)
    assert set(many.result) == {Result.INTERRUPTED} and np.all(many.steps < 200_000)
    assert all(column.shape == (4, many.steps.max() + 1) for column in many.history.values())


def test_methods_by_name():
    """A name is the method with its defaults, and no method is `auto()`."""
    same(fit(4, method="nhb"), fit(4, method=riesz.nhb()))
    same(fit(4, method="auto"), fit(4, method=None))


def test_the_progress_bar(capsys):
    fit(5)
    fit_on = lambda progress: riesz.minimise(LOSS, D, THETA, METHOD, max_steps=5, progress=progress)
    fit_on(False)
    fit_on("auto")
    quiet = capsys.readouterr()
    assert quiet.out == "" and quiet.err == ""
    solution = fit_on(True)
    shown = capsys.readouterr()
    assert shown.out == "" and f"loss={float(solution.loss):.3e}" in shown.err and "5/5" in shown.err
    riesz.minimise_many(LOSS, D, THETA[None], METHOD, max_steps=5, progress=True)
    assert f"best={float(solution.loss):.3e}" in capsys.readouterr().err


def test_solutions_print_in_one_line(full):
    assert "steps=100" in repr(full) and "STEP_LIMIT" in repr(full) and "\n" not in repr(full)


FLOAT32 = """
import warnings
import jax.numpy as jnp
import riesz

x = jnp.linspace(0.0, 1.0, 5)
loss = riesz.least_squares(riesz.points(x, data=2 * x))
D, theta0 = riesz.linear(lambda x: x[None], 1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        solution = riesz.minimise(loss, D, theta0, riesz.gd(), max_steps=1, progress=False)
assert solution.theta.dtype == jnp.float32, solution.theta.dtype
(warning,) = caught
print(warning.message)
print(warning.filename)
"""


def test_float32_warns_once_with_the_line_to_add():
    """In a process of its own, where nobody has switched float64 on: the warning points at the user's line."""
    environment = {**os.environ, "JAX_ENABLE_X64": "0"}
    run = subprocess.run([sys.executable, "-c", FLOAT32], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    message, filename = run.stdout.splitlines()
    assert 'jax.config.update("jax_enable_x64", True)' in message
    assert filename == "<string>"


# --------------------------------------------------------------------------------------- a wall of NaN


def walled(z, wall):
    """A parabola with its minimum at 2, not a number beyond the wall."""
    return jnp.where(z <= wall, 0.5 * (z - 2) ** 2, jnp.nan)


def one(x):
    return jnp.ones(1)


LINE, _ = riesz.linear(one, 1)
FAR = 1e300


def wall_loss(wall):
    return riesz.Integral(walled, riesz.points(jnp.zeros(3), data=jnp.full(3, float(wall))))


def wall_method(alpha, beta=0.0):
    return riesz.nhb(beta=beta, step_size=riesz.Constant(alpha))


def behind(wall, start, alpha, beta=0.0, max_steps=10, **options):
    theta = jnp.array([float(start)])
    loss, method = wall_loss(wall), wall_method(alpha, beta)
    return riesz.minimise(loss, LINE, theta, method, max_steps=max_steps, progress=False, **options)


def test_a_trial_that_is_not_finite_is_rejected():
    """The loss repeats, `accepted` is False, the momentum is dropped and the step shortened; then it recovers.

    By hand: 0 -> 1 with alpha = 1/2; then momentum 0.9 leads to 1 + 0.9 + 0.5 = 2.4, behind the wall at 2.2. The
    step after it is a plain gradient step from 1, with a smaller alpha.
    """
    solution = behind(2.2, 0.0, 0.5, 0.9, max_steps=60, metrics={"theta": first_entry})
    history = solution.history
    path = history["theta"]
    np.testing.assert_array_equal(history["accepted"][:3], [True, False, True])
    np.testing.assert_allclose(path[:3], [0.0, 1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(history["loss"][:3], [2.0, 0.5, 0.5], rtol=1e-12)
    assert history["step_norm"][1] == 0
    alpha = history["alpha"][2]
    assert alpha <= 0.25
    np.testing.assert_allclose(path[3], path[2] - alpha * (path[2] - 2.0), rtol=1e-12)

    assert np.all(np.isfinite(history["loss"])) and np.all(path <= 2.2)
    stays = ~history["accepted"]
    np.testing.assert_array_equal(path[1:][stays], path[:-1][stays])
    assert history["alpha"][history["accepted"]].max() == 0.5, "the step must return to its own length"
    assert solution.result is Result.STEP_LIMIT and float(solution.loss) < 1e-3


def first_entry(theta):
    return theta[0]


def test_five_failures_in_a_row_raise_with_the_solution():
    """At the wall, every step to the right leads behind it."""
    with pytest.raises(riesz.SolveError, match="Five trial steps") as caught:
        behind(1.0, 1.0, 0.5)
    solution = caught.value.solution
    assert solution.result is Result.NONFINITE_STEPS and solution.steps == 5
    np.testing.assert_array_equal(solution.history["accepted"], [False] * 5)
    np.testing.assert_array_equal(solution.history["loss"], [0.5] * 6)
    np.testing.assert_array_equal(solution.theta, [1.0])
    np.testing.assert_array_equal(solution.last, [1.0])
    same(behind(1.0, 1.0, 0.5, throw=False), solution)


def test_four_failures_in_a_row_do_not():
    """The fourth shortening by ten leads to a step that fits below the wall: alpha = 0.5e-4."""
    solution = behind(1.0 + 0.9e-4, 1.0, 0.5, max_steps=5)
    np.testing.assert_array_equal(solution.history["accepted"], [False] * 4 + [True])
    assert solution.result is Result.STEP_LIMIT


@pytest.mark.parametrize(("wall", "start"), [(0.5, 1.0), (FAR, 1e200)], ids=["nan", "overflow"])
def test_a_start_that_is_not_finite_raises(wall, start):
    with pytest.raises(riesz.SolveError, match="not finite at the start") as caught:
        behind(wall, start, 0.5)
    solution = caught.value.solution
    assert solution.result is Result.NONFINITE_INPUT and solution.steps == 0
    np.testing.assert_array_equal(solution.theta, [start])
    np.testing.assert_array_equal(solution.last, [start])
    assert solution.history["loss"].shape == (1,)
    assert behind(wall, start, 0.5, throw=False).result is Result.NONFINITE_INPUT


@pytest.mark.parametrize("alpha", [2.5, 1001.0])
def test_growth_of_the_loss_is_not_undone(alpha):
    """The paper's methods are rescued from non-finite values only. By hand: theta - 2 grows by 1 - alpha a step."""
    growth = 1 - alpha
    solution = behind(FAR, 1.0, alpha, max_steps=20)
    np.testing.assert_allclose(solution.history["loss"], 0.5 * growth ** (2 * np.arange(21)), rtol=1e-9)
    assert solution.history["accepted"].all()
    np.testing.assert_allclose(solution.theta, [1.0])
    np.testing.assert_allclose(solution.last, [2 - growth**20], rtol=1e-9)


def test_rank_collapse_raises():
    """No direction above eps in five steps in a row: G = 1 here, and eps = 10."""
    method = riesz.nhb(beta=0.0, filter=riesz.Floor(10.0), step_size=riesz.Constant(0.5))
    with pytest.raises(riesz.SolveError, match="no direction above") as caught:
        riesz.minimise(wall_loss(FAR), LINE, jnp.array([1.0]), method, max_steps=10, progress=False)
    solution = caught.value.solution
    assert solution.result is Result.RANK_COLLAPSE and solution.steps == 5
    np.testing.assert_array_equal(solution.history["rank"], [0] * 5)
    np.testing.assert_allclose(solution.last, [2 - 0.95**5], rtol=1e-12)


def test_divergence_ends_finite():
    """Growth until overflow: what comes back is finite, and the failure is named."""
    solution = behind(FAR, 1.0, 1e40, max_steps=60, throw=False)
    assert np.isfinite(solution.theta).all() and np.isfinite(solution.last).all()
    assert np.isfinite(solution.history["loss"]).all()
    np.testing.assert_array_equal(solution.theta, [1.0])
    assert not solution.history["accepted"].all()


def test_a_start_at_the_solution_stays_there():
    solution = behind(FAR, 2.0, 0.5, max_steps=5)
    assert solution.steps == 5 and float(solution.loss) < 1e-30
    assert behind(FAR, 2.0, 0.5, tolerance=0.0).result is Result.CONVERGED_STEP
    assert behind(FAR, 2.0, 0.5, target=0.0).steps == 0


# ------------------------------------------------------------------------------------------ drawn points


def source(x):
    return 0.8 * jnp.sin(1.7 * x) - 0.2


DRAWN = riesz.residual(riesz.identity, source, riesz.monte_carlo(0.0, 2.0, 20))
KEY = jax.random.key(3)


def fit_drawn(max_steps=40, theta=THETA, key=KEY, alpha=0.3, **options):
    method = riesz.nhb(filter=riesz.Floor(1e-3), step_size=riesz.Constant(alpha))
    return riesz.minimise(DRAWN, D, theta, method, max_steps=max_steps, key=key, progress=False, **options)


def test_drawn_points_give_the_last_iterate():
    """Where every step sees another loss there is no best iterate: theta is last, loss the last of the history."""
    solution = fit_drawn()
    np.testing.assert_array_equal(solution.theta, solution.last)
    assert float(solution.loss) == solution.history["loss"][-1]
    assert solution.history["loss"].shape == (41,) and solution.history["alpha"].shape == (40,)
    assert solution.history["loss"][-1] < 1e-2 * solution.history["loss"][0]


def test_a_key_fixes_the_run():
    one, other = fit_drawn(10), fit_drawn(10)
    same(one, other)
    assert np.all(fit_drawn(10, key=jax.random.key(4)).history["loss"] != one.history["loss"])
    np.testing.assert_array_equal(fit_drawn(33).history["loss"][:11], one.history["loss"])


def test_every_step_sees_other_points():
    """With steps too short to move, the loss changes only because the points do."""
    losses = fit_drawn(33, alpha=1e-30).history["loss"]
    assert np.unique(losses).size == 34


def test_drawn_points_reach_targets_by_a_fading_mean_over_twenty_batches():
    losses = fit_drawn(60).history["loss"]
    means, mean = [], 0.0
    for k, loss in enumerate(losses[1:], 1):
        mean += max(0.05, 1 / k) * (loss - mean)
        means.append(mean)
    for k in (1, 5, 25, 33):
        target = 1.0001 * means[k - 1]
        first = next(n for n, mean in enumerate(means, 1) if n >= 20 and mean <= target)
        solution = fit_drawn(60, target=target)
        assert solution.steps == first and solution.result is Result.TARGET_REACHED
        np.testing.assert_array_equal(solution.theta, solution.last)
        assert float(solution.loss) == losses[first]


def test_no_single_batch_reaches_a_target():
    losses = fit_drawn(40).history["loss"]
    assert fit_drawn(15, target=2 * float(losses.max())).result is Result.STEP_LIMIT


def test_drawn_points_need_a_key():
    with pytest.raises(ValueError, match="key"):
        fit_drawn(key=None)
    X_metric = riesz.InnerProduct(over=riesz.monte_carlo(0.0, 2.0, 5))
    with pytest.raises(ValueError, match="key"):
        fit(method=riesz.nhb(X=X_metric))
    with pytest.raises(ValueError, match="key"):
        riesz.minimise_many(DRAWN, D, THETA[None])


# --------------------------------------------------------------------------------------------- many starts

STARTS = THETA[None] + jnp.array([[0.0, 0.0, 0.0], [0.5, 0.3, -0.2], [-0.2, 0.4, 0.3], [0.1, 0.8, 0.0]])


def fit_many(starts=STARTS, max_steps=40, **options):
    return riesz.minimise_many(LOSS, D, starts, METHOD, max_steps=max_steps, progress=False, **options)


def assert_stacked(many, singles):
    """Every start ended bit by bit as it would have alone, its last values carried forward."""
    n, longest = len(singles), max(single.steps for single in singles)
    assert many.theta.shape == many.last.shape == (n, singles[0].theta.size)
    assert many.loss.shape == many.steps.shape == many.result.shape == (n,)
    for i, single in enumerate(singles):
        np.testing.assert_array_equal(many.theta[i], single.theta)
        np.testing.assert_array_equal(many.last[i], single.last)
        np.testing.assert_array_equal(many.loss[i], single.loss)
        assert many.steps[i] == single.steps and many.result[i] is single.result
        for name, column in single.history.items():
            assert many.history[name].shape == (n, longest + 1), name
            if name != "seconds" and column.size:
                np.testing.assert_array_equal(many.history[name][i, : column.size], column, err_msg=name)
                np.testing.assert_array_equal(many.history[name][i, column.size :], column[-1], err_msg=name)


@pytest.mark.parametrize("threads", [1, 2, None])
def test_many_starts_are_single_runs(threads):
    target = 7e-4
    singles = [fit(theta=theta, target=target, metrics=METRICS) for theta in STARTS]
    assert len({single.steps for single in singles}) > 2, "starts must stop at different steps"
    many = fit_many(target=target, metrics=METRICS, threads=threads)
    assert set(many.history) == {"loss", "seconds", *METRICS} | STEP_COLUMNS
    assert_stacked(many, singles)
    assert np.all(np.diff(many.history["seconds"]) >= 0)
    assert many.function(X[3]).shape == (4,)
    np.testing.assert_allclose(many.function(X[3]), [D(theta)(X[3]) for theta in many.theta], rtol=1e-13)
    assert "4 starts" in repr(many)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_start_never_hurts_the_others(threads):
    """Starts behind the wall, at the wall and far from it: nothing raises, and every one ends as it would alone."""
    starts = jnp.array([[0.0], [3.0], [2.2], [1.9], [1e200], [-1e200]])
    loss, method = wall_loss(2.2), wall_method(0.5, 0.9)
    many = riesz.minimise_many(loss, LINE, starts, method, max_steps=12, threads=threads, progress=False)
    singles = [behind(2.2, float(start[0]), 0.5, 0.9, max_steps=12, throw=False) for start in starts]
    assert_stacked(many, singles)
    assert many.result[1] is Result.NONFINITE_INPUT and many.result[4] is Result.NONFINITE_INPUT
    assert many.result[0] is Result.STEP_LIMIT
    assert np.isfinite(many.theta).all() and np.isfinite(many.last).all()
    assert many.history["accepted"].dtype == bool
    assert not many.history["accepted"][1].any()


def test_no_start_that_can_run():
    many = riesz.minimise_many(wall_loss(0.5), LINE, jnp.array([[1.0], [3.0]]), wall_method(0.5), progress=False)
    assert list(many.result) == [Result.NONFINITE_INPUT] * 2 and list(many.steps) == [0, 0]
    assert set(many.history) == {"loss", "seconds"} | STEP_COLUMNS
    assert all(column.shape == (2, 1) for column in many.history.values())


def test_all_starts_see_the_same_draws():
    starts = jnp.stack([THETA, THETA + 0.2, THETA])
    method = riesz.nhb(filter=riesz.Floor(1e-3), step_size=riesz.Constant(0.3))
    many = riesz.minimise_many(DRAWN, D, starts, method, max_steps=9, key=KEY, progress=False)
    for name in set(many.history) - {"seconds"}:
        np.testing.assert_array_equal(many.history[name][0], many.history[name][2])
    assert_stacked(many, [fit_drawn(9, theta=theta) for theta in starts])


def test_many_starts_under_limits():
    zero = fit_many(max_steps=0)
    assert list(zero.steps) == [0] * 4 and set(zero.result) == {Result.STEP_LIMIT}
    np.testing.assert_array_equal(zero.theta, STARTS)
    short = fit_many(max_steps=100_000, max_seconds=1e-9)
    assert set(short.result) == {Result.TIME_LIMIT} and np.all(short.steps <= 32)
    assert short.history["loss"].shape == (4, short.steps.max() + 1)
    done = fit_many(target=1e9)
    assert set(done.result) == {Result.TARGET_REACHED} and list(done.steps) == [0] * 4


# ------------------------------------------------------------------------------------------ no recompilation


class Compilations:
    """Counts the programs that XLA compiles, in all threads."""

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()
        jax.monitoring.register_event_duration_secs_listener(self)

    def __call__(self, event, duration, **_):
        if event.endswith("backend_compile_duration"):
            with self.lock:
                self.count += 1


COMPILATIONS = Compilations()


def assert_compiles_nothing(call):
    """The call compiles nothing; D is traced once a term, to check shapes, where compiling takes dozens."""
    TRACES["ripple"], before = 0, COMPILATIONS.count
    solution = call()
    assert COMPILATIONS.count == before
    assert TRACES["ripple"] <= 1
    return solution


def test_compilations_are_counted():
    before = COMPILATIONS.count
    jax.jit(lambda x: x + 3.14159)(1.0)
    assert COMPILATIONS.count == before + 1


def test_a_second_call_compiles_nothing():
    fit(40)
    other_theta, other_loss = THETA + 0.25, riesz.least_squares(riesz.points(X**2, data=jnp.cos(X)))
    other_method = riesz.nhb(beta=0.7, filter=riesz.Floor(1e-5), step_size=riesz.Clipped(0.05))
    again, again_theta = ripple_model()
    nothing = assert_compiles_nothing
    nothing(lambda: fit(40))
    nothing(lambda: fit(40, theta=other_theta))
    nothing(lambda: fit(40, method=other_method))
    nothing(lambda: fit(23, target=1e-3, tolerance=1e-9, max_seconds=60.0, callback=lambda step, solution: None))
    nothing(lambda: riesz.minimise(other_loss, D, THETA, METHOD, max_steps=40, progress=False))
    nothing(lambda: riesz.minimise(other_loss, again, again_theta, other_method, max_steps=40, progress=False))


def test_many_starts_compile_what_one_compiles():
    fit_many(STARTS[:2], max_steps=3, threads=2)
    two, other = STARTS[1:3], (STARTS + 0.1)[0]
    assert_compiles_nothing(lambda: fit_many(two, max_steps=40, threads=2))
    assert_compiles_nothing(lambda: fit(40, theta=other))


def test_drawn_runs_with_another_key_compile_nothing():
    fit_drawn(5)
    key = jax.random.key(11)
    assert_compiles_nothing(lambda: fit_drawn(5, key=key))


def test_the_same_network_again_compiles_nothing():
    """Also through `riesz.mlp`, with other weights."""
    run = lambda D, theta: riesz.minimise(LOSS, D, theta, riesz.gd(), max_steps=2, progress=False)
    run(*riesz.mlp(jax.random.key(0), (1, 2, 1)))
    second = riesz.mlp(jax.random.key(1), (1, 2, 1))
    assert_compiles_nothing(lambda: run(*second))
