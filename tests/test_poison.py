"""NaN and infinity injected into every part that a user writes: runs end, with the right result and finite parameters.

A poison is a number in the pytree of the loss, the model or the measure: it acts beyond a radius round the start, or on
some draws, so that trials of one method share one compiled program. Which results are right:

| poison | everywhere | beyond a radius |
|---|---|---|
| the density's value, or the model's | NONFINITE_INPUT, no step | as without, or NONFINITE_STEPS |
| l' | NONFINITE_STEPS after five steps | as without, or NONFINITE_STEPS |
| l'', for newton, auto, GaussNewton() | NONFINITE_STEPS after five steps | as without, or NONFINITE_STEPS |
| l'', for methods that do not ask for it | the very same run | the very same run |
| points, data or weights of some draws | NONFINITE_INPUT, no step | as without, or NONFINITE_STEPS |
| a metric; what a callback returns | the very same run | the very same run |
| a callback that raises | its own exception | |

"As without" is STEP_LIMIT or a convergence, and never TARGET_REACHED or RANK_COLLAPSE. NONFINITE_STEPS is right where
the last five steps were rejected, and only there; all five must be trials that are not finite, for auto may reject
finite ones. One exception: l'' = -inf is negative, and a Gauss-Newton metric clips what is negative to zero. Where that
leaves no metric at all, RANK_COLLAPSE is right.
"""

import copy
import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz import Result
from riesz._problem.measures import AbstractMeasure, Points

NEVER, EVERYWHERE = np.inf, -1.0
MAX_STEPS = 14
METHODS = {
    "ngd": riesz.ngd(),
    "nhb": riesz.nhb(),
    "nn2": riesz.nn2(),
    "newton": riesz.newton(),
    "gd": riesz.gd(),
    "auto": riesz.auto(),
    "gauss_newton": riesz.nhb(W=riesz.GaussNewton()),
}
ASK_FOR_CURVATURE = ("newton", "auto", "gauss_newton")
STEP_COLUMNS = ("gradient_norm", "step_norm", "alpha", "scale", "rank", "accepted")
X = jnp.linspace(-1.0, 1.0, 9)


class Poison(eqx.Module):
    """A value that is added beyond a radius, and nowhere else."""

    value: jax.Array
    radius: jax.Array

    def at(self, distance):
        return jnp.where(distance > self.radius, self.value, 0.0)


def _derivatives(poisons, z, data):
    """l = u^2/2 + u^4/4 with u = z - y, its first and its second derivative, each with its poison."""
    u, distance = z - data[0], jnp.abs(z - data[1])
    clean = (u**2 / 2 + u**4 / 4, u + u**3, 1 + 3 * u**2)
    return [value + poison.at(distance) for value, poison in zip(clean, poisons, strict=True)]


def _ladder(order):
    """The derivative of that order, whose own derivative is the next one, poison and all."""

    @jax.custom_jvp
    def derivative(z, data, poisons):
        return _derivatives(poisons, z, data)[order]

    @derivative.defjvp
    def rule(primals, tangents):
        following = LADDER[order + 1](*primals) if order < 2 else 6 * (primals[0] - primals[1][0])
        return derivative(*primals), following * tangents[0]

    return derivative


LADDER = [_ladder(order) for order in range(3)]


class Density(eqx.Module):
    """A density whose value, slope and curvature can be poisoned one by one; data are y and z at the start."""

    poisons: tuple[Poison, Poison, Poison]

    def __call__(self, z, data):
        return LADDER[0](z, data, self.poisons)


class Model(eqx.Module):
    """D(theta)(x) = a tanh(b x + c), with poisoned values beyond a radius round the start."""

    poison: Poison
    centre: jax.Array

    def __call__(self, theta):
        a, b, c = theta
        extra = self.poison.at(jnp.linalg.norm(theta - self.centre))
        return lambda x: a * jnp.tanh(b * x + c) + extra


class Metric(eqx.Module):
    """A positive number, or the poison beyond a radius round the start."""

    poison: Poison
    centre: jax.Array

    def __call__(self, theta):
        distance = jnp.linalg.norm(theta - self.centre)
        return 1 + distance + self.poison.at(distance)


