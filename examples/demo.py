"""The paper's advection-diffusion problem from ten random starts, by NGD and by NHB.

    make demo            or            python examples/demo.py [--starts 10] [--out out]

Solves -mu u'' + u' = 1 on [0, 1] with u(0) = u(1) = 0 and mu = 0.2, by minimising the residual of a 1-5-5-1 tanh
network times x (1 - x). Prints iterations and seconds to a mean squared residual of 1e-8 and the success rate, checks
the solution against the exact one, and saves a picture of the convergence.
"""

import os

# One BLAS thread: on matrices of this size several are slower, and timings are steadier.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import pathlib

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

import riesz

matplotlib.use("Agg")
import matplotlib.pyplot as plt

jax.config.update("jax_enable_x64", True)

MU = 0.2
TARGET = 1e-8
COLOURS = {"NGD": "#D55E00", "NHB": "#009E73"}

network, theta0 = riesz.mlp(jax.random.key(0), (1, 5, 5, 1), activation="tanh")


def D(theta):
    """The network times x (1 - x), which is zero at both ends."""
    v = network(theta)
    return lambda x: x * (1 - x) * v(x)


def advection_diffusion(v):
    """A v = -mu v'' + v'."""
    slope = riesz.derivative(v)
    return lambda x: -MU * riesz.derivative(slope)(x) + slope(x)


def exact(x):
    """The solution u(x) = x - (e^(x/mu) - 1) / (e^(1/mu) - 1)."""
    return x - jnp.expm1(x / MU) / jnp.expm1(1 / MU)


def solve(method, thetas, max_steps):
    """All starts, one after another, so that their seconds are a single run's seconds."""
    loss = riesz.residual(advection_diffusion, 1.0, riesz.grid(0.0, 1.0, 1000))
    # The loss has a factor 1/2 that the mean squared residual has not.
    return riesz.minimise_many(loss, D, thetas, method, max_steps=max_steps, target=TARGET / 2, threads=1)


def draw(solutions, path):
    """Median and 10-90 % band of the mean squared residual, against iterations and against seconds."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for name, solution in solutions.items():
        residual, seconds = 2 * solution.history["loss"], np.median(solution.history["seconds"], axis=0)
        low, middle, high = np.percentile(residual, [10, 50, 90], axis=0)
        for axis, abscissa in zip(axes, (np.arange(middle.size), seconds), strict=True):
            axis.semilogy(abscissa, middle, color=COLOURS[name], label=name)
            axis.fill_between(abscissa, low, high, color=COLOURS[name], alpha=0.2, linewidth=0)
    for axis, label in zip(axes, ("iterations", "seconds (compilation excluded)"), strict=True):
        axis.axhline(TARGET, color="0.4", linestyle=":", linewidth=1)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean squared residual")
    axes[0].legend(title=f"median and 10-90 % of {len(solution.steps)} starts")
    figure.savefig(path, dpi=150)


def main():
    """Solve, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--max-steps", type=int, default=500)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    thetas = jax.random.normal(jax.random.key(1), (arguments.starts, theta0.size))
    solutions = {
        "NGD": solve(riesz.ngd(), thetas, arguments.max_steps),
        "NHB": solve(riesz.nhb(), thetas, arguments.max_steps),
    }
    x = jnp.linspace(0.0, 1.0, 10000)
    print(f"\n-{MU} u'' + u' = 1: to a mean squared residual of {TARGET:g}, median of {arguments.starts} starts")
    print("method   iterations   seconds   success   max error of u")
    for name, solution in solutions.items():
        reached = np.array([result is riesz.Result.TARGET_REACHED for result in solution.result])
        seconds = np.median(solution.history["seconds"][:, -1])
        best = D(solution.theta[int(jnp.argmin(solution.loss))])
        error = float(jnp.max(jnp.abs(jax.vmap(best)(x) - exact(x))))
        print(f"{name:6s} {np.median(solution.steps):12.0f} {seconds:9.3f} {reached.mean():8.0%} {error:15.1e}")
    ratio = np.median(solutions["NHB"].steps) / np.median(solutions["NGD"].steps)
    print(f"NHB needs {ratio:.2f} of NGD's iterations.")
    draw(solutions, arguments.out / "demo.png")
    print(f"The convergence is drawn in {arguments.out / 'demo.png'}.")


if __name__ == "__main__":
    main()
