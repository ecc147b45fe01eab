"""A function of six variables, cos(x_1 + ... + x_6), by a tensor train and by a network.

Its ranks are 2: a train of ranks 2 with enough polynomials represents it to rounding, with 240 parameters. The loss is
half of the integral of the squared error, so that the loss between the points says how large the error is.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import draw_losses, main, of_itself
from matplotlib.figure import Figure

import riesz


def f(x):
    """The function."""
    return jnp.cos(jnp.sum(x))


def solve(short=False):
    """Both models on the same points, their errors on fresh ones."""
    low, high = (-1.0,) * 6, (1.0,) * 6
    points = riesz.sobol(low, high, 512 if short else 2048)
    loss = riesz.residual(riesz.identity, f, points)
    test = riesz.sobol(low, high, 4096, seed=1).x
    exact = jax.vmap(f)(test)
    norm = float(jnp.sqrt(2.0**6 * jnp.mean(exact**2)))  # in L2
    models = {
        "train": riesz.tensor_train(jax.random.key(0), (2,) * 5, riesz.Legendre(-1.0, 1.0, 12)),
        "network": riesz.mlp(jax.random.key(0), (6, 32, 1)),
    }
    found = {}
    for name, (D, theta0) in models.items():
        solution = riesz.minimise(loss, D, theta0, max_steps=10 if short else 150)
        error = jax.vmap(solution.function)(test) - exact
        found[f"{name}: parameters"] = theta0.size
        found[f"{name}: relative L2 error"] = float(jnp.linalg.norm(error) / jnp.linalg.norm(exact))
        found[f"{name}: the same from the loss between the points"] = float(np.sqrt(2 * solution.between) / norm)
        found |= of_itself(solution, f"{name}: ")
    return found


def draw(found):
    """The way there, for both."""
    canvas = Figure(figsize=(8, 4.4), layout="constrained")
    axes = canvas.subplots()
    draw_losses(axes, found, "train: ", "#0072B2", "s")
    draw_losses(axes, found, "network: ", "#D55E00", "o")
    axes.set(ylabel="loss", title="cos(x_1 + ... + x_6) on 2048 points")
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