class Draws(AbstractMeasure):
    """Shuffled points, each draw poisoned with some probability: one point, one of the data, or one weight."""

    points: Points
    value: jax.Array
    probability: jax.Array
    part: jax.Array
    drawn: ClassVar[bool] = True

    def draw(self, key, at=None):
        shuffle, chance = jax.random.split(key)
        over = self.points.take(jax.random.permutation(shuffle, self.points.x.shape[0]))
        bad = jax.random.uniform(chance) < self.probability
        parts = [over.x, over.data, over.weights]
        return Points(
            *(
                jnp.where(bad & (self.part == number), array.at[(0,) * array.ndim].set(self.value), array)
                for number, array in ((0, parts[0]), (2, parts[2]), (1, parts[1]))
            )
        )


def strong(number):
    """An array of the one dtype, because a weak type would be another program."""
    return jnp.asarray(number, float)


@dataclasses.dataclass(frozen=True)
class Trial:
    """One poisoned run."""

    method: str
    kind: str
    """density, slope, curvature, model, draw, metric or callback."""
    seed: int

    def __post_init__(self):
        random = np.random.default_rng(self.seed)
        choose = lambda *options: options[random.integers(len(options))]
        # Minus infinity is below every loss and every target: the most tempting poison there is.
        value = choose(np.nan, np.inf) if self.kind == "metric" else choose(np.nan, np.inf, -np.inf)
        setting = {
            "value": value,
            "radius": choose(EVERYWHERE, 1e-9, *10 ** random.uniform(-3, 0, 4)),
            "probability": choose(1.0, *random.uniform(0.1, 0.9, 4)),
            "part": int(random.integers(3)),
            "theta": jnp.asarray(random.standard_normal(3)),
            "y": jnp.asarray(0.5 * np.tanh(3 * np.asarray(X)) + 0.1 * random.standard_normal(X.size)),
            "key": jax.random.key(self.seed),
        }
        for name, field in setting.items():
            object.__setattr__(self, name, field)

    def but(self, **fields):
        """The same trial with other fields."""
        other = copy.copy(self)
        for name, field in fields.items():
            object.__setattr__(other, name, field)
        return other

    def poison(self, kind):
        """The poison of one part: the trial's own, or none."""
        return Poison(strong(self.value), strong(self.radius if self.kind == kind else NEVER))

    def problem(self):
        """The loss, the model and the metric."""
        model = Model(self.poison("model"), self.theta)
        a, b, c = self.theta
        data = jnp.stack([self.y, a * jnp.tanh(b * X + c)], axis=1)
        over = riesz.points(X, data=data)
        if self.kind == "draw":
            over = Draws(over, *map(strong, (self.value, self.probability, self.part)))
        density = Density((self.poison("density"), self.poison("slope"), self.poison("curvature")))
        return riesz.Integral(density, over), model, Metric(self.poison("metric"), self.theta)

    def run(self, **options):
        """The solution, with the assertion that SolveError is raised exactly for failures."""
        loss, model, metric = self.problem()
        options = {"metrics": {"distance": metric}, "max_steps": MAX_STEPS, "key": self.key} | options
        try:
            solution = riesz.minimise(loss, model, self.theta, METHODS[self.method], throw=True, **options)
        except riesz.SolveError as error:
            assert error.solution.result.failed
            assert str(error) == str(error.solution.result)
            return error.solution
        assert not solution.result.failed
        return solution

    def clean(self):
        """The same run without poison."""
        other = Trial(self.method, "callback", self.seed)
        assert np.array_equal(other.theta, self.theta)
        return other.run()

    @property
    def matters(self):
        """Whether the method looks at what is poisoned."""
        return self.kind not in ("metric", "callback") and (
            self.kind != "curvature" or self.method in ASK_FOR_CURVATURE
        )

    @property
    def clipped(self):
        """Whether the poison is a curvature that the metric clips to zero."""
        return self.kind == "curvature" and self.value == -np.inf and self.method in ("auto", "gauss_newton")

    def reached(self, theta):
        """Whether the poison acts at these parameters."""
        loss, model, _ = self.problem()
        if self.kind == "model":
            return bool(jnp.linalg.norm(theta - self.theta) > self.radius)
        z = jax.vmap(model(theta))(X)
        return bool(jnp.any(jnp.abs(z - loss.over.data[:, 1]) > self.radius))


