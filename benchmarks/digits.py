"""Ten classes: what methods make of the handwritten digits of the gallery.

    python benchmarks/digits.py [--steps 30]

The network of examples/digits.py, from one start. Prints, for every method, the share of held-out images that are read
correctly after some steps, the lowest loss, and the seconds of a step.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp

import riesz

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))

from digits import problem

SHOWN = (5, 10, 15, 20, 30)


def shifted(eps):
    """Full Gauss-Newton steps with a constant shift."""
    options = {"step_size": riesz.Constant(1.0), "factorisation": riesz.Gram()}
    return riesz.ngd(W=riesz.GaussNewton(), filter=riesz.Shift(eps), **options)


METHODS = {
    **{f"ngd, Gauss-Newton, full steps, `Shift({eps:g})`": shifted(eps) for eps in (1e-1, 1e-2, 1e-3)},
    "nhb, Gauss-Newton, as in the paper": riesz.nhb(W=riesz.GaussNewton(), factorisation=riesz.Gram()),
    "auto": riesz.auto(),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    loss, D, theta0, correct, _ = problem()
    shares = {"held out": lambda theta: jnp.mean(correct["held out"](theta))}
    shown = [step for step in SHOWN if step <= steps]
    print("| | " + " | ".join(f"{step} steps" for step in shown) + " | lowest loss | seconds a step |")
    print("|---" * (len(shown) + 3) + "|")
    for name, method in METHODS.items():
        found = riesz.minimise(loss, D, theta0, method, steps, metrics=shares, throw=False).history
        held = found["held out"]
        read = " | ".join(f"{100 * held[min(step, held.size - 1)]:.1f} %" for step in shown)
        print(
            f"| {name} | {read} | {found['loss'].min():.1e} | {found['seconds'][-1] / (held.size - 1):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
