"""Many starts as one batch against the same starts one after another: NHB on Mackey-Glass.

    make bench            or            python benchmarks/reproduce.py [--starts 50] [--steps 300]

Both run the same compiled program, in turns; compilation and the first call are not counted. Prints a table, ready for
the README.
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
from riesz.experiments import mackey_glass

jax.config.update("jax_enable_x64", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    problem = mackey_glass.experiment()
    thetas = jnp.stack([problem.start(seed) for seed in range(options.starts)])
    choices = {"max_steps": options.steps, "progress": False}
    one_by_one = lambda: [
        riesz.minimise(problem.loss, problem.D, theta, riesz.nhb(), **choices, throw=False) for theta in thetas
    ]
    as_a_batch = lambda: riesz.minimise_many(problem.loss, problem.D, thetas, riesz.nhb(), **choices)
    riesz.minimise(problem.loss, problem.D, thetas[0], riesz.nhb(), **choices, throw=False)

    seconds = {"one after another": [], "as one batch": []}
    for _ in range(options.repeats):
        for name, run in zip(seconds, (one_by_one, as_a_batch), strict=True):
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    single, batch = (float(np.median(times)) for times in seconds.values())
    print(f"\n{options.starts} starts x {options.steps} steps of NHB on Mackey-Glass, {os.cpu_count()} cores\n")
    print("| | s | ratio |\n|---|---|---|")
    print(f"| one after another | {single:.1f} | 1.00 |\n| as one batch | {batch:.1f} | {batch / single:.2f} |")


if __name__ == "__main__":
    main()
