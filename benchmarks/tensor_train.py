"""Poisson's equation in 10 and 100 dimensions by tensor trains: errors, and where the CPU seconds go.

    python benchmarks/tensor_train.py [--only 10 100] [--seeds 0 1 2] [--points INSIDE EDGE] [--steps 200]
                                      [--src PATH ...]

-Laplace u = f on (0,1)^n with u given on the boundary: u is the sum of x_1 x_2, x_3 x_4, ... in 10 dimensions (f = 0),
and |x|^2 in 100 (f = -200). Trains have polynomials of degree 2 and ranks 3 and 2; points are uniform inside and on the
boundary, fixed, and both terms are means over them. A seed chooses the start and the points.

Every line comes from a child process of its own, with BLAS on one thread. CPU seconds are those of the first call of
`riesz.minimise`. A second, equal call compiles nothing: the difference is what compiling took, and the second call over
its steps is what a step takes. The relative L2 error is at 20,000 fresh points. Every `--src` puts another source tree
first on the path, and adds lines.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import subprocess
import sys
import time

SETUPS = {"10": (3, 500, 200), "100": (2, 1500, 1500)}
"""The rank, and the points inside and on the boundary, by dimension."""
COLUMNS = (
    "n",
    "code",
    "seed",
    "parameters",
    "points",
    "steps",
    "result",
    "relative L2 error",
    "CPU s",
    "compiling",
    "a step",
)


def child(n, seed, points, steps):
    """Solve one problem twice and print what was found, as JSON."""
    import jax
    import jax.numpy as jnp

    import riesz

    jax.config.update("jax_enable_x64", True)
    low, high, keys = (0.0,) * n, (1.0,) * n, jax.random.split(jax.random.key(seed), 3)
    u = (lambda x: jnp.sum(x[::2] * x[1::2])) if n == 10 else (lambda x: jnp.sum(x**2))
    uniform = lambda draw, count, key: riesz.points(draw(low, high, count).draw(key).x)
    inside = uniform(riesz.monte_carlo, points[0], keys[0])
    edge = uniform(riesz.monte_carlo_boundary, points[1], keys[1])
    loss = riesz.residual(riesz.laplacian, 0.0 if n == 10 else 2.0 * n, inside)
    loss = loss + riesz.residual(riesz.identity, u, edge)
    D, theta0 = riesz.tensor_train(keys[2], (SETUPS[str(n)][0],) * (n - 1), riesz.Legendre(0.0, 1.0, 3))

    def solve():
        began = time.process_time()
        solution = riesz.minimise(loss, D, theta0, max_steps=steps, progress=False)
        return solution, time.process_time() - began

    (solution, whole), (_, running) = solve(), solve()
    x = jax.random.uniform(jax.random.key(12345), (20_000, n))
    exact = jax.vmap(u)(x)
    error = float(jnp.linalg.norm(jax.vmap(solution.function)(x) - exact) / jnp.linalg.norm(exact))
    print(
        json.dumps(
            {
                "parameters": theta0.size,
                "points": sum(points),
                "steps": int(solution.steps),
                "result": solution.result.name,
                "relative L2 error": f"{error:.1e}",
                "CPU s": f"{whole:.1f}",
                "compiling": f"{whole - running:.1f}",
                "a step": f"{running / int(solution.steps):.3f}",
            }
        )
    )


def measured(options, n, seed, source):
    """What a child printed; the last line of its error where it failed."""
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    points = options.points or SETUPS[n][1:]
    command = [sys.executable, __file__, "--child", n, str(seed), "--points", *map(str, points)]
    command += ["--steps", str(options.steps)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode:
        return {"result": (done.stderr.strip() or "ended").splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SETUPS, default=list(SETUPS), help="dimensions")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--points", nargs=2, type=int, help="points inside and on the boundary")
    parser.add_argument("--steps", type=int, default=200, help="the step limit")
    parser.add_argument("--src", nargs="*", default=[""])
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.points, options.steps)
        return
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for n in options.only:
        for source in options.src:
            for seed in options.seeds:
                found = {"n": n, "code": source or "this", "seed": seed, **measured(options, n, seed, source)}
                print("| " + " | ".join(str(found.get(column, "")) for column in COLUMNS) + " |", flush=True)


if __name__ == "__main__":
    main()
