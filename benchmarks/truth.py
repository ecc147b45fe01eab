"""Whether "converged" is true: random small problems, with SciPy as the judge.

    python benchmarks/truth.py [--problems 200] [--first 0] [--kind mlp_noisy]

Problem number n has seed n, and kinds take turns. Parameters, and data where a loss has units, are scaled by
10^U(-12, 12). Each problem is given to `riesz.minimise` with its default method. A result that says converged is false
where one of two tests fails at `solution.theta`.

- SciPy, started there, lowers the loss by more than 1e-8 of sum_j w_j |l_j|. It is `least_squares` for least squares
  and L-BFGS-B on the exact gradient for other losses, both with tight tolerances and in variables that change the
  function equally.
- Some component of the gradient is larger than 1e-6 of sum_j w_j |l'_j| |dz_j/dtheta_i|.

Both leave room for rounding, without which no loss that vanishes would pass. Rounding of parameters and values moves
the value z_j by e_j, of the size eps (|z_j| + sum_i |theta_i dz_j/dtheta_i|). A loss whose l vanishes may fall by what
this makes of it, 1e3 eps^2 (sum_i theta_i^2 |psi_i|^2 + sum_j w_j l''_j z_j^2), where |psi_i|^2 is the sum of
w_j l''_j (dz_j/dtheta_i)^2. Any computed loss is uncertain by 4 sum_j w_j |l'_j| e_j, and a gradient by sqrt(1e3) times
sum_j w_j |l''_j| e_j |dz_j/dtheta_i|. What SciPy finds is as uncertain, by the same sums at its own parameters: where
columns are collinear up to rounding, it lowers the loss by parameters so large that the loss means nothing.

Results that do not say converged are not false. Those that say STAGNATED where both tests hold are counted as well:
they stand at a minimum, or where rounding lets nothing fall. The exit code is 1 where any result is false.
"""

import argparse
import collections
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

import riesz

ROWS, COLUMNS, CLASSES = 12, 4, 3
"""The points of every problem, their coordinates, and the classes: few shapes, so that programs are shared."""
LOWER, BALANCE = 1e-8, 1e-6
"""How much lower SciPy may go, and how much of the gradient may be left."""
ROUNDING = 1e3
"""A loss of at most this multiple of what rounding makes of it has vanished."""


class Scaled(eqx.Module):
    """A model in other units: of its parameters, and of its values."""

    model: Callable
    units: jax.Array
    output: jax.Array

    def __call__(self, theta):
        """The function of parameters in these units."""
        v = self.model(self.units * theta)
        return lambda x: self.output * v(x)


def linear(t):
    return lambda x: x @ t


def several(t):
    return lambda x: t.reshape(CLASSES, COLUMNS) @ x


def exponential(t):
    return lambda x: t[0] * jnp.exp(t[1] * x[1]) + t[2] + t[3] * x[2]


def quadratic(t):
    return lambda x: x @ t + (x[::-1] @ t) ** 2


network = riesz.mlp(jax.random.key(0), (1, 3, 1))[0]


class Log1p(eqx.Module):
    """A user's density: log(1 + (r / delta)^2), which is not convex."""

    delta: jax.Array

    def __call__(self, z, y):
        """The density at a value and its datum."""
        return jnp.log1p(((z - y) / self.delta) ** 2)


class Problem(NamedTuple):
    """A loss, a model and a start."""

    loss: Any
    D: Any
    theta0: jax.Array
    vanishes: bool
    """Whether l is zero somewhere, so that the loss may vanish."""


# Problems ------------------------------------------------------------------------------------------------------------


def power(random, low, high):
    return 10.0 ** random.uniform(low, high)


def units_of(random, size):
    """Units of the parameters: none, one for all, or one for each."""
    return [np.ones(size), np.full(size, power(random, -12, 12)), 10.0 ** random.uniform(-12, 12, size)][
        random.integers(3)
    ]


