"""Restarts: a run that ends badly begins again, within one budget, and the best start is returned."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import killed
import riesz
from riesz import Result
from riesz._bytes.files import replacing
from riesz._running.restarts import Starts
from spoken import check_sentence

KEY = jax.random.key(0)
ONE = riesz.points(jnp.ones(1), data=jnp.ones(1))
VALLEY = riesz.least_squares(ONE)
"""|t exp(t) - 1|^2 / 2 vanishes at Lambert's W(1) = 0.567, and falls to 1/2 as t goes to minus infinity."""


def lambert(theta):
    return lambda x: theta[0] * jnp.exp(theta[0])


def anywhere(key):
    """A start on either side of the ridge, which is at -1."""
    return jax.random.uniform(key, (1,), minval=-4.0, maxval=1.0)


def in_the_valley(key):
    return jax.random.uniform(key, (1,), minval=-4.0, maxval=-3.0)


def begin(number, key=KEY, start=anywhere):
    """The documented parameters of a further start."""
    return start(jax.random.fold_in(key, 2**32 - number))


def fit(start=anywhere, n=9, theta=-3.0, loss=VALLEY, D=lambert, **choices):
    restarts = {} if n is None else {"restarts": riesz.Restarts(n, start), "key": KEY}
    return riesz.minimise(loss, D, jnp.full(1, theta), **({"progress": False} | restarts | choices))


