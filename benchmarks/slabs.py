"""Time in slabs: how each slab begins, what it costs, and what becomes of the error.

    python benchmarks/slabs.py [--only wave kdv] [--starts 3]

Two equations: the wave u_tt = 4 u_xx over six periods in 12 slabs, whose solution is known, and Korteweg and de Vries'
equation to t = 1/4 in 4 slabs, whose reference is computed here (ETDRK4 in Fourier modes, at two resolutions in time).
A slab begins by `hard_initial` or by a term `100 initial`, and its network sees the time itself or that since the
slab's beginning. CPU seconds, compilation included, are those of the first start; errors are medians over all starts,
in the relative L2 norm in space at the ends of slabs. The last line of the wave is one network with as many rows.
Prints a table, ready for the docs.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

import riesz

jax.config.update("jax_enable_x64", True)

CHOICES = [("hard_initial", False), ("hard_initial", True), ("initial", False), ("initial", True)]


class Wave:
    """The fundamental vibration of a string."""

    order, times, steps, interval = 2, np.linspace(0, 6, 13), 300, (0.0, 1.0)
    points = (20, 12)
    whole = (40, 72)
    """Points for all times at once: as many."""
    x = np.linspace(0.0, 1.0, 50)

    def network(self, key, size=30):
        """A network that satisfies the boundary conditions, and its start."""
        network, theta0 = riesz.mlp(key, (2, size, 1))
        return riesz.hard_boundary(network, riesz.box_bubble((0.0, None), (1.0, None))), theta0

    @staticmethod
    def operator(u):
        """What vanishes of the solution."""
        bent, curved = riesz.partial(1, 1)(u), riesz.partial(0, 0)(u)
        return lambda x: bent(x) - 4 * curved(x)

    @staticmethod
    def initial(x):
        """The beginning, at rest where that matters."""
        return jnp.sin(jnp.pi * x[0])

    @functools.cached_property
    def exact(self):
        """The solution at the ends of slabs."""
        return [np.sin(np.pi * self.x) * np.cos(2 * np.pi * t) for t in self.times[1:]]


class KdV:
    """u_t + u u_x + 0.022^2 u_xxx = 0, periodic on (-1, 1), from cos(pi x)."""

    order, times, steps, interval = 1, np.linspace(0, 0.25, 5), 150, (-1.0, 1.0)
    points = (64, 16)
    whole = (128, 32)
    x = -1 + 2 * np.arange(256) / 256

    def network(self, key, size=14):
        """A network that satisfies the boundary conditions, and its start."""
        network, theta0 = riesz.mlp(key, (3, size, size, 1), init="glorot")
        return riesz.periodic(network, (2.0, None)), theta0

    @staticmethod
    def operator(u):
        """What vanishes of the solution."""
        rate, slope, third = riesz.time_derivative(u), riesz.partial(0)(u), riesz.partial(0, 0, 0)(u)
        return lambda x: rate(x) + u(x) * slope(x) + 0.022**2 * third(x)

    @staticmethod
    def initial(x):
        """The beginning, at rest where that matters."""
        return jnp.cos(jnp.pi * x[0])

    @functools.cached_property
    def exact(self):
        """The same; how well it is known is printed."""
        fine, coarse = self.solved(4000), self.solved(2000)
        print(f"kdv: the reference is known to {np.max(np.abs(np.array(fine) - np.array(coarse))):.0e}")
        return fine

    def solved(self, steps):
        """ETDRK4 of Cox and Matthews, its coefficients by contour integrals as Kassam and Trefethen have them."""
        n, h = self.x.size, self.times[-1] / steps
        frequency = np.fft.fftfreq(n, 1 / n)
        wave = 1j * np.pi * frequency
        linear = -(0.022**2) * wave**3
        circle = h * linear[:, None] + np.exp(2j * np.pi * (np.arange(1, 33) - 0.5) / 32)
        mean, e = (lambda f: h * f.mean(axis=1)), np.exp(circle)
        q = mean((np.exp(circle / 2) - 1) / circle)
        a = mean((-4 - circle + e * (4 - 3 * circle + circle**2)) / circle**3)
        b = mean((2 + circle + e * (circle - 2)) / circle**3)
        c = mean((-4 - 3 * circle - circle**2 + e * (4 - circle)) / circle**3)
        whole, half = np.exp(h * linear), np.exp(h * linear / 2)
        kept = -0.5 * wave * (np.abs(frequency) < n / 3)
        flux = lambda v: kept * np.fft.fft(np.fft.ifft(v).real ** 2)
        v, found = np.fft.fft(np.cos(np.pi * self.x)), []
        for step in range(steps):
            f = flux(v)
            first = half * v + q * f
            g = flux(first)
            second = half * v + q * g
            k = flux(second)
            third = half * first + q * (2 * k - f)
            v = whole * v + a * f + 2 * b * (g + k) + c * flux(third)
            if (step + 1) % (steps // (self.times.size - 1)) == 0:
                found.append(np.fft.ifft(v).real)
        return found


def errors(problem, function):
    v = jax.jit(jax.vmap(function))
    pairs = [jnp.stack([problem.x, np.full_like(problem.x, t)], axis=1) for t in problem.times[1:]]
    return [np.linalg.norm(v(x) - u) / np.linalg.norm(u) for x, u in zip(pairs, problem.exact, strict=True)]


def over(problem, t0, t1, points):
    (low, high) = problem.interval
    return riesz.gauss_legendre((low, t0), (high, t1), points)


def march(problem, way, local, key):
    """The errors at the end of every slab, and the CPU seconds that each took."""
    network, theta0 = problem.network(key)
    clock = []

    def slab(t0, t1, before):
        clock.append(time.process_time())
        D = riesz.local_time(network, t0) if local else network
        before = before or problem.initial
        loss = riesz.residual(problem.operator, 0.0, over(problem, t0, t1, problem.points))
        if way == "hard_initial":
            return loss, riesz.hard_initial(D, before, t0, problem.order)
        start = riesz.product(riesz.gauss_legendre(*problem.interval, 50), riesz.points([t0]))
        return loss + 100.0 * riesz.initial(before, start, problem.order), D

    solution = riesz.march(slab, problem.times, theta0, max_steps=problem.steps, progress=False)
    clock.append(time.process_time())
    return errors(problem, solution.function), np.diff(clock)


def at_once(problem, key, size):
    """The same of one network for all times."""
    network, theta0 = problem.network(key, size)
    loss = riesz.residual(problem.operator, 0.0, over(problem, 0.0, problem.times[-1], problem.whole))
    began = time.process_time()
    D = riesz.hard_initial(network, problem.initial, 0.0, problem.order)
    solution = riesz.minimise(loss, D, theta0, max_steps=problem.steps, progress=False)
    return errors(problem, solution.function), np.array([time.process_time() - began]), theta0.size


def line(name, found):
    errors = np.median([errors for errors, *_ in found], axis=0)
    spent = found[0][1]
    later = f"{np.median(spent[2:]):.1f}" if spent.size > 2 else ""
    second = f"{spent[1]:.1f}" if spent.size > 1 else ""
    cells = [name, f"{spent[0]:.1f}", second, later, f"{spent.sum():.0f}"]
    cells += [f"{errors[0]:.1e}", f"{errors[errors.size // 2]:.1e}", f"{errors[-1]:.1e}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["wave", "kdv"], default=["wave", "kdv"])
    parser.add_argument("--starts", type=int, default=3)
    options = parser.parse_args()
    keys = [jax.random.key(i) for i in range(options.starts)]
    for name in options.only:
        problem = {"wave": Wave, "kdv": KdV}[name]()
        print(f"\n{name}: {len(problem.exact)} slabs\n")
        print("| | slab 0, CPU s | slab 1 | later | all | error after slab 0 | in the middle | at the end |")
        print("|---|---|---|---|---|---|---|---|")
        for way, local in CHOICES:
            line(f"{way}{', local_time' if local else ''}", [march(problem, way, local, key) for key in keys])
        size = {"wave": 100, "kdv": 20}[name]
        found = [at_once(problem, key, size) for key in keys]
        line(f"one network of {found[0][2]} parameters", found)


if __name__ == "__main__":
    main()