def make(loss, model, x, y, start, random, vanishes):
    """A problem with data, in random units; `loss` is given the measure and the unit of the data."""
    units, output, unit = units_of(random, start.size), 1.0, 1.0
    if vanishes:
        # Data and values in one unit; or data alone, and then the model has far to go.
        unit = [1.0, power(random, -12, 12)][random.integers(2)]
        output = [1.0, unit][random.integers(2)]
        y = unit * y
    D = Scaled(model, jnp.asarray(units), jnp.asarray(output))
    return Problem(
        loss(riesz.points(jnp.asarray(x), data=jnp.asarray(y)), unit), D, jnp.asarray(start / units), vanishes
    )


def least_squares(over, unit):
    return riesz.least_squares(over)


def table(random):
    """A table with an intercept, true coefficients, and a start that may be far away."""
    x = np.column_stack([np.ones(ROWS), random.standard_normal((ROWS, COLUMNS - 1))])
    return x, random.standard_normal(COLUMNS), random.standard_normal(COLUMNS) * random.choice([0, 1])


def noise(random, low=-9.0, high=0.0):
    return random.standard_normal(ROWS) * random.choice([0.0, power(random, low, high)])


def linear_fit(random):
    x, truth, start = table(random)
    start = start * random.choice([1.0, power(random, -12, 12)])
    return make(least_squares, linear, x, x @ truth + noise(random), start, random, True)


def collinear_fit(random):
    """Columns that depend on each other: exactly, up to rounding, or nearly."""
    x, truth, start = table(random)
    x = x[:, :2] @ random.standard_normal((2, COLUMNS)) if random.integers(2) else x[:, random.integers(0, 2, COLUMNS)]
    x = x + random.choice([0.0, power(random, -17, -3)]) * random.standard_normal(x.shape)
    return make(least_squares, linear, x, x @ truth + noise(random, -3), start, random, True)


def robust_fit(loss):
    def problem(random):
        x, truth, start = table(random)
        y = x @ truth + noise(random)
        y[random.integers(0, ROWS, 3)] += power(random, -1, 3)
        delta = power(random, -2, 1)
        return make(lambda over, unit: loss(over, unit * delta), linear, x, y, start, random, True)

    return problem


def log1p(over, delta):
    return riesz.Integral(Log1p(jnp.asarray(delta)), over)


def binary(separable):
    def problem(random):
        x, truth, start = table(random)
        labels = (x @ truth > 0).astype(float) if separable else random.integers(0, 2, ROWS).astype(float)
        start = start * power(random, -1, 2)
        return make(lambda over, unit: riesz.logistic(over), linear, x, labels, start, random, False)

    return problem


def classes(separable):
    def problem(random):
        x = table(random)[0]
        truth, start = random.standard_normal((2, CLASSES, COLUMNS))
        labels = np.argmax(x @ truth.T, axis=1) if separable else random.integers(0, CLASSES, ROWS)
        start = (start * random.choice([0.0, power(random, -1, 2)])).ravel()
        return make(lambda over, unit: riesz.softmax(over), several, x, labels, start, random, False)

    return problem


def counts(random):
    x, truth, start = table(random)
    y = random.poisson(np.exp(x @ truth / 2)).astype(float)
    start = start * power(random, -1, 1.5)
    return make(lambda over, unit: riesz.poisson(over), linear, x, y, start, random, False)


def large_residual(model):
    def problem(random):
        x, truth, start = table(random)
        truth = truth * [1, 0.5, 1, 1]
        if random.integers(4) == 0:
            x[:, 1] = 1.0  # a column too many
        y = np.asarray(jax.vmap(model(jnp.asarray(truth)))(jnp.asarray(x)))
        y = y + random.standard_normal(ROWS) * power(random, -0.5, 2)
        return make(least_squares, model, x, y, start + 0.1 * random.standard_normal(COLUMNS), random, True)

    return problem


def network_fit(noisy):
    def problem(random):
        x = np.linspace(-1, 1, ROWS)[:, None]
        truth, start = random.standard_normal((2, 10))
        y = np.asarray(jax.vmap(network(jnp.asarray(truth)))(jnp.asarray(x))).reshape(x.shape)
        y = y + noisy * power(random, -3, 0) * random.standard_normal(x.shape)
        return make(least_squares, network, x, y, start, random, True)

    return problem