def assert_same(one, other):
    """Bit by bit, timing aside."""
    first, second = killed.arrays(one), killed.arrays(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    assert one.result is other.result and one.steps == other.steps and float(one.loss) == float(other.loss)


def assert_same_starts(one, other):
    assert_same(one, other)
    told = lambda solution: [(s.number, s.theta0.tolist(), s.result, s.steps, s.loss) for s in solution.starts]
    assert told(one) == told(other)
    assert one.notes == other.notes


@pytest.fixture(scope="module")
def solved():
    """A call whose first starts end in the valley."""
    return fit()


# ------------------------------------------------------------------------------------------------ which starts


def test_the_true_minimum_is_found(solved):
    assert fit(n=None).result in (Result.STAGNATED, Result.UNBOUNDED)
    assert len(solved.starts) > 1
    assert all(start.result in (Result.STAGNATED, Result.UNBOUNDED) for start in solved.starts[:-1])
    assert solved.result.converged
    np.testing.assert_allclose(solved.theta, scipy.special.lambertw(1).real, rtol=1e-12)


def test_starts_are_told_in_order(solved):
    numbers = list(range(len(solved.starts)))
    assert [start.number for start in solved.starts] == numbers
    assert [float(start.theta0[0]) for start in solved.starts] == [-3.0, *(float(begin(i)[0]) for i in numbers[1:])]
    last = solved.starts[-1]
    assert (last.result, last.steps, last.loss) == (solved.result, solved.steps, float(solved.loss))
    assert last.seconds == solved.history["seconds"][-1] > 0
    count = len(numbers)
    expected = f"{count} starts were made, and start {count - 1}, whose loss is the lowest, is returned."
    assert solved.notes[-1] == expected


def test_each_start_is_the_run_that_minimise_makes_from_it(solved):
    assert_same(solved, fit(n=None, theta=solved.starts[-1].theta0[0]))


def test_without_restarts_there_are_no_starts():
    solution = fit(n=None, max_steps=3)
    assert solution.starts == () and not any("start" in note for note in solution.notes)


def test_a_good_end_makes_one_start():
    solution = fit(theta=0.5)
    assert solution.result.converged and len(solution.starts) == 1
    assert solution.notes[-1] == "One start was made."
    assert_same(solution, fit(n=None, theta=0.5))


def test_no_more_starts_than_asked_for_and_the_lowest_is_returned():
    solution = fit(in_the_valley, n=2)
    assert len(solution.starts) == 3
    lowest = min(solution.starts, key=lambda start: start.loss)
    assert (solution.result, solution.steps, float(solution.loss)) == (lowest.result, lowest.steps, lowest.loss)
    assert_same(solution, fit(n=None, theta=lowest.theta0[0]))


def test_a_start_that_cannot_be_drawn_loses_none_that_was_made(caplog):
    """Further starts after the first are drawn when they are due; the user's own function may fail then."""
    drawn = []

    def failing(key):
        drawn.append(key)
        return in_the_valley(key) * (jnp.nan if len(drawn) > 2 else 1.0)

    solution = fit(failing)
    assert [start.number for start in solution.starts] == [0, 1]
    assert any("Start 2 could not be drawn: start(key) must be finite" in note for note in solution.notes)
    assert "Start 2" in caplog.text


AGAIN = {Result.STAGNATED, Result.UNBOUNDED}
CALLS_END = {Result.STEP_LIMIT, Result.TIME_LIMIT, Result.STOPPED_BY_CALLBACK, Result.INTERRUPTED}


@pytest.mark.parametrize("result", [result for result in Result if result is not Result.RUNNING])
def test_which_ends_are_followed_by_another_start(result):
    made = [riesz.Start(0, jnp.zeros(1), result, 10, 1.0, 0.1)]
    starts = Starts(1, jnp.zeros(1), anywhere, KEY)
    assert starts.begins_again(made, None) is (result in AGAIN)
    assert starts.begins_again(made, 1e-3) is (result not in CALLS_END | {Result.TARGET_REACHED})
    assert not starts.begins_again(made * 2, 1e-3), "there is one further start"


# ------------------------------------------------------------------------------------------------ targets

X = jnp.linspace(0.0, 1.0, 40)
WAVE = riesz.least_squares(riesz.points(X, data=jnp.sin(20 * X)))
"""Other frequencies than 20 are minima too."""


def wave(theta):
    return lambda x: jnp.sin(theta[0] * x)


def frequency(key):
    return jax.random.uniform(key, (1,), minval=0.0, maxval=40.0)


def listen(start=frequency, theta=1.0, **choices):
    return fit(start, theta=theta, loss=WAVE, D=wave, **choices)


def test_a_minimum_above_the_target_is_left():
    alone = listen()
    assert alone.result.converged and float(alone.loss) > 0.1 and len(alone.starts) == 1, "no target, no reason"
    solution = listen(target=1e-10)
    assert solution.starts[0].result.converged and len(solution.starts) > 1
    assert solution.result is Result.TARGET_REACHED and float(solution.loss) <= 1e-10
    np.testing.assert_allclose(abs(solution.theta), 20.0, rtol=1e-4)
    assert "which reached the target" in solution.notes[-1]


def test_the_target_of_a_metric():
    error = lambda theta: jnp.abs(jnp.abs(theta[0]) - 20.0)
    solution = listen(target={"error": 1e-3}, metrics={"error": error})
    assert solution.result is Result.TARGET_REACHED and len(solution.starts) > 1
    assert solution.history["error"][-1] <= 1e-3


def hole(z, y):
    """Not finite below -3.5."""
    return jnp.where(z > -3.5, 0.5, jnp.nan) * (z - y) ** 2


HOLE = riesz.Integral(hole, ONE)


def test_a_failed_start_is_followed_where_there_is_a_target():
    identity, _ = riesz.linear(lambda x: jnp.ones(1), size=1)
    start = lambda key: jax.random.uniform(key, (1,), minval=-1.0, maxval=3.0)
    choices = {"loss": HOLE, "D": identity, "method": "ngd", "theta": -5.0, "max_steps": 3000}
    solution = fit(start, target=1e-6, **choices)
    assert [start.result for start in solution.starts] == [Result.NONFINITE_INPUT, Result.TARGET_REACHED]
    assert np.isnan(solution.starts[0].loss)
    with pytest.raises(riesz.SolveError) as caught:
        fit(start, **choices)
    assert len(caught.value.solution.starts) == 1
    nowhere = lambda key: jnp.full(1, -6.0)
    with pytest.raises(riesz.SolveError) as caught:
        fit(nowhere, n=2, target=1e-6, **choices)
    assert len(caught.value.solution.starts) == 3
    assert len(fit(nowhere, n=2, target=1e-6, throw=False, **choices).starts) == 3


# ------------------------------------------------------------------------------------------------ limits


def test_all_starts_share_the_step_limit():
    one = fit(n=None)
    solution = fit(in_the_valley, max_steps=one.steps + 10)
    assert [start.steps for start in solution.starts] == [one.steps, 10]
    assert solution.starts[1].result is Result.STEP_LIMIT


def test_no_start_is_made_without_a_step():
    one = fit(n=None)
    solution = fit(in_the_valley, max_steps=one.steps)
    assert len(solution.starts) == 1 and solution.result is one.result


def test_all_starts_share_the_time_limit(monkeypatch):
    """With a clock that ticks once a look: what start 0 took is missing from what start 1 may take."""
    ticks = iter(range(10**9))
    monkeypatch.setattr("riesz._running.run.time.perf_counter", lambda: float(next(ticks)))
    first = fit(in_the_valley, n=1)
    seconds = [start.seconds for start in first.starts]
    solution = fit(in_the_valley, n=1, max_seconds=seconds[0] + seconds[1] / 2)
    assert [start.seconds for start in solution.starts] == [seconds[0], np.ceil(seconds[1] / 2)]
    assert solution.starts[1].result is Result.TIME_LIMIT
    assert len(fit(in_the_valley, max_seconds=seconds[0]).starts) == 1


def test_the_callback_sees_the_start_and_stops_all():
    seen = []

    def callback(steps, solution):
        seen.append((len(solution.starts), steps))
        return len(solution.starts) == 1 and steps >= 4

    solution = fit(in_the_valley, callback=callback)
    assert [start.result for start in solution.starts][1:] == [Result.STOPPED_BY_CALLBACK]
    assert solution.starts[1].steps == 4
    assert seen[-1] == (1, 4) and (0, solution.starts[0].steps) in seen


def test_a_callback_that_stops_as_the_start_ends_is_heard():
    """The result stays what it is, and there is no further start."""
    one = fit(n=None)
    solution = fit(callback=lambda steps, solution: steps == one.steps)
    assert len(solution.starts) == 1 and solution.result is one.result


def test_ctrl_c_in_a_further_start():
    def callback(steps, solution):
        if len(solution.starts) == 1 and steps == 4:
            os.kill(os.getpid(), signal.SIGINT)

    solution = fit(in_the_valley, callback=callback)
    assert len(solution.starts) == 2 and solution.starts[1].result is Result.INTERRUPTED
    assert solution.result is solution.starts[0].result, "four steps do not reach the end of the valley"
    assert solution.notes[-1].endswith("; the last one ended INTERRUPTED.")


def test_ctrl_c_between_starts_loses_none():
    drawn = []

    def start(key):
        drawn.append(key)
        if len(drawn) > 2:  # it is drawn once to be checked, and once to run from
            raise KeyboardInterrupt
        return in_the_valley(key)

    assert len(fit(start).starts) == 2


# ------------------------------------------------------------------------------------------------ keys and bits


def test_the_same_key_gives_the_same_bits(solved):
    assert_same_starts(fit(), solved)
    other = fit(key=jax.random.key(5))
    assert float(other.starts[1].theta0[0]) == float(begin(1, jax.random.key(5))[0]) != solved.starts[1].theta0[0]


def test_starts_on_drawn_points_see_the_draws_of_the_key():
    drawn = riesz.least_squares(riesz.minibatch(riesz.points(X, data=jnp.sin(20 * X)), 10))
    choices = {"loss": drawn, "D": wave, "method": "ngd", "target": 1e-8, "tolerance": 1e-1}
    solution = fit(lambda key: 10 + 3 * jax.random.uniform(key, (1,)), n=2, theta=10.0, **choices)
    last = solution.starts[-1]
    assert len(solution.starts) > 1
    alone = fit(n=None, theta=last.theta0[0], key=KEY, **choices)
    assert (alone.result, alone.steps, float(alone.loss)) == (last.result, last.steps, last.loss)


def test_a_start_has_the_precision_of_theta0():
    points = riesz.points(jnp.ones(1, jnp.float32), data=jnp.ones(1, jnp.float32))
    choices = {"method": "ngd", "max_steps": 40, "progress": False, "target": -1.0, "tolerance": 1e-1, "key": KEY}
    theta0 = jnp.full(1, 0.5, jnp.float32)
    restarts = riesz.Restarts(1, anywhere)
    solution = riesz.minimise(riesz.least_squares(points), lambert, theta0, restarts=restarts, **choices)
    assert len(solution.starts) == 2 and solution.starts[1].theta0.dtype == jnp.float32


def test_further_starts_compile_nothing():
    """The model is traced as often as for one start."""
    traced = []

    def counted():
        count = len(traced)
        traced.append(0)

        def D(theta):
            traced[count] += 1
            return lambert(theta)

        return D

    fit(n=None, D=counted())
    solution = fit(in_the_valley, n=2, D=counted())
    assert len(solution.starts) == 3
    assert traced[0] == traced[1] > 0


# ------------------------------------------------------------------------------------------------ models

TRAIN = riesz.tensor_train(KEY, (2,), riesz.Legendre(-1.0, 1.0, 3))
MODELS = {
    "a network": riesz.mlp(KEY, (1, 3, 1)),
    "a network with another initialisation": riesz.mlp(KEY, (1, 3, 1), init="he"),
    "a tensor train": TRAIN,
}
WRAPPERS = {
    "hard_boundary": lambda D: riesz.hard_boundary(D, riesz.box_bubble((0, 0), (1, 1))),
    "periodic": lambda D: riesz.periodic(D, (2.0,)),
    "fourier_features": lambda D: riesz.fourier_features(D, jnp.ones((1, 2))),
    "normalised": lambda D: riesz.normalised(D, riesz.gauss_legendre((-1.0, -1.0), (1.0, 1.0), 3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_start_of_a_model_is_what_its_maker_draws(name):
    D, theta0 = MODELS[name]
    np.testing.assert_array_equal(D.start(KEY), theta0)
    assert not np.array_equal(D.start(jax.random.key(1)), theta0)


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrappers_pass_the_start_on(wrap):
    D, theta0 = TRAIN
    np.testing.assert_array_equal(wrap(wrap(D)).start(KEY), theta0)
    assert not hasattr(wrap(lambert), "start")


def test_the_start_of_the_model_is_used():
    D, theta0 = riesz.mlp(KEY, (1, 2, 1))
    loss = riesz.least_squares(riesz.points(X, data=jnp.sin(20 * X)))
    choices = {"method": "ngd", "tolerance": 1e-1, "target": 1e-9, "max_steps": 200, "progress": False, "key": KEY}
    solution = riesz.minimise(loss, D, theta0, restarts=riesz.Restarts(1), **choices)
    np.testing.assert_array_equal(solution.starts[1].theta0, begin(1, start=D.start))


def test_a_model_without_a_start_is_answered_in_a_sentence():
    call = lambda D: riesz.minimise(VALLEY, D, jnp.zeros(1), restarts=riesz.Restarts(2), key=KEY)
    pattern = r"^start must be given, as in riesz.Restarts\(2, start\) .* no D.start"
    check_sentence(lambda: call(lambert), ValueError, pattern)
    check_sentence(lambda: call(riesz.hard_boundary(lambert, jnp.sin)), ValueError, pattern)


# ------------------------------------------------------------------------------------------------ records


def stop_in(number, after=40):
    """A callback whose exception ends the process's work in a further start, as a kill would."""

    def callback(steps, solution):
        if len(solution.starts) == number and steps >= after:
            raise ArithmeticError("killed")

    return callback


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_that_was_killed_in_its_second_start_goes_on_there(tmp_path):
    whole = fit(in_the_valley, n=2)
    places = {"checkpoint": riesz.Checkpoint(tmp_path, steps=1), "log": tmp_path / "log.jsonl"}
    with pytest.raises(ArithmeticError):
        fit(in_the_valley, n=2, callback=stop_in(1), **places)
    first = {path: path.stat().st_mtime_ns for path in tmp_path.glob("step-*.npz")}
    assert first and list(tmp_path.glob("start-1-step-*.npz")) and not list(tmp_path.glob("start-2-*"))
    seen = []
    again = fit(
        in_the_valley, n=2, callback=lambda steps, solution: seen.append((len(solution.starts), steps)), **places
    )
    assert_same_starts(again, whole)
    assert seen[0][0] == 1 and seen[0][1] > 40, "start 0 is not repeated, nor the beginning of start 1"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("step-*.npz")} == first
    for start in whole.starts:
        name = f"log.start-{start.number}.jsonl" if start.number else "log.jsonl"
        rows = lines(tmp_path / name)
        assert [row["step"] for row in rows] == list(range(start.steps + 1))
        assert min(row["loss"] for row in rows) == pytest.approx(start.loss, rel=1e-12)


def test_a_call_that_has_ended_is_read_again(tmp_path):
    whole = fit(in_the_valley, n=2, checkpoint=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = fit(in_the_valley, n=2, checkpoint=tmp_path, callback=stop_in(0, 0))
    assert_same_starts(again, whole)
    assert [start.seconds for start in again.starts] == [start.seconds for start in whole.starts]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files


def test_a_run_without_restarts_goes_on_with_them_and_with_more(tmp_path):
    alone = fit(n=None, checkpoint=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"lock", "step-000000000000.npz", f"step-{alone.steps:012d}.npz"}
    for n in (1, 2):
        assert_same_starts(fit(in_the_valley, n=n, checkpoint=tmp_path), fit(in_the_valley, n=n))
    assert names <= {path.name for path in tmp_path.iterdir()}


def test_limits_end_a_call_in_a_further_start_and_not_the_run(tmp_path):
    one = fit(n=None)
    short = fit(in_the_valley, n=1, max_steps=one.steps + 20, checkpoint=tmp_path)
    assert short.starts[1].result is Result.STEP_LIMIT
    assert_same_starts(fit(in_the_valley, n=1, checkpoint=tmp_path), fit(in_the_valley, n=1))


def test_an_unbounded_run_that_has_ended_is_not_run_again(tmp_path):
    """It would leave the path of a call that was never interrupted."""
    x = jax.random.normal(jax.random.key(0), (20, 2))
    loss = riesz.logistic(riesz.points(x, data=(x[:, 0] > 0).astype(float)))
    run = lambda: riesz.minimise(
        loss, lambda t: lambda x: t[:2] @ x + t[2], jnp.zeros(3), progress=False, checkpoint=tmp_path
    )
    first = run()
    assert first.result is Result.UNBOUNDED
    assert_same(run(), first)


def test_checkpoints_of_other_starts_are_refused(tmp_path):
    fit(in_the_valley, n=1, checkpoint=tmp_path)
    with pytest.raises(riesz.CheckpointError, match=r"start-1-step-.*npz is of another theta0"):
        fit(lambda key: in_the_valley(key) - 1.0, n=1, checkpoint=tmp_path)
    for path in tmp_path.glob("step-*.npz"):
        path.unlink()
    with pytest.raises(riesz.CheckpointError, match=r"start-1-step-.*npz is of a run whose first start is not there"):
        fit(in_the_valley, n=1, checkpoint=tmp_path)


def test_the_folder_is_locked_in_every_start(tmp_path):
    def callback(steps, solution):
        if len(solution.starts) == 1 and steps == 1:
            with pytest.raises(riesz.CheckpointError, match="another process"):
                fit(n=None, checkpoint=tmp_path)

    assert len(fit(in_the_valley, n=1, checkpoint=tmp_path, callback=callback).starts) == 2


def test_a_disk_that_refuses_a_further_start_ends_no_run(tmp_path, monkeypatch, caplog):
    """Nor does a file of the user in the place of its log, which is left as it is."""
    taken = tmp_path / "log.start-1.jsonl"
    taken.write_text("mine\n")

    def refuse(path):
        if path.name.startswith("start-1"):
            raise OSError(28, "No space left on device")
        return replacing(path)

    monkeypatch.setattr("riesz._records.checkpoint.replacing", refuse)
    with caplog.at_level(logging.ERROR, "riesz"):
        solution = fit(in_the_valley, n=1, checkpoint=tmp_path, log=tmp_path / "log.jsonl")
    assert_same_starts(solution, fit(in_the_valley, n=1))
    assert "The checkpoint cannot be saved (No space left on device); the run goes on." in caplog.text
    assert "Start 1 is not logged (log must be a new file" in caplog.text
    assert taken.read_text() == "mine\n"


def test_tensorboard_shows_starts_side_by_side(tmp_path):
    fit(in_the_valley, n=1, log=riesz.TensorBoard(tmp_path))
    assert len(list(tmp_path.glob("events*"))) == len(list(tmp_path.glob("start-1/events*"))) == 1


def test_the_progress_bar_says_the_start(capsys):
    solution = fit(in_the_valley, n=1, progress=True)
    shown = capsys.readouterr().err
    total = sum(start.steps for start in solution.starts)
    assert "start 1" in shown and f"{total}/1000" in shown


# ------------------------------------------------------------------------------------------------ a real kill


@pytest.mark.slow
def test_a_kill_in_the_second_start(tmp_path):
    """The process that goes on ends with the bits of one that was never killed."""
    whole, command = killed.arrays(killed.restarted()), [sys.executable, killed.__file__, str(tmp_path), "restarted"]
    child, began = subprocess.Popen(command), time.monotonic()
    while len(list(tmp_path.glob("start-1-step-*.npz"))) < 3 and child.poll() is None:
        assert time.monotonic() - began < 240, "the child does nothing"
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL and not (tmp_path / "end.npz").exists()
    assert not list(tmp_path.glob("start-2-*")), "it was killed in its second start"
    assert subprocess.Popen(command).wait() == 0
    with np.load(tmp_path / "end.npz", allow_pickle=False) as file:
        assert set(file.files) == set(whole)
        for name, array in whole.items():
            np.testing.assert_array_equal(file[name], array, err_msg=name)
