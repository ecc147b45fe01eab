"""Auto against every alternative: iterations and seconds to the target, from the same random starts, in one run.

    make solve      or      python benchmarks/solve.py [--starts 10] [--first 0] [--problems ...] [--competitors ...]
                                                       [--ablate] [--final]

An iteration is one Jacobian and one factorisation, rejected trials included. Seconds exclude compilation and the check
of the target; starts run one after another on one BLAS thread. Competitors: the methods of the paper, its line search,
SciPy's `least_squares` (lm and trf, with our exact, compiled Jacobian), optimistix's Levenberg-Marquardt and Dogleg.
With --ablate, auto with each of its ingredients removed in turn; with --final, what auto returns when it may run until
it stops by itself. Prints tables, ready for the README and docs/auto.md.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import scipy.optimize
from step import poisson

import riesz
from riesz._methods.auto import Auto, losses, quick_steps
from riesz._problem.features import evaluate, features, flat
from riesz._running import loop
from riesz.experiments import advection_diffusion, extended_xor, mackey_glass, reaction_diffusion

jax.config.update("jax_enable_x64", True)


@dataclasses.dataclass
class Problem:
    """What to reach, from where, in how many steps."""

    name: str
    loss: object
    D: Callable
    start: Callable
    error: Callable
    target: float
    max_steps: int
    squares: bool = True

    def residual(self, theta):
        """The weighted residuals whose half squared norm is the loss."""
        rows = []
        for term in self.loss.terms:
            over = term.draw_points(None, self.D, theta)
            z = evaluate(self.D, term.operator, theta, over.x)
            gap = z if over.data is None else z - over.data
            rows.append((jnp.sqrt(over.weights)[:, None] * flat(gap)).ravel())
        return jnp.concatenate(rows)


def problems():
    """The four problems of the paper, and Poisson's equation in two dimensions."""
    for module in (mackey_glass, extended_xor, advection_diffusion, reaction_diffusion):
        found = module.experiment()
        ((metric, target),) = found.target.items()
        squares = module is not extended_xor
        yield Problem(
            found.name, found.loss, found.D, found.start, found.metrics[metric], target, found.max_steps, squares
        )
    loss, D, theta = poisson()
    side = jnp.linspace(0, 1, 101)
    x = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2)
    exact = jnp.prod(jnp.sin(jnp.pi * x), axis=1)
    error = lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(x) - exact) / jnp.linalg.norm(exact)
    start = lambda seed: jax.random.normal(jax.random.key(seed), theta.shape)
    yield Problem("poisson-2d", loss, D, start, error, 1e-8, 150)


# Each competitor gives iterations, seconds and whether the target was reached, from one start. ------------------------


def by_riesz(method):
    """A method of riesz, made once so that it compiles once."""
    made = method()

    def solve(problem, theta):
        solution = riesz.minimise(
            problem.loss, problem.D, theta, made, max_steps=problem.max_steps,
            metrics={"error": problem.error}, target={"error": problem.target}, progress=False, throw=False,
        )  # fmt: skip
        reached = solution.result is riesz.Result.TARGET_REACHED
        return solution.steps, float(solution.history["seconds"][-1]), reached

    return solve


class Reached(Exception):
    """Raised out of SciPy's loop at the target."""


def by_scipy(kind):
    """SciPy's least_squares with a compiled exact Jacobian; an iteration is an evaluation of the Jacobian."""
    compiled = {}

    def solve(problem, theta):
        if problem.name not in compiled:
            error = lambda theta: problem.error(theta)  # a module with arrays cannot be hashed, as jit must
            compiled[problem.name] = jax.jit(problem.residual), jax.jit(rows_of(problem)), jax.jit(error)
            for function in compiled[problem.name]:
                function(theta)
        residual, jacobian, error = compiled[problem.name]
        count, spent, reached = 0, 0.0, False

        def timed(theta):
            nonlocal count
            count += 1
            return np.asarray(jacobian(theta))

        def checked(theta):
            nonlocal spent
            began = time.perf_counter()
            arrived = float(error(theta)) <= problem.target
            spent += time.perf_counter() - began
            if arrived:
                raise Reached
            return np.asarray(residual(theta))

        began = time.perf_counter()
        try:
            scipy.optimize.least_squares(
                checked, np.asarray(theta), timed, method=kind, max_nfev=2 * problem.max_steps,
                ftol=1e-15, xtol=1e-15, gtol=1e-15, x_scale="jac" if kind == "trf" else 1.0,
            )  # fmt: skip
        except Reached:
            reached = True
        except (ValueError, np.linalg.LinAlgError):  # a residual that is not finite
            pass
        return count, time.perf_counter() - began - spent, reached and count <= problem.max_steps

    return solve


