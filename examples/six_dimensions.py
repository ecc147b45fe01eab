"""A function of six variables, cos(x_1 + ... + x_6), by a tensor train and by a network.

Its ranks are 2: a train of ranks 2 with enough polynomials represents it to rounding, with 240 parameters.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
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
        found[f"{name} loss"] = np.asarray(solution.history["loss"])
    return found


def draw(found):
    """The way there, for both."""
    canvas = Figure(figsize=(7, 4), layout="constrained")
    axes = canvas.subplots()
    for name, colour, line in (("train", "#0072B2", "solid"), ("network", "#D55E00", "dashed")):
        words = f"{name}, {found[f'{name}: parameters']} parameters"
        axes.semilogy(np.maximum(found[f"{name} loss"], 1e-32), color=colour, linestyle=line, label=words)
    axes.set(xlabel="steps", ylabel="loss", title="cos(x_1 + ... + x_6) on 2048 points")
    axes.legend()
    axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
