"""Which model represents what is there: networks of equally many parameters on four problems, from three starts each.

    python benchmarks/models.py [--starts 3] [--steps 300] [--problems ...] [--models ...] [--stages] [--continuation]

Two hidden layers, the default method, at most 300 steps. K is the largest angular frequency of the solution along each
input, and models that start with frequencies start with a tenth, a third or all of it:

- two scales: fit sin(2 pi x) + sin(30 pi x)/10 on (-1, 1), 500 points;
- poisson: -Laplace u = f on (0,1)^2, u = sin(pi x) sin(pi y), 400 points inside, 32 on each side;
- helmholtz: Laplace u + u = q on (-1,1)^2, u = sin(pi x) sin(4 pi y), 900 points, boundary built in;
- convection: u_t + 30 u_x = 0, u = sin(x - 30 t), t to 1, 1080 points, period and start built in.

With --stages, what a second network adds to a first one; with --continuation, what a way there over easier equations
is worth. Prints Markdown tables of relative L2 errors at 2000 other points. Takes about fifteen minutes of CPU time,
with --stages three, with --continuation eight.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import dataclasses
import time
from collections.abc import Callable
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import riesz

jax.config.update("jax_enable_x64", True)
PI = np.pi


# Problems -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Problem:
    """A loss, what is built into the model, the sizes of a plain network, K for each of its inputs, and the error."""

    loss: object
    build_in: Callable
    sizes: tuple
    largest: tuple
    exact: Callable
    test: object

    def error(self, v):
        """The relative L2 error of a function at other points."""
        truth = jax.vmap(self.exact)(self.test)
        return float(jnp.linalg.norm(jax.vmap(v)(self.test) - truth) / jnp.linalg.norm(truth))


def uniform(low, high):
    """2000 points to test at."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    return jnp.asarray(low + (high - low) * np.random.default_rng(1).random((2000, *low.shape)))


def two_scales():
    exact = lambda x: jnp.sin(2 * PI * x) + jnp.sin(30 * PI * x) / 10
    x = jnp.linspace(-1, 1, 500)
    loss = riesz.least_squares(riesz.points(x, data=exact(x)))
    return Problem(loss, lambda D: D, (1, 12, 12, 1), (30 * PI,), exact, uniform(-1.0, 1.0))


def poisson():
    exact = lambda x: jnp.sin(PI * x[0]) * jnp.sin(PI * x[1])
    low, high = (0.0, 0.0), (1.0, 1.0)
    loss = riesz.residual(riesz.laplacian, lambda x: -2 * PI**2 * exact(x), riesz.gauss_legendre(low, high, 20))
    loss = loss + riesz.residual(riesz.identity, 0.0, riesz.boundary(low, high, 32))
    return Problem(loss, lambda D: D, (2, 10, 10, 1), (PI, PI), exact, uniform(low, high))


def helmholtz(a=1, b=4, n=30, sizes=(2, 14, 14, 1)):
    exact = lambda x: jnp.sin(a * PI * x[0]) * jnp.sin(b * PI * x[1])
    low, high = (-1.0, -1.0), (1.0, 1.0)
    operator = lambda v: lambda x: riesz.laplacian(v)(x) + v(x)
    source = lambda x: (1 - (a**2 + b**2) * PI**2) * exact(x)
    loss = riesz.residual(operator, source, riesz.gauss_legendre(low, high, n))
    build_in = lambda D: riesz.hard_boundary(D, riesz.box_bubble(low, high))
    return Problem(loss, build_in, sizes, (a * PI, b * PI), exact, uniform(low, high))


def convection():
    exact = lambda x: jnp.sin(x[0] - 30 * x[1])
    operator = lambda v: lambda x: jax.jvp(v, (x,), (jnp.array([30.0, 1.0]),))[1]
    loss = riesz.residual(operator, 0.0, riesz.gauss_legendre((0.0, 0.0), (2 * PI, 1.0), (30, 36)))
    start = lambda D: riesz.hard_boundary(D, lambda x: x[1], lambda x: jnp.sin(x[0]))
    build_in = lambda D: start(riesz.periodic(D, (2 * PI, None)))
    return Problem(loss, build_in, (3, 14, 14, 1), (1.0, 1.0, 30.0), exact, uniform((0.0, 0.0), (2 * PI, 1.0)))