def rows_of(problem):
    """The Jacobian of the weighted residuals, assembled point by point as riesz does."""

    def rows(theta):
        parts = []
        for term in problem.loss.terms:
            over = term.draw_points(None, problem.D, theta)
            dz = features(problem.D, term.operator, theta, over.x).jacobians
            parts.append((jnp.sqrt(over.weights)[:, None, None] * dz).reshape(-1, theta.size))
        return jnp.concatenate(parts)

    return rows


def by_optimistix(solver):
    """A solver of optimistix, stepped in one compiled loop until the target."""
    compiled = {}

    def loop(problem, theta):
        fn = lambda y, args: (problem.residual(y), None)
        shape = jax.eval_shape(problem.residual, theta)
        nothing = frozenset()
        state = solver.init(fn, theta, None, {}, shape, None, nothing)

        def unfinished(carry):
            k, y, _ = carry
            return (k < problem.max_steps) & ~(problem.error(y) <= problem.target)

        arrays, rest = eqx.partition(state, eqx.is_array)

        def body(carry):
            k, y, arrays = carry
            y, state, _ = solver.step(fn, y, None, {}, eqx.combine(arrays, rest), nothing)
            return k + 1, y, eqx.filter(state, eqx.is_array)

        k, y, _ = jax.lax.while_loop(unfinished, body, (jnp.zeros((), int), theta, arrays))
        return k, problem.error(y) <= problem.target

    def solve(problem, theta):
        if problem.name not in compiled:
            compiled[problem.name] = jax.jit(lambda theta: loop(problem, theta))
            jax.block_until_ready(compiled[problem.name](theta))
        began = time.perf_counter()
        k, reached = jax.block_until_ready(compiled[problem.name](theta))
        return int(k), time.perf_counter() - began, bool(reached)

    return solve


def competitors():
    """By name; those of SciPy and optimistix solve least-squares problems only."""
    paper = ("ngd", "nhb", "nhb_fd", "qnhb", "nn2", "nn2_fd")
    tight = {"rtol": 1e-15, "atol": 1e-15}
    return {
        "auto": by_riesz(riesz.auto),
        **{name: by_riesz(riesz.METHODS[name]) for name in paper},
        **{f"{name}, Gauss-Newton": by_riesz(lambda name=name: riesz.METHODS[name](W=riesz.GaussNewton()))
           for name in ("ngd", "nhb")},
        "ngd, line search": by_riesz(lambda: riesz.ngd(step_size=riesz.GridSearch())),
        "SciPy lm": by_scipy("lm"),
        "SciPy trf": by_scipy("trf"),
        "optimistix LM": by_optimistix(optimistix.LevenbergMarquardt(**tight)),
        "optimistix Dogleg": by_optimistix(optimistix.Dogleg(**tight)),
    }  # fmt: skip


def ablations():
    """Auto without one of its ingredients: a method, and what is changed of the code that has no field."""
    path = lambda limit=0.75, corrections=2, lowest=True: quick(
        retraction=riesz.SecondOrder(limit, corrections, lowest)
    )
    quick = lambda **fields: riesz.auto(quick=riesz.QuickSteps(**fields))
    ones = lambda sizes, theta, residual, speed, drawn: jnp.ones_like(speed)
    return {
        "auto": (riesz.auto(), {}),
        "no corrections": (path(corrections=0), {}),
        "no curvature limit": (path(limit=1e9), {}),
        "steps not ended where the loss is lowest": (path(lowest=False), {}),
        "monotone": (riesz.auto(), {(losses, "LENGTH"): 1}),
        "no damping": (quick(radius=1e6), {}),
        "damping not eased when straight": (quick(straight=1e-9), {}),
        "unscaled coordinates": (riesz.auto(), {(quick_steps, "scale"): ones}),
        "no long steps": (riesz.auto(), {(Auto, "goes_on"): lambda self, loss: False}),
    }


