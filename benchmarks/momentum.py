"""Where momentum pays: auto with the last displacement carried over, in its forms, as Markdown.

    python benchmarks/momentum.py [--problems poisson-5d ...] [--methods ...] [--shares 0.1 ...] [--starts 5]
                                  [--first 1000] [--store out/momentum] [--fresh]

The forms are members of one family. With f(G) the damped inverse of a step of auto, c the gradient of the loss and
delta the last displacement, a step is

    -f(G) c + beta [ a f(G) Psi^T (psi_{k-1}^T delta) + b (I - f(G) G) delta ]:

a = 1, b = 0 keeps what the tangent space resolves of the last tangent vector (natural heavy ball), a = 0, b = 1 keeps
what it does not (SPRING), and both keep everything. `kept` is b alone, but never longer than half of -f(G) c.

On drawn points every run makes all its steps, and its error is the median over its last 20 iterates of the error on all
points. Cells have the median of the starts; in brackets the geometric mean of the ratio to auto from the same start and
draws, its standard error as a factor, and on how many starts the error is lower than auto's. On fixed points, the
control, they have the steps to the paper's target.

Every run is stored in a file of its own as soon as it is known, so that an interrupted command goes on when it is given
again.
"""

import argparse
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import solve
from table import Store, code, run

import riesz
from riesz._geometry.rows import weighted
from riesz._geometry.tangent import TangentSpace
from riesz._methods.auto.auto import Auto, AutoState
from riesz._problem.features import along
from riesz.experiments import _batches

SHARES = (2.0, 1.0, 0.5, 0.25, 0.1)
"""Rows of a step, in units of the number of parameters."""
LAST = 20
"""The error of a run is the median of so many last iterates."""


# The family. ----------------------------------------------------------------------------------------------------------


class Carrying(TangentSpace):
    """A tangent space whose solutions carry a part of the last displacement over."""

    last: jax.Array = eqx.field(kw_only=True)
    tangent: jax.Array = eqx.field(kw_only=True)
    """The last tangent vector psi_{k-1}^T delta as weighted rows."""
    a: jax.Array = eqx.field(kw_only=True)
    b: jax.Array = eqx.field(kw_only=True)
    limit: jax.Array = eqx.field(kw_only=True)
    """What is carried over is at most this multiple of the step as long."""

    def solve(self, r, c):
        """The coefficients g, less what is carried over."""
        g = TangentSpace.solve(self, r, c)
        carried = self.a * self.project(self.tangent) + self.b * (self.last - self.project(self.psi @ self.last))
        longest, length = self.limit * self.length(g), self.length(carried)
        return g - jnp.where(length > longest, longest / jnp.where(length > 0, length, 1), 1) * carried


class Remembering(AutoState):
    """Auto's state and the parameters before the last step."""

    before: jax.Array = eqx.field(kw_only=True)


class Heavy(Auto):
    """Auto with momentum; a and b are already multiplied by beta."""

    a: float = 0.0
    b: float = 0.0
    limit: float = float("inf")

    def init(self, theta):
        """At rest."""
        state = Auto.init(self, theta)
        known = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
        return Remembering(**known, before=theta)

    def step(self, loss, D, theta, state, sample):
        """A step of auto, which is remembered."""
        moved, after, info = Auto.step(self, loss, D, theta, state, sample)
        return moved, dataclasses.replace(after, before=theta), info

    def _look(self, loss, D, theta, state, sample):
        view, after = Auto._look(self, loss, D, theta, state, sample)
        space, last = view.space, state.quick.last
        tangent = weighted(space.blocks, lambda block: along(D, block.operator, state.before, last, block.over.x))
        known = {field.name: getattr(space, field.name) for field in dataclasses.fields(space)}
        a, b, limit = (jnp.asarray(number, theta.dtype) for number in (self.a, self.b, self.limit))
        carrying = Carrying(**known, last=last, tangent=tangent, a=a, b=b, limit=limit)
        return dataclasses.replace(view, space=carrying), after


def heavy(a, b, limit=float("inf")):
    """Auto with momentum."""
    return Heavy(riesz.QuickSteps(momentum=0.0), a=jnp.asarray(a), b=jnp.asarray(b), limit=jnp.asarray(limit))


METHODS = {
    "auto": lambda: riesz.auto(riesz.QuickSteps(momentum=0.0)),
    "kept, 0.95": lambda: riesz.auto(),
    "a, 0.5": lambda: heavy(0.5, 0.0),
    "b, 0.5": lambda: heavy(0.0, 0.5),
    "b, 0.8": lambda: heavy(0.0, 0.8),
    "a and b, 0.5": lambda: heavy(0.5, 0.5),
    "SPRING, 0": lambda: riesz.spring(0.0),
    "SPRING, 0.9": lambda: riesz.spring(),
}
"""The methods, with beta."""


# The problems. --------------------------------------------------------------------------------------------------------


@dataclass
class Drawn:
    """A problem with points that are drawn anew each step."""

    title: str
    loss: Callable
    """The loss with a number of rows a step."""
    D: Callable
    size: int
    start: Callable
    error: Callable
    steps: int
    shares: tuple[float, ...]

    def rows(self, share):
        """The rows of a step."""
        return round(share * self.size)