def burgers(nu=0.01):
    """u_t + u u_x = nu u_xx on (-1,1) x (0,1), u0 = -sin(pi x); the solution by Cole-Hopf and Gauss-Hermite."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)

    def exact(x):
        y = x[0] - 2 * jnp.sqrt(nu * x[1]) * nodes
        log = -jnp.cos(PI * y) / (2 * PI * nu)
        mass = weights * jnp.exp(log - jnp.max(log))
        return -jnp.sum(mass * jnp.sin(PI * y)) / jnp.sum(mass)

    u_t, u_x, u_xx = riesz.time_derivative, riesz.partial(0), riesz.partial(0, 0)
    operator = lambda v: lambda x: u_t(v)(x) + v(x) * u_x(v)(x) - nu * u_xx(v)(x)
    low, high = (-1.0, 0.0), (1.0, 1.0)
    over = riesz.gauss_legendre(low, high, (64, 24))
    y, t = over.x.T  # x = (y + 8 y^3)/9: nine times denser than y in the layer
    x = jnp.stack([(y + 8 * y**3) / 9, t], axis=1)
    loss = riesz.residual(operator, 0.0, riesz.points(x, weights=over.weights * (1 + 24 * y**2) / 9))
    build_in = lambda D: riesz.hard_boundary(D, lambda x: x[1] * (1 - x[0] ** 2), lambda x: -jnp.sin(PI * x[0]))
    return Problem(loss, build_in, (2, 14, 14, 1), (PI, 1.0), exact, uniform(low, high))


PROBLEMS = {"two scales": two_scales, "poisson": poisson, "helmholtz": helmholtz, "convection": convection}


# Models ---------------------------------------------------------------------------------------------------------------


class Sloped(eqx.Module):
    """A network A_L s(a_(L-1)(... s(a_1 (A_1 x + b_1)) ...)) + b_L whose slopes a_l are parameters too."""

    network: eqx.Module
    slopes: jax.Array

    def __call__(self, x):
        """The value at a point."""
        x = jnp.reshape(x, (-1,))
        *hidden, (weight, bias) = zip(self.network.weights, self.network.biases, strict=True)
        for n, (w, b) in enumerate(hidden):
            x = self.network.activation(self.slopes[n] * (w @ x + b))
        return (weight @ x + bias)[0]


def with_slopes(D, theta, slope):
    """The same function, with a trainable slope for every hidden layer that begins at this number."""
    network = D(theta)
    gentler = lambda parts: (*(part / slope for part in parts[:-1]), parts[-1])
    network = dataclasses.replace(network, weights=gentler(network.weights), biases=gentler(network.biases))
    return riesz.parametrise(Sloped(network, jnp.full(len(network.weights) - 1, float(slope))))


def tanh(problem, key):
    return riesz.mlp(key, problem.sizes, init="glorot")


def sines(share):
    return lambda problem, key: riesz.sine_mlp(key, problem.sizes, share * np.array(problem.largest))


def count(sizes):
    return sum(a * b + b for a, b in pairwise(sizes))


def features(share, waves=8):
    """A tanh network behind random waves, as wide as makes it as large as the plain one."""

    def model(problem, key):
        first, second = jax.random.split(key)
        size = lambda width: (2 * waves, width, width, 1)
        width = min(range(1, 40), key=lambda width: abs(count(size(width)) - count(problem.sizes)))
        D, theta = riesz.mlp(first, size(width), init="glorot")
        scale = share * jnp.array(problem.largest)
        return riesz.fourier_features(D, scale * jax.random.normal(second, (waves, scale.size))), theta

    return model


MODELS = {
    "tanh": tanh,
    "tanh, slopes from 5": lambda problem, key: with_slopes(*tanh(problem, key), 5.0),
    "sines, K/10": sines(0.1),
    "sines, K/3": sines(1 / 3),
    "sines, K": sines(1.0),
    "sines, K/3, frequencies from 10": lambda problem, key: with_slopes(*sines(1 / 3)(problem, key), 10.0),
    "Fourier features, K/10": features(0.1),
    "Fourier features, K/3": features(1 / 3),
    "Fourier features, K": features(1.0),
}


def run(problem, model, seed, steps):
    """The error from one start."""
    D, theta = model(problem, jax.random.key(seed))
    return solved(problem, problem.build_in(D), theta, steps)[1]


def solved(problem, D, theta, steps):
    """The solution of a problem from one start, where D has its boundary built in, and its error."""
    solution = riesz.minimise(problem.loss, D, theta, max_steps=steps, progress=False)
    return solution, problem.error(solution.function)


def compare(options):
    """The table of models: for each problem the median error and the worst, and the CPU seconds of all its starts."""
    problems = {name: make() for name, make in PROBLEMS.items() if not options.problems or name in options.problems}
    print(f"| | {' | '.join(problems)} |\n|{'---|' * (len(problems) + 1)}", flush=True)
    for label, model in MODELS.items():
        if options.models and label not in options.models:
            continue
        cells = []
        for problem in problems.values():
            began = time.process_time()
            errors = [run(problem, model, seed, options.steps) for seed in range(options.starts)]
            seconds = time.process_time() - began
            cells.append(f"{np.median(errors):.1e}; {max(errors):.1e}; {seconds:.0f} s")
            jax.clear_caches()
        print(f"| {label} | {' | '.join(cells)} |", flush=True)


# Second stages and continuation ---------------------------------------------------------------------------------------


FITS = {
    "kink of third order, |x - 0.2|^3": lambda x: jnp.abs(x - 0.2) ** 3,
    "packet, exp(-100 (x - 0.3)^2) sin 60x + cos 3x": lambda x: (
        jnp.exp(-100 * (x - 0.3) ** 2) * jnp.sin(60 * x) + jnp.cos(3 * x)
    ),
    "chirp, sin(20 (x + 1.2)^2) + x": lambda x: jnp.sin(20 * (x + 1.2) ** 2) + x,
}
KINDS = {
    "tanh": lambda key, sizes, frequency: riesz.mlp(key, sizes, init="glorot"),
    "sines": lambda key, sizes, frequency: riesz.sine_mlp(key, sizes, frequency),
}


def stages(options):
    """Fits with 97 parameters, then 97 more for what they have left, and with 193 at once; medians."""
    small, large, points = (1, 8, 8, 1), (1, 12, 12, 1), riesz.gauss_legendre(-1.0, 1.0, 800)
    columns = ["97 parameters", "then 97, scale: the error", "scale 1", "scale: the error/1000", "193, twice the steps"]
    print(f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}", flush=True)
    for name, f in FITS.items():
        over = riesz.points(points.x, data=f(points.x), weights=points.weights / 2)
        problem = Problem(riesz.least_squares(over), lambda D: D, small, (), f, uniform(-1.0, 1.0))
        for kind, network in KINDS.items():
            runs = []
            for seed in range(options.starts):
                first, second = jax.random.split(jax.random.key(seed))
                D, theta = network(first, small, 10.0)
                solution, error = solved(problem, D, theta, options.steps)
                left = float(jnp.sqrt(2 * solution.loss))
                correction = network(second, small, 30.0)
                staged = [riesz.stage(D, solution.theta, correction, s) for s in (left, 1.0, left / 1000)]
                errors = [solved(problem, *start, options.steps)[1] for start in staged]
                whole = solved(problem, *network(first, large, 10.0), 2 * options.steps)[1]
                runs.append([error, *errors, whole])
            medians = np.median(np.array(runs), axis=0)
            print(f"| {name}; {kind} | {' | '.join(f'{error:.1e}' for error in medians)} |", flush=True)
            jax.clear_caches()


def continuation(options):
    """An equation at once, and after easier ones; the same number of steps in all."""
    tables = (
        ("helmholtz (4,4)", [helmholtz(a, a) for a in (1, 2, 3, 4)]),
        ("burgers, nu = 0.01", [burgers(nu) for nu in (0.1, 0.03, 0.01)]),
    )
    for name, problems in tables:
        last = problems[-1]
        sizes, largest = last.sizes, np.array(last.largest)
        kinds = {
            "tanh": lambda key, sizes=sizes: riesz.mlp(key, sizes, init="glorot"),
            "sines, K/10": lambda key, sizes=sizes, w=largest / 10: riesz.sine_mlp(key, sizes, w),
        }
        print(f"\n**{name}**\n\n| | at once | after easier ones |\n|---|---|---|", flush=True)
        for kind, model in kinds.items():
            at_once, after = [], []
            for seed in range(options.starts):
                network, start = model(jax.random.key(seed))
                at_once.append(solved(last, last.build_in(network), start, options.steps)[1])
                theta, error = start, None
                for problem in problems:
                    solution, error = solved(problem, problem.build_in(network), theta, options.steps // len(problems))
                    theta = solution.theta
                after.append(error)
            row = (", ".join(f"{error:.1e}" for error in sorted(errors)) for errors in (at_once, after))
            print(f"| {kind} | {' | '.join(row)} |", flush=True)
            jax.clear_caches()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300, help="at most so many for each error in a table")
    parser.add_argument("--problems", nargs="*", default=[])
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--continuation", action="store_true")
    options = parser.parse_args()
    if options.stages:
        stages(options)
    elif options.continuation:
        continuation(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