@contextlib.contextmanager
def changed(parts):
    """The library with some of its names bound to other values, and no program that was compiled with the old ones."""
    kept = {(owner, name): getattr(owner, name) for owner, name in parts}
    try:
        for (owner, name), value in parts.items():
            setattr(owner, name, value)
        forget()
        yield
    finally:
        for (owner, name), value in kept.items():
            setattr(owner, name, value)
        forget()


def forget():
    """Let go of every compiled program."""
    for compiled in (loop.start, loop.advance, loop.measure):
        compiled._programs.clear()
    jax.clear_caches()


def measure(problem, solvers, seeds):
    """Of every solver the median iterations and seconds, and how many starts arrive; they take turns at every start."""
    runs = {name: [] for name in solvers}
    for seed in seeds:
        for name, solve in solvers.items():
            runs[name].append(solve(problem, problem.start(seed)))
    for name, found in runs.items():
        iterations = np.array([k if ok else np.inf for k, _, ok in found])
        seconds = np.array([s if ok else np.inf for _, s, ok in found])
        yield name, float(np.median(iterations)), float(np.median(seconds)), int(np.isfinite(iterations).sum())


def shown(value, form):
    return format(value, form) if np.isfinite(value) else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first start")
    parser.add_argument("--problems", nargs="*", default=[])
    parser.add_argument("--competitors", nargs="*", default=[])
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--final", action="store_true", help="let auto run until it stops by itself")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.starts)
    for problem in problems():
        if options.problems and problem.name not in options.problems:
            continue
        print(
            f"\n**{problem.name}** to {problem.target:g}: {options.starts} starts, {problem.max_steps} steps at most\n"
        )
        if options.ablate:
            ablate(problem, seeds)
        elif options.final:
            finish(problem, seeds)
        else:
            compete(problem, seeds, options.competitors)
        jax.clear_caches()


def ablate(problem, seeds):
    """Auto and auto without each of its parts."""
    print("| | reached | iterations |\n|---|---|---|")
    for name, (method, parts) in ablations().items():
        with changed(parts):
            ((_, iterations, _, reached),) = measure(problem, {name: by_riesz(lambda method=method: method)}, seeds)
        print(f"| {name} | {reached} of {len(seeds)} | {shown(iterations, '.0f')} |", flush=True)


def finish(problem, seeds):
    """What auto returns when it is left alone: the error of the returned parameters, and the steps it took."""
    runs = [
        riesz.minimise(problem.loss, problem.D, problem.start(seed), max_steps=problem.max_steps, progress=False)
        for seed in seeds
    ]
    errors = np.array([float(problem.error(run.theta)) for run in runs])
    converged = sum(run.result.converged for run in runs)
    print("| median error | worst | median steps | stopped by itself |\n|---|---|---|---|")
    steps = np.median([run.steps for run in runs])
    print(f"| {np.median(errors):.1e} | {errors.max():.1e} | {steps:.0f} | {converged} of {len(runs)} |", flush=True)


def compete(problem, seeds, chosen):
    """Auto against the competitors that can solve the problem."""
    solvers = {
        name: solve
        for name, solve in competitors().items()
        if (not chosen or name in chosen) and (problem.squares or not ("SciPy" in name or "optimistix" in name))
    }
    print("| | reached | iterations | seconds | seconds / auto |\n|---|---|---|---|---|")
    reference = None
    for name, iterations, seconds, reached in measure(problem, solvers, seeds):
        reference = seconds if reference is None else reference
        print(
            f"| {name} | {reached} of {len(seeds)} | {shown(iterations, '.0f')} | {shown(seconds, '.3f')} "
            f"| {shown(seconds / reference, '.1f')} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