def rejected_at_the_end(solution):
    accepted = solution.history["accepted"]
    return len(accepted) if not accepted.any() else int(np.argmax(accepted[::-1]))


def check_sound(trial, solution):
    """What holds for every run, poisoned or not."""
    assert np.all(np.isfinite(solution.theta)) and np.all(np.isfinite(solution.last))
    assert 0 <= solution.steps <= MAX_STEPS
    history = solution.history
    steps = {*STEP_COLUMNS, "phase"} if "phase" in history else set(STEP_COLUMNS)
    assert set(history) == {"loss", "seconds", "distance", *steps}
    for name, column in history.items():
        assert len(column) == solution.steps + (name not in steps), name
    assert solution.result is not Result.RUNNING
    assert (solution.result is Result.NONFINITE_INPUT) == (not np.isfinite(history["loss"][0]))
    if solution.result is Result.NONFINITE_INPUT:
        assert solution.steps == 0 and np.array_equal(solution.theta, trial.theta)
    undone = ~history["accepted"]
    assert np.all(history["step_norm"][undone] == 0)
    assert np.all(np.isfinite(history["step_norm"]))
    assert history["accepted"].dtype == bool
    if trial.kind != "draw":
        assert np.array_equal(history["loss"][1:][undone], history["loss"][:-1][undone], equal_nan=True)
        if solution.result is not Result.NONFINITE_INPUT:
            assert np.all(np.isfinite(history["loss"])) and float(solution.loss) <= np.min(history["loss"]) * (
                1 + 1e-14
            )
    else:
        # The loss before a step is that on its own points: where it is not finite, the step cannot be taken.
        assert not np.any(history["accepted"] & ~np.isfinite(history["loss"][:-1]))


def check_result(trial, solution):
    """The table at the top."""
    result, ending = solution.result, rejected_at_the_end(solution)
    right = ["NONFINITE_INPUT", "NONFINITE_STEPS", "STEP_LIMIT"] + ["RANK_COLLAPSE"] * trial.clipped
    assert result.name in right or "CONVERGED" in result.name or result.name == "STAGNATED"
    assert (result is Result.STEP_LIMIT) <= (solution.steps == MAX_STEPS)
    if result is Result.NONFINITE_STEPS:
        assert ending >= 5
    elif trial.method != "auto":
        assert ending < 5
    everywhere = trial.probability == 1.0 if trial.kind == "draw" else trial.radius == EVERYWHERE
    if trial.kind in ("density", "model"):
        assert (result is Result.NONFINITE_INPUT) == everywhere
        assert everywhere or not trial.reached(solution.last)
    elif trial.kind == "draw" and everywhere:
        # tanh hides an infinite point from the loss, but not from its derivative.
        hidden = trial.part == 0 and np.isinf(trial.value)
        assert result is (Result.NONFINITE_STEPS if hidden else Result.NONFINITE_INPUT)
    elif trial.clipped:
        assert not everywhere or (result is Result.RANK_COLLAPSE and solution.steps == 5)
    elif trial.kind in ("slope", "curvature") and trial.matters:
        assert result is not Result.NONFINITE_INPUT
        if everywhere:
            assert result is Result.NONFINITE_STEPS and solution.steps == 5
            assert np.array_equal(solution.last, trial.theta)
        if trial.reached(solution.last):
            # There is no step from there, so it was rejected until patience or the step limit ended the run.
            assert result is Result.NONFINITE_STEPS or ending == 0 or solution.steps == MAX_STEPS


def check(trial):
    solution = trial.run()
    check_sound(trial, solution)
    check_result(trial, solution)
    if not trial.matters:
        clean = trial.clean()
        assert solution.result is clean.result and solution.steps == clean.steps
        for name in ("theta", "last", "loss"):
            assert np.array_equal(getattr(solution, name), getattr(clean, name)), name
        assert np.array_equal(solution.history["loss"], clean.history["loss"])
    if trial.kind == "metric":
        distance = clean.history["distance"] - 1
        bad = ~np.isfinite(solution.history["distance"])
        assert np.array_equal(bad, distance > trial.radius)
        # A metric that is not a number has reached no target, and plus infinity none either.
        wanted = trial.run(target={"distance": 0.5})
        assert wanted.result is clean.result and wanted.steps == clean.steps