KINDS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "linear": linear_fit,
    "collinear": collinear_fit,
    "huber": robust_fit(riesz.huber),
    "pseudo_huber": robust_fit(riesz.pseudo_huber),
    "log1p": robust_fit(log1p),
    "logistic": binary(False),
    "logistic_separable": binary(True),
    "softmax": classes(False),
    "softmax_separable": classes(True),
    "poisson": counts,
    "exponential": large_residual(exponential),
    "quadratic": large_residual(quadratic),
    "mlp": network_fit(False),
    "mlp_noisy": network_fit(True),
}


def problem_of(kind: str, seed: int) -> Problem:
    """The problem of a kind with a seed."""
    return KINDS[kind](np.random.default_rng(seed))


# The judge -----------------------------------------------------------------------------------------------------------


class Terms(eqx.Module):
    """The parts that a loss and its gradient are sums of; values of a point that has several are stacked."""

    weights: jax.Array
    z: jax.Array
    rows: jax.Array
    """dz_j/dtheta_i."""
    densities: jax.Array
    slopes: jax.Array
    curvatures: jax.Array
    """The absolute row sums of l''."""


@eqx.filter_jit
def terms_of(loss, D, theta):
    """The terms of the loss at theta, without any code of riesz but the model and the density."""
    over = loss.over

    def values(theta):
        return jax.vmap(D(theta))(over.x)

    z, rows = values(theta), jax.jacfwd(values)(theta)
    flat = lambda a: a.reshape(ROWS, -1)
    densities, slopes = jax.vmap(jax.value_and_grad(loss.density))(z, over.data)
    width = flat(z).shape[1]
    hessians = jax.vmap(jax.hessian(loss.density))(z, over.data).reshape(ROWS, width, width)
    curvatures = jnp.sum(jnp.abs(hessians), axis=2)
    return Terms(over.weights, flat(z), rows.reshape(ROWS, width, -1), densities, flat(slopes), curvatures)


class Verdict(NamedTuple):
    """What the judge found."""

    kind: str
    seed: int
    result: Any
    loss: float
    lower: float
    """How much lower SciPy went, as a multiple of what is allowed."""
    gradient: float
    """The largest component of the gradient, as a multiple of what is allowed."""
    steps: int

    @property
    def false(self) -> bool:
        """Whether the result says converged, and is not."""
        return self.result.converged and not self.holds

    @property
    def holds(self) -> bool:
        """Whether both tests hold."""
        return self.lower <= 1 and self.gradient <= 1

    @property
    def name(self) -> str:
        """The result, and whether what says stagnated stands at a minimum."""
        if self.result.converged:
            return "converged"
        there = self.result is riesz.Result.STAGNATED and self.holds
        return f"{self.result.name}{' at a minimum' if there else ''}"

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.seed}: {self.result.name} after {self.steps} steps at {self.loss:.6e}, SciPy goes "
            f"lower by {self.lower:.2g} and the gradient is {self.gradient:.2g} of what is allowed"
        )


