"""How many points keep the Gram matrix well conditioned: uniform points against Christoffel points.

    python benchmarks/christoffel.py

For every tangent space: its dimension d, 10 d log d, and the fewest points (to within 10 %) with which the
condition number is below 3 in at least 95 of 100 draws. The Gram matrix is that of a basis which is orthonormal on the
pool, so that all points of the pool would give 1. Prints a table, ready for the docs.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import math
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import riesz

jax.config.update("jax_enable_x64", True)

LOW, HIGH = -1.0, 1.0
POOL = 5000
LIMIT, SHARE, DRAWS = 3.0, 0.95, 100


def polynomials(d):
    """Legendre polynomials up to degree d - 1: their squares are largest at the two ends."""

    def basis(x):
        values = [jnp.ones_like(x), x]
        for k in range(1, d - 1):
            values.append(((2 * k + 1) * x * values[-1] - k * values[-2]) / (k + 1))
        return jnp.stack(values)

    return lambda theta: lambda x: theta @ basis(x), jnp.zeros(d)


def network(steepest, width=5):
    """A network of tanh neurons with slopes from 1 to the steepest, whose tangent functions live in a thin layer."""
    slopes, centres = jnp.geomspace(1.0, steepest, width), jnp.linspace(-0.7, 0.9, width)

    def D(theta):
        outer, slope, offset = theta.reshape(3, width)
        return lambda x: outer @ jnp.tanh(slope * x - offset)

    return D, jnp.concatenate([jnp.ones(width), slopes, slopes * centres])


def uniform(n):
    return riesz.monte_carlo(LOW, HIGH, n)


def adapted(n):
    return riesz.christoffel(riesz.grid(LOW, HIGH, POOL), n)


@eqx.filter_jit
def conditions(D, theta, measure, keys):
    """The condition number of the Gram matrix of every draw, in a basis that is orthonormal on the pool."""

    def rows(x):
        return jax.vmap(lambda x: jax.grad(lambda theta: D(theta)(x))(theta))(x)

    def psi(over):
        return jnp.sqrt(over.weights)[:, None] * rows(over.x)

    R = jnp.linalg.qr(psi(riesz.grid(LOW, HIGH, POOL)), mode="r")

    def condition(key):
        drawn = psi(measure.draw(key, SimpleNamespace(features=lambda x: rows(x)[:, None, :])))
        orthonormal = jax.scipy.linalg.solve_triangular(R.T, drawn.T, lower=True)
        eigenvalues = jnp.linalg.eigvalsh(orthonormal @ orthonormal.T)
        return jnp.where(eigenvalues[0] > 0, eigenvalues[-1] / eigenvalues[0], jnp.inf)

    return jax.lax.map(condition, keys)


def kept(D, theta, measure, seed=0):
    """The share of draws with a condition number below the limit."""
    return np.mean(np.asarray(conditions(D, theta, measure, jax.random.split(jax.random.key(seed), DRAWS))) < LIMIT)


def needed(D, theta, make):
    """The fewest points that keep the limit in enough draws, to within 10 %: by doubling, then by halving the gap."""
    enough = 4 * theta.size
    while kept(D, theta, make(enough)) < SHARE:
        enough *= 2
    too_few = enough / 2
    while enough / too_few > 1.1:
        middle = math.ceil(math.sqrt(too_few * enough))
        if kept(D, theta, make(middle)) < SHARE:
            too_few = middle
        else:
            enough = middle
    return enough


def main():
    problems = {f"Legendre polynomials, d = {d}": polynomials(d) for d in (10, 20)}
    problems |= {f"tanh network, slopes up to {steepest:g}": network(steepest) for steepest in (100.0, 300.0, 1000.0)}
    print("| tangent space | d | 10 d log d | Christoffel | uniform |\n|---|---|---|---|---|")
    for name, (D, theta) in problems.items():
        d = theta.size
        counts = [needed(D, theta, make) for make in (adapted, uniform)]
        print(f"| {name} | {d} | {math.ceil(10 * d * math.log(d))} | {counts[0]} | {counts[1]} |", flush=True)


if __name__ == "__main__":
    main()