KINDS = ["density", "slope", "curvature", "model", "metric"]
# Every kind with every method of six, in an order in which the first trials already meet all of both; draws, which
# need programs of their own, with two.
FEW = [(name, KINDS[(i + i // 6) % 5]) for i, name in enumerate([*METHODS][:6] * 3)][:16] + [
    ("nhb", "draw"),
    ("auto", "draw"),
] * 2
MANY = [(name, kind) for kind in [*KINDS, "draw"] for name in METHODS] * 5


@pytest.mark.at_once(8)
@pytest.mark.parametrize(("seed", "method", "kind"), [(i, *trial) for i, trial in enumerate(FEW)])
def test_a_poisoned_run_ends_well(seed, method, kind):
    check(Trial(method, kind, seed))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "method", "kind"), [(1000 + i, *trial) for i, trial in enumerate(MANY[:200])])
def test_many_poisoned_runs_end_well(seed, method, kind):
    check(Trial(method, kind, seed))


@pytest.mark.parametrize("method", ["nhb", "auto"])
def test_minus_infinity_tempts_no_method(method):
    """It is below every loss, and a run avoids it just as it avoids what is not a number."""
    trial = Trial(method, "density", 5).but(radius=0.05)
    values = (np.nan, np.inf, -np.inf)
    first, *others = (trial.but(value=value).run() for value in values)
    assert first.history["accepted"].any() and not trial.clean().history["loss"][-1] == first.history["loss"][-1]
    for other in others:
        assert other.result is first.result is Result.STEP_LIMIT
        assert np.array_equal(other.theta, first.theta)
        assert np.array_equal(other.history["loss"], first.history["loss"])


@pytest.mark.parametrize(
    "returned", [np.nan, np.ones(3), np.array([True]), jnp.ones((2, 2)), "stop", None, 1, object()]
)
def test_what_a_callback_returns_is_no_poison(returned):
    """Only True stops a run."""
    trial, calls = Trial("nhb", "callback", 7), []
    solution = trial.run(callback=lambda steps, so_far: (calls.append((steps, so_far)), returned)[1])
    check_sound(trial, solution)
    clean = trial.clean()
    assert np.array_equal(solution.theta, clean.theta) and solution.result is clean.result is Result.STEP_LIMIT
    assert [steps for steps, _ in calls] == [so_far.steps for _, so_far in calls]
    assert calls[-1][0] == MAX_STEPS and len(calls) > 2


@pytest.mark.parametrize("error", [RuntimeError("mine"), FloatingPointError("nan"), StopIteration(), SystemExit(3)])
@pytest.mark.parametrize("throw", [True, False])
def test_what_a_callback_raises_comes_through(error, throw):
    """Unchanged, and with `throw=False` too: it is no failure of the run."""
    loss, model, _ = Trial("nhb", "callback", 7).problem()

    def callback(steps, so_far):
        if steps > 2:
            raise error

    options = {"callback": callback, "max_steps": MAX_STEPS, "throw": throw}
    with pytest.raises(type(error)) as caught:
        riesz.minimise(loss, model, Trial("nhb", "callback", 7).theta, METHODS["nhb"], **options)
    assert caught.value is error


def test_a_poisoned_callback_does_not_spoil_the_run_that_it_watches():
    """What it does to the solution that it was given stays there."""
    trial = Trial("nhb", "callback", 7)

    def callback(steps, so_far):
        for column in so_far.history.values():
            column[...] = 0
        so_far.history.clear()

    solution = trial.run(callback=callback)
    check_sound(trial, solution)
    assert np.array_equal(solution.history["loss"], trial.clean().history["loss"])


def test_all_results_of_the_table_occur():
    """The trials of the default run are not all of one kind: poison does stop runs, and does not stop all."""
    found = {Trial(method, kind, seed).run().result for seed, (method, kind) in enumerate(FEW)}
    assert {Result.NONFINITE_INPUT, Result.NONFINITE_STEPS, Result.STEP_LIMIT} <= found