def poisson(n=5, widths=(20, 20)):
    """-Laplace u = f on the unit cube of five dimensions, u = sum_i cos(pi x_i), a quarter of the points on faces."""
    D, theta = riesz.mlp(jax.random.key(0), (n, *widths, 1))
    exact = lambda x: jnp.sum(jnp.cos(jnp.pi * x))
    operator = lambda v: lambda x: -riesz.laplacian(v)(x) / jnp.pi**2
    low, high = (0.0,) * n, (1.0,) * n
    test = jnp.asarray(np.random.default_rng(1).random((2000, n)))
    truth = jax.vmap(exact)(test)

    def loss(rows):
        inside = rows * 3 // 4
        equation = riesz.residual(operator, exact, riesz.monte_carlo(low, high, inside))
        return equation + riesz.residual(riesz.identity, exact, riesz.monte_carlo_boundary(low, high, rows - inside))

    error = lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(test) - truth) / jnp.linalg.norm(truth)
    start = lambda seed: riesz.mlp(jax.random.key(seed), (n, *widths, 1))[1]
    return Drawn("Poisson 5d, 5-20-20-1, relative L2 error", loss, D, theta.size, start, error, 200, (0.36, 0.18, 0.09))


@functools.cache
def problems():
    """The problems on drawn points, by name."""
    found = {"poisson-5d": poisson()}
    for subject in _batches.subjects():
        whole = subject.experiment
        error = whole.metrics[subject.error]
        title = f"{whole.title}, {subject.label}"
        found[whole.name] = Drawn(title, subject.loss, whole.D, whole.size, whole.start, error, 300, SHARES)
    return found


@functools.cache
def controls():
    """The problems of the paper on their own, fixed points."""
    return {f"{problem.name}-fixed": problem for problem in solve.problems() if problem.name != "poisson-2d"}


# Runs and tables. -----------------------------------------------------------------------------------------------------


def drawn(problem, name, loss, method, seed):
    """The error of a run on drawn points."""
    options = {"metrics": {"error": problem.error}, "max_steps": problem.steps, "key": jax.random.key(seed)}
    found, known = run(name, loss, problem.D, problem.start(seed), method, **options)
    last = found.history["error"][-LAST:]
    return {"error": float(np.median(np.where(np.isfinite(last), last, np.inf))), **known}


def fixed(problem, name, method, seed):
    """The steps to the target on fixed points; infinitely many where it is missed."""
    tests = {"metrics": {"error": problem.error}, "target": {"error": problem.target}, "max_steps": problem.max_steps}
    found, known = run(name, problem.loss, problem.D, problem.start(seed), method, **tests)
    reached = found.result is riesz.Result.TARGET_REACHED
    return {"error": float(found.steps) if reached else float("inf"), **known}


def ratio(errors, others):
    """The geometric mean of ratios and the factor of its standard error; a run that diverges has the error 1000."""
    logarithms = np.log(np.minimum(errors, 1e3)) - np.log(np.minimum(others, 1e3))
    spread = logarithms.std(ddof=1) if logarithms.size > 1 else np.nan
    return np.exp(logarithms.mean()), np.exp(spread / np.sqrt(logarithms.size))


def cells(found):
    """The medians, with the ratio to auto, its standard error, and on how many starts it is lower."""
    auto = found["auto"]
    for name, errors in found.items():
        median = f"{np.median(errors):.1e}" if np.median(errors) < 1e3 else "diverges"
        mean, factor = ratio(errors, auto)
        compared = f" ({mean:.2f} x/÷ {factor:.1f}; {np.sum(errors < auto)} of {auto.size})"
        yield median if name == "auto" else median + compared


def line(*entries):
    print(f"| {' | '.join(str(entry) for entry in entries)} |", flush=True)


def head(*entries):
    print()
    line(*entries)
    line(*["---"] * len(entries))


def main():
    every = [*problems(), *controls()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", choices=every, default=every, metavar="PROBLEM", help=", ".join(every))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--shares", nargs="*", type=float, help="rows over parameters, instead of each problem's own")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--first", type=int, default=1000, help="the seed of the first start")
    parser.add_argument("--store", type=pathlib.Path, default=pathlib.Path("out/momentum"))
    parser.add_argument("--fresh", action="store_true", help="make everything anew, whatever is stored")
    options = parser.parse_args()
    code()  # as it was imported: it may be edited while this runs
    store = Store(options.store, options.fresh)
    methods = {name: METHODS[name]() for name in METHODS if name in ("auto", *options.methods)}
    seeds = range(options.first, options.first + options.starts)

    def errors(problem, method, find):
        part = method.replace(", ", "-").replace(" ", "-")
        return np.array([store.result(problem, part, seed, find)["error"] for seed in seeds])

    for name in [name for name in problems() if name in options.problems]:
        problem = problems()[name]
        print(f"\n**{problem.title}**, d = {problem.size}, {problem.steps} steps, {options.starts} starts")
        head("rows", "rows / d", *methods)
        for share in options.shares or problem.shares:
            rows = problem.rows(share)
            loss, found = problem.loss(rows), {}
            for label, method in methods.items():
                find = functools.partial(drawn, problem, f"{name} {rows} {label}", loss, method)
                found[label] = errors(f"{name}-{rows}", label, find)
            line(rows, f"{share:g}", *cells(found))
            solve.forget()
    chosen = [name for name in controls() if name in options.problems]
    if chosen:
        print("\n**Steps to the target, fixed points**")
        head("", *methods)
    for name in chosen:
        problem, found = controls()[name], {}
        for label, method in methods.items():
            found[label] = errors(name, label, functools.partial(fixed, problem, f"{name} {label}", method))
        line(name.removesuffix("-fixed"), *(f"{np.median(steps):g}" for steps in found.values()))
        solve.forget()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Interrupted; the same command goes on, unless it is given --fresh.")