def judged(problem: Problem, theta: np.ndarray) -> tuple[float, float]:
    """How much lower SciPy goes from theta, and how large the gradient is there, as multiples of what is allowed."""
    loss, D, _, vanishes = problem
    known = jax.tree.map(np.asarray, terms_of(loss, D, jnp.asarray(theta)))
    w, eps = known.weights[:, None], np.finfo(float).eps
    value, magnitude = known.weights @ known.densities, known.weights @ np.abs(known.densities)
    moved = eps * (np.abs(known.z) + np.abs(theta * known.rows).sum(2))
    sizes = np.einsum("jp,jpi->i", w * np.abs(known.slopes), np.abs(known.rows))
    gradient = np.einsum("jp,jpi->i", w * known.slopes, known.rows)
    uncertain = np.einsum("jp,jpi->i", w * known.curvatures * moved, np.abs(known.rows))
    allowed = BALANCE * sizes + ROUNDING**0.5 * uncertain
    unbalanced = np.max(np.abs(gradient) / np.where(allowed > 0, allowed, np.finfo(float).tiny))

    def uncertainty(known, theta):
        squares = np.einsum("jp,jpi->i", w * known.curvatures, known.rows**2)
        vanishing = ROUNDING * eps**2 * (np.sum(theta**2 * squares) + np.sum(w * known.curvatures * known.z**2))
        moved = eps * (np.abs(known.z) + np.abs(theta * known.rows).sum(2))
        return vanishes * vanishing + 4 * np.sum(w * np.abs(known.slopes) * moved)

    # Variables that change the function equally, and a loss of the order of one.
    norms = np.sqrt(np.einsum("jp,jpi->i", w + 0 * known.z, known.rows**2))
    units = 1 / np.where(norms > 0, norms, np.inf)
    unit = max(magnitude, np.finfo(float).tiny)

    def at(s):
        return jax.tree.map(np.asarray, terms_of(loss, D, jnp.asarray(theta + units * s)))

    def value_and_gradient(s):
        known = at(s)
        slopes = known.weights[:, None] * known.slopes
        return known.weights @ known.densities / unit, np.einsum("jp,jpi->i", slopes, known.rows) * units / unit

    zero = np.zeros_like(theta)
    with np.errstate(all="ignore"):
        if loss.density is riesz.least_squares(loss.over).density:
            root = np.sqrt(w / unit)
            fit = scipy.optimize.least_squares(
                lambda s: np.nan_to_num(root * at(s).slopes, nan=1e150, posinf=1e150, neginf=-1e150).ravel(),
                zero,
                lambda s: (root[:, :, None] * at(s).rows).reshape(-1, theta.size) * units,
                xtol=1e-15,
                ftol=1e-15,
                gtol=1e-15,
                x_scale=1.0,
                max_nfev=200,
            )
        else:
            options = {"ftol": 1e-16, "gtol": 1e-14, "maxiter": 1000, "maxcor": 20}
            # In units in which the first step is neither nothing nor everything.
            length = max(np.linalg.norm(gradient * units), np.finfo(float).tiny) / unit
            options["gtol"] *= min(length, 1.0)
            fit = scipy.optimize.minimize(value_and_gradient, zero, jac=True, method="L-BFGS-B", options=options)
    found = at(fit.x)
    lower = value - found.weights @ found.densities
    allowed = LOWER * magnitude + uncertainty(known, theta) + uncertainty(found, theta + units * fit.x)
    return float(np.nan_to_num(lower / max(allowed, np.finfo(float).tiny), nan=0.0)), float(unbalanced)


def verdict(kind: str, seed: int, max_steps: int = 300) -> Verdict:
    """Minimise one problem with the default method, and judge the result where it says converged or stagnated."""
    problem = problem_of(kind, seed)
    solution = riesz.minimise(*problem[:3], max_steps=max_steps, progress=False, throw=False)
    asked = solution.result.converged or solution.result is riesz.Result.STAGNATED
    lower, gradient = judged(problem, np.asarray(solution.theta)) if asked else (0.0, 0.0)
    return Verdict(kind, seed, solution.result, float(solution.loss), lower, gradient, int(solution.steps))


def verdicts(problems: int, first: int = 0, kinds: tuple[str, ...] = tuple(KINDS)):
    """The verdicts on problems first, first + 1, ...; kinds take turns."""
    for seed in range(first, first + problems):
        yield verdict(kinds[seed % len(kinds)], seed)


def main() -> int:
    """Print a line for every kind, and every false result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    results: Any = collections.defaultdict(collections.Counter)
    wrong = []
    for one in verdicts(given.problems, given.first, tuple(given.kind or KINDS)):
        results[one.kind][one.name] += 1
        if one.false:
            wrong.append(one)
            print(f"FALSE {one}", flush=True)
    for kind, found in results.items():
        others = ", ".join(f"{count} {name}" for name, count in sorted(found.items()) if name != "converged")
        false = sum(one.kind == kind for one in wrong)
        print(f"{kind:20s} {found['converged']:4d} converged, of which {false} false; others: {others or 'none'}")
    print(f"{len(wrong)} false of {sum(found['converged'] for found in results.values())} that converged")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
