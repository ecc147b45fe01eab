"""What differential operators cost, in evaluations of the network: forward, along theta, and their Jacobian rows.

    python benchmarks/operators.py [--repeats 15]

Programs are timed in turns within one run and compared by their medians, with BLAS on one thread, because machines
are shared and noisy. Each runs in a compiled loop that carries what it computes, so that results are written out in
full and memory is claimed once, as in a solver. Prints two tables, ready for docs/operators.md.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import riesz
from riesz._problem.features import along, evaluate, features

jax.config.update("jax_enable_x64", True)

LOOP = 5
"""Evaluations in one compiled loop."""


def nested(v):
    """The Laplacian by one nested JVP per dimension, in turn."""

    def trace(x):
        total = 0.0
        for direction in jnp.eye(x.size, dtype=x.dtype):
            slope = lambda x, direction=direction: jax.jvp(v, (x,), (direction,))[1]
            total += jax.jvp(slope, (x,), (direction,))[1]
        return total

    return trace


def trace_of_hessian(v):
    return lambda x: jnp.trace(jax.hessian(v)(x))


def mixed(v):
    return riesz.partial(0, -1)(v)


def heat(v):
    rate, diffusion = riesz.time_derivative(v), riesz.spatial(riesz.laplacian)(v)
    return lambda x: rate(x) - diffusion(x)


OPERATORS = {
    "identity": riesz.identity,
    "gradient": riesz.gradient,
    "value_and_gradient": riesz.value_and_gradient,
    "time_derivative": riesz.time_derivative,
    "partial(0, -1)": mixed,
    "laplacian": riesz.laplacian,
    "divergence(gradient)": lambda v: riesz.divergence(riesz.gradient(v)),
    "hessian": riesz.hessian,
}


def looped(quantity):
    """A program that computes the quantity LOOP times, each time at a theta that waits for the values before."""

    def program(theta):
        def body(_, carry):
            theta, _ = carry
            found = quantity(theta)
            return theta * (1 + 1e-200 * jax.tree.leaves(found)[0].ravel()[0]), found

        shapes = jax.eval_shape(quantity, theta)
        start = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        _, last = jax.lax.fori_loop(0, LOOP, body, (theta, start))
        return [leaf[(0,) * leaf.ndim] for leaf in jax.tree.leaves(last)]

    return jax.jit(program)


def medians(quantities, theta, repeats):
    """Median seconds of each quantity, computed in turns."""
    programs = {name: looped(quantity) for name, quantity in quantities.items()}
    for program in programs.values():
        jax.block_until_ready(program(theta))
    times = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            jax.block_until_ready(program(theta))  # what the program before left to clean up is not this one's cost
            began = time.perf_counter()
            jax.block_until_ready(program(theta))
            times[name].append((time.perf_counter() - began) / LOOP)
    return {name: float(np.median(column)) for name, column in times.items()}


def network(dimension, m):
    D, theta = riesz.mlp(jax.random.key(0), (dimension, 64, 1))
    return D, theta, jax.random.uniform(jax.random.key(1), (m, dimension))


def cost_table(dimensions, m, repeats):
    """Forward and Jacobian cost of each operator, in evaluations of the network at the same points."""
    columns = {}
    for dimension in dimensions:
        D, theta, x = network(dimension, m)
        quantities = {}
        for name, operator in OPERATORS.items():
            if name in ("hessian", "divergence(gradient)") and dimension > 2:
                continue
            quantities[name] = lambda theta, operator=operator: evaluate(D, operator, theta, x)  # noqa: B023
            quantities[name, "rows"] = lambda theta, operator=operator: features(D, operator, theta, x)  # noqa: B023
        if dimension > 1:
            quantities["heat equation"] = lambda theta: evaluate(D, heat, theta, x)  # noqa: B023
            quantities["heat equation", "rows"] = lambda theta: features(D, heat, theta, x)  # noqa: B023
        shape = (m, dimension, theta.size)
        quantities["gradient", "written"] = lambda theta: jnp.full(shape, theta[0])  # noqa: B023
        columns[dimension] = medians(quantities, theta, repeats)
    print(f"\n**n-64-1 tanh, {m} points**: evaluation / Jacobian rows, in evaluations of the network\n")
    print("| | " + " | ".join(f"n = {dimension}" for dimension in dimensions) + " |")
    print("|---|" + "---|" * len(dimensions))
    for name in [*OPERATORS, "heat equation"]:
        cells = []
        for found in columns.values():
            pair = [found[key] / found["identity"] for key in (name, (name, "rows")) if key in found]
            cells.append(" / ".join(f"{ratio:.1f}" for ratio in pair))
        print(f"| {name} | " + " | ".join(cells) + " |")
    floor = [f"{found['gradient', 'written'] / found['identity']:.1f}" for found in columns.values()]
    print("| writing as many numbers as the rows of gradient have | " + " | ".join(floor) + " |")


def laplacian_table(repeats):
    """Rows of Laplacians in five dimensions, in JVPs of the same rows."""
    D, theta, x = network(5, 3500)
    delta = jax.random.normal(jax.random.key(2), theta.shape)
    operators = {
        "network itself": riesz.identity,
        "laplacian": riesz.laplacian,
        "nested JVPs": nested,
        "trace of the Hessian": trace_of_hessian,
    }
    quantities = {}
    for name, operator in operators.items():
        quantities[name, "value"] = lambda theta, operator=operator: evaluate(D, operator, theta, x)
        quantities[name, "JVP"] = lambda theta, operator=operator: along(D, operator, theta, delta, x)
        quantities[name, "rows"] = lambda theta, operator=operator: features(D, operator, theta, x)
    seconds = medians(quantities, theta, repeats)
    print("\n**5-64-1 tanh, m = 3500, d = 449** (ms, median; the last columns are ratios)\n")
    print("| | value | JVP | rows | rows / its own JVP | rows / JVP of nested JVPs | rows / rows of the network |")
    print("|---|---|---|---|---|---|---|")
    for name in operators:
        value, jvp, rows = (seconds[name, kind] for kind in ("value", "JVP", "rows"))
        ratios = rows / jvp, rows / seconds["nested JVPs", "JVP"], rows / seconds["network itself", "rows"]
        cells = [f"{1e3 * s:.2f}" for s in (value, jvp, rows)] + [f"{ratio:.1f}" for ratio in ratios]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    laplacian_table(repeats)
    cost_table((1, 2, 5, 20), 200, repeats)
