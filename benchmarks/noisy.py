"""Noisy data: networks of three sizes with and without a validation, beside two models of scikit-learn.

    python benchmarks/noisy.py [--starts 10] [--first 0] [--points 120]

The truth is that of examples/noisy_fit.py, with noise of 0.2; three quarters of the points are fitted, the others
validate. Every start draws a network, and data of its own. Prints, per network and way to fit, how runs end and the
root mean square error against the truth on [-2, 2].
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import collections
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor

import riesz

jax.config.update("jax_enable_x64", True)
NOISE = 0.2
SIZES = ((1, 10, 1), (1, 30, 1), (1, 30, 30, 1))
AT = np.linspace(-2, 2, 401)


def truth(x):
    """The function behind the data."""
    return np.sin(3 * x) * np.exp(-(x**2) / 4)


def data(seed, points):
    """Points in random order, and their noisy values."""
    rng = np.random.default_rng(seed)
    x = rng.permutation(np.linspace(-2, 2, points))
    return x, truth(x) + NOISE * rng.normal(size=points)


def rms(values):
    """The error of values at AT."""
    return float(np.sqrt(np.mean((np.asarray(values) - truth(AT)) ** 2)))


def losses(seed, points):
    """The loss that is minimised, and the one that validates."""
    x, y = data(seed, points)
    first = 3 * points // 4
    over = lambda part: riesz.least_squares(riesz.points(jnp.asarray(x[part]), data=jnp.asarray(y[part])))
    return over(slice(first)), over(slice(first, None))


def with_riesz(sizes, seed, points, **options):
    """How a run ends, and its error."""
    loss, validation = losses(seed, points)
    D, theta0 = riesz.mlp(jax.random.key(seed), sizes)
    if options.pop("validate", False):
        options["validation"] = validation
    solution = riesz.minimise(loss, D, theta0, progress=False, throw=False, **options)
    return solution.result.name, rms(solution.predict(AT))


def with_network(sizes, seed, points):
    """Scikit-learn's network, with early stopping on a quarter of the points."""
    x, y = data(seed, points)
    model = MLPRegressor(
        hidden_layer_sizes=sizes[1:-1],
        activation="tanh",
        early_stopping=True,
        validation_fraction=0.25,
        max_iter=5000,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[:, None], y)
    return "ended", rms(model.predict(AT[:, None]))


def with_process(_, seed, points):
    """A Gaussian process on all points, its kernel fitted."""
    x, y = data(seed, points)
    kernel = ConstantKernel() * RBF(1.0) + WhiteKernel(NOISE**2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed).fit(x[:, None], y)
    return "ended", rms(model.predict(AT[:, None]))


WAYS = {
    "auto": with_riesz,
    "validation": lambda *given: with_riesz(*given, validate=True),
    "ridge 1e-4": lambda *given: with_riesz(*given, ridge=1e-4),
    "validation, full steps": lambda *given: with_riesz(*given, validate=True, method=riesz.auto()),
    "scikit-learn network": with_network,
    "Gaussian process": with_process,
}


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first start and data set")
    parser.add_argument("--points", type=int, default=120)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--sizes", nargs="*", type=int, default=range(len(SIZES)))
    given = parser.parse_args()
    print("| network | | RMS, median | worst | CPU s, median | results |\n|---|---|---|---|---|---|")
    for sizes in (SIZES[i] for i in given.sizes):
        for way in given.ways:
            ends, errors, seconds = collections.Counter(), [], []
            for seed in range(given.first, given.first + given.starts):
                began = time.process_time()
                end, error = WAYS[way](sizes, seed, given.points)
                seconds.append(time.process_time() - began)
                ends[end] += 1
                errors.append(error)
            told = ", ".join(f"{count} {end}" for end, count in ends.most_common())
            name = "-".join(map(str, sizes))
            figures = f"{np.median(errors):.3f} | {max(errors):.3g} | {np.median(seconds):.2g}"
            print(f"| {name} | {way} | {figures} | {told} |", flush=True)


if __name__ == "__main__":
    main()
