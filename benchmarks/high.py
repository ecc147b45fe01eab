"""Poisson's equation in ten dimensions with a network of 118,145 parameters: the error after some CPU seconds.

    python benchmarks/high.py [--seconds 250] [--damping 1e-7] [--step 0.1] [--beta 0.95] [--boundary 10] [--start 0]

As in the literature on networks in many dimensions: 10-256-256-128-128-1 with tanh, 100 points inside and 50 on the
boundary, drawn anew each step, u = sum of x_{2i-1} x_{2i}. The method is `spring`; its settings were chosen by hand on
start 0, by runs of 110 seconds. Prints the relative L2 error on 20,000 other points as it falls; seconds include
compilation, and exclude what measuring takes.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time

import jax
import jax.numpy as jnp

import riesz

jax.config.update("jax_enable_x64", True)
DIMENSIONS = 10


def solution(x):
    return jnp.sum(x[::2] * x[1::2])


def problem(boundary):
    """The loss, with the boundary's weight beside the mean squared residual inside."""
    low, high = (0.0,) * DIMENSIONS, (1.0,) * DIMENSIONS
    inside = riesz.residual(riesz.laplacian, 0.0, riesz.monte_carlo(low, high, 100))
    edge = riesz.residual(riesz.identity, solution, riesz.monte_carlo_boundary(low, high, 50))
    return inside + boundary / (2 * DIMENSIONS) * edge


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=250.0)
    parser.add_argument("--damping", type=float, default=1e-7)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--beta", type=float, default=0.95)
    parser.add_argument("--boundary", type=float, default=10.0)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args()
    D, theta = riesz.mlp(jax.random.key(options.start), (DIMENSIONS, 256, 256, 128, 128, 1), init="glorot")
    x = jax.random.uniform(jax.random.key(9), (20_000, DIMENSIONS))
    exact = jax.vmap(solution)(x)
    error = jax.jit(lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(x) - exact) / jnp.linalg.norm(exact))
    method = riesz.spring(
        beta=options.beta, filter=riesz.Shift(options.damping), step_size=riesz.Constant(options.step)
    )
    measuring, began = 0.0, time.process_time()
    print("| CPU s | steps | relative L2 error |\n|---|---|---|")

    def stop(step, so_far):
        nonlocal measuring
        seconds = time.process_time() - began - measuring
        if step % 96 == 0 or seconds > options.seconds:
            print(f"| {seconds:.0f} | {step} | {error(so_far.last):.1e} |", flush=True)
        measuring += time.process_time() - began - measuring - seconds
        return seconds > options.seconds

    riesz.minimise(
        problem(options.boundary), D, theta, method, max_steps=100_000, key=jax.random.key(5), callback=stop,
        progress=False,
    )  # fmt: skip


if __name__ == "__main__":
    main()
