"""Regression in H1 against regression in L2: a function and its slope, or the function alone, at a few points.

The same network is fitted to the same points twice: once to values, once to values and slopes. Slopes are worth as much
as further points: where there are too few values, the fit to values wanders between them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

POINTS = 24


def truth(x):
    """A wave that gets faster."""
    return jnp.sin(2 * jnp.pi * x**2) * jnp.exp(-x / 2)


def solve(short=False):
    """Both fits and their errors."""
    D, theta0 = riesz.mlp(jax.random.key(1), (1, 12, 1))
    x = 2 * (jnp.arange(POINTS) + 0.5) / POINTS
    losses = {
        "L2": riesz.least_squares(riesz.points(x, data=jax.vmap(truth)(x))),
        "H1": riesz.sobolev(riesz.points(x, data=jax.vmap(riesz.value_and_gradient(truth))(x))),
    }
    at = jnp.linspace(0, 2, 801)
    found = {"x": np.asarray(x), "at": np.asarray(at)}
    for name, loss in losses.items():
        solution = riesz.minimise(loss, D, theta0, riesz.auto(long=False), max_steps=20 if short else 400)
        for what, operator in (("values", riesz.identity), ("slopes", riesz.derivative)):
            v, u = (np.asarray(jax.vmap(operator(f))(at)).reshape(-1) for f in (solution.function, truth))
            found[f"{name}: relative L2 error of the {what}"] = float(np.linalg.norm(v - u) / np.linalg.norm(u))
            found[f"{name}: {what}"] = v
        found[f"{name}: mean squared residual"] = 2 * float(solution.loss)
    return found


def draw(found):
    """Both fits, and where they are wrong."""
    canvas = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = canvas.subplots(1, 2)
    u = np.asarray(jax.vmap(truth)(found["at"]))
    left.plot(found["at"], u, color="black", linestyle="dashed", label="truth")
    left.plot(found["x"], np.asarray(jax.vmap(truth)(found["x"])), "o", color="black", markersize=3, label="data")
    for name, colour in (("L2", "#D55E00"), ("H1", "#0072B2")):
        left.plot(found["at"], found[f"{name}: values"], color=colour, label=name)
        right.semilogy(found["at"], np.abs(found[f"{name}: values"] - u), color=colour, label=name)
    left.set(xlabel="x", title="fits")
    right.set(xlabel="x", title="error")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.legend()
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
