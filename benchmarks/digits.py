"""Ten classes: what methods make of the handwritten digits of the gallery.

    python benchmarks/digits.py [--steps 30] [--network convolution] [--starts 1]

Three networks: the convolution of examples/digits.py (810 parameters), `mlp((64, 20, 10))` (1,510) and a network of
flax, 64-64-10 (4,810). Prints, for every method, the share of held-out images that are read correctly after some steps,
the lowest loss, and the seconds of a step: medians over the starts, which have the seeds 0, 1, and so on.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import importlib.util
import pathlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from sklearn.datasets import load_digits

import riesz

jax.config.update("jax_enable_x64", True)
EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def module_at(path):
    """The module of a file, under a name of its own: this file, too, is called digits."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Reading:
    """A network that reads digits: the loss of those trained on, the starts by seed, and the share of the others."""

    loss: object
    D: Callable
    start: Callable
    held_out: Callable


def convolution(seed):
    """The network of the gallery; start 0 is the start there."""
    sys.path.insert(0, str(EXAMPLES))  # the example imports its neighbour
    try:
        example = module_at(EXAMPLES / "digits.py")
    finally:
        sys.path.remove(str(EXAMPLES))
    first, second = jax.random.split(jax.random.key(seed))
    filters = example.FILTERS
    params = {
        "filters": jax.random.normal(first, (9, filters)), "biases": jnp.zeros(filters),
        "weights": 0.1 * jax.random.normal(second, (9 * filters, 10)), "level": jnp.zeros(10),
    }  # fmt: skip
    return riesz.parametrise(lambda params, image: example.logits(params, image.reshape(8, 8)), params)


def mlp(seed):
    """A network with one hidden layer."""
    return riesz.mlp(jax.random.key(seed), (64, 20, 10))


def flax(seed):
    """A wider one, by flax, with its own starts."""
    model = linen.Sequential([linen.Dense(64, param_dtype=float), jnp.tanh, linen.Dense(10, param_dtype=float)])
    return riesz.parametrise(model.apply, model.init(jax.random.key(seed), jnp.zeros(64)))


NETWORKS = {"convolution": convolution, "mlp": mlp, "flax": flax}
"""A seed gives the network and a start."""


def reading(network):
    """The problem of a network, by name; every fifth image is held out, as in the gallery."""
    make = NETWORKS[network]
    images, labels = (jnp.asarray(part) for part in load_digits(return_X_y=True))
    images, held = images / 16.0, np.arange(len(labels)) % 5 == 0
    D, _ = make(0)
    loss = riesz.softmax(riesz.points(images[~held], data=labels[~held]))
    read = lambda theta: jnp.argmax(jax.vmap(D(theta))(images[held]), axis=-1)
    return Reading(loss, D, lambda seed: make(seed)[1], lambda theta: jnp.mean(read(theta) == labels[held]))


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
    parser.add_argument("--network", choices=NETWORKS, default="convolution")
    parser.add_argument("--starts", type=int, default=1)
    options = parser.parse_args()
    steps, problem = options.steps, reading(options.network)
    shares = {"held out": problem.held_out}
    shown = [step for step in SHOWN if step <= steps]
    print("| | " + " | ".join(f"{step} steps" for step in shown) + " | lowest loss | seconds a step |")
    print("|---" * (len(shown) + 3) + "|")
    for name, method in METHODS.items():
        runs = [
            riesz.minimise(problem.loss, problem.D, problem.start(seed), method, steps, metrics=shares, throw=False)
            for seed in range(options.starts)
        ]
        median = lambda of, runs=runs: np.median([of(run.history) for run in runs])
        read = " | ".join(
            f"{100 * median(lambda found, step=step: found['held out'][: step + 1][-1]):.1f} %" for step in shown
        )
        lowest = median(lambda found: found["loss"].min())
        seconds = median(lambda found: found["seconds"][-1] / (found["held out"].size - 1))
        print(f"| {name} | {read} | {lowest:.1e} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
