"""Fit a network to noisy data, with a confidence band from the Gram matrix.

With noise of variance s^2 the parameters scatter with covariance s^2 (m G)^-1, and so the function with variance
s^2 psi(x)^T (m G)^-1 psi(x): s^2/m times the squared norm of the representer of evaluation at x in the tangent space.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz


def truth(x):
    """The function behind the data."""
    return jnp.sin(3 * x) * jnp.exp(-(x**2) / 4)


def solve(short=False):
    """The fit and its band."""
    m = 80
    x = jnp.linspace(-2, 2, m)
    y = truth(x) + 0.15 * jax.random.normal(jax.random.key(1), (m,))
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 5, 1))
    loss = riesz.least_squares(riesz.points(x, data=y))
    solution = riesz.minimise(loss, D, theta0, max_steps=30 if short else 300)

    space = riesz.tangent_space(loss, D, solution.theta, filter=riesz.Cutoff(1e-9))
    noise = jnp.sqrt(2 * solution.loss * m / (m - space.rank))
    at = jnp.linspace(-2, 2, 401)
    psi = jax.vmap(jax.grad(lambda theta, x: D(theta)(x)), (None, 0))(solution.theta, at)
    representers = jax.vmap(space.riesz)(psi)
    deviation = noise * jnp.sqrt(jnp.sum(psi * representers, axis=1) / m)
    fit = jax.vmap(solution.function)(at)
    inside = jnp.abs(fit - truth(at)) <= 1.96 * deviation
    return {
        "noise found (0.15 was put in)": float(noise),
        "share of the truth inside the 95 % band": float(jnp.mean(inside)),
        "x": np.asarray(x), "y": np.asarray(y), "at": np.asarray(at), "fit": np.asarray(fit),
        "deviation": np.asarray(deviation),
    }  # fmt: skip


def draw(found):
    """Data, truth, fit and band."""
    canvas = Figure(figsize=(7, 4), layout="constrained")
    axes = canvas.subplots()
    at, fit, width = found["at"], found["fit"], 1.96 * found["deviation"]
    axes.fill_between(at, fit - width, fit + width, color="#0072B2", alpha=0.2, linewidth=0, label="95 % band")
    axes.plot(at, np.asarray(truth(at)), color="black", linestyle="dashed", label="truth")
    axes.plot(at, fit, color="#0072B2", label="network")
    axes.plot(found["x"], found["y"], "o", color="#D55E00", markersize=3, label="data")
    axes.set(xlabel="x", ylabel="v(x)", title="A network fitted to noisy data")
    axes.legend()
    axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
