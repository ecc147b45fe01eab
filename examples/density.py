"""A density in two dimensions with two hills, from a sample of 40,000 points, by both density losses.

The network is the logarithm of the density up to a constant, `riesz.normalised` makes it a density on the square
[-4, 4]². One fit minimises the cross-entropy, the other the squared distance in L2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

SAMPLES, SIDE = 40_000, 4.0
CENTRES = jnp.array([[-1.2, -0.6], [1.2, 0.8]])
SHAPES = jnp.array([[[0.7, 0.0], [0.3, 0.5]], [[0.5, 0.0], [-0.2, 0.8]]])
"""Each hill is the law of centre + shape @ n, with n normal."""
WEIGHTS = jnp.array([0.6, 0.4])


def truth(x):
    """The mixture's density."""
    normal = lambda centre, shape: (
        jnp.exp(-0.5 * jnp.sum(jnp.linalg.solve(shape, x - centre) ** 2))
        / (2 * jnp.pi * jnp.abs(jnp.linalg.det(shape)))
    )
    return WEIGHTS @ jax.vmap(normal)(CENTRES, SHAPES)


def sample(key, m):
    """Points of the mixture."""
    which, noise = jax.random.split(key)
    hill = jax.random.choice(which, 2, (m,), p=WEIGHTS)
    return CENTRES[hill] + jnp.einsum("mij,mj->mi", SHAPES[hill], jax.random.normal(noise, (m, 2)))


def solve(short=False):
    """Both estimates and their distance in total variation from the truth."""
    x = sample(jax.random.key(0), 2_000 if short else SAMPLES)
    square = riesz.gauss_legendre((-SIDE, -SIDE), (SIDE, SIDE), 80)
    network, theta0 = riesz.mlp(jax.random.key(1), (2, 12, 1))
    D = riesz.normalised(network, square)
    losses = {
        "cross-entropy": riesz.density_kl(riesz.points(x), square),
        "least squares": riesz.density_l2(riesz.points(x), square),
    }
    u = np.asarray(jax.vmap(truth)(square.x))
    at = np.linspace(-SIDE, SIDE, 121)
    grid = jnp.stack(jnp.meshgrid(at, at), axis=-1).reshape(-1, 2)
    found = {"x": np.asarray(x), "at": at, "truth": np.asarray(jax.vmap(truth)(grid)).reshape(121, 121)}
    for name, loss in losses.items():
        solution = riesz.minimise(loss, D, theta0, max_steps=5 if short else 60)
        v = np.asarray(jax.vmap(solution.function)(square.x)).reshape(-1)
        found[f"{name}: total variation"] = float(0.5 * np.asarray(square.weights) @ np.abs(u - v))
        found[f"{name}: mass"] = float(np.asarray(square.weights) @ v)
        found[f"{name}: steps"] = solution.steps
        found[name] = np.asarray(jax.vmap(solution.function)(grid)).reshape(121, 121)
    return found


def draw(found):
    """The truth with part of the sample, and both estimates."""
    canvas = Figure(figsize=(11, 3.6), layout="constrained")
    panels = canvas.subplots(1, 3, sharex=True, sharey=True)
    levels = 0.025 * np.arange(1, 12)
    for axes, name in zip(panels, ("truth", "cross-entropy", "least squares"), strict=True):
        lines = axes.contour(found["at"], found["at"], found[name], levels=levels, cmap="cividis")
        title = name if name == "truth" else f"{name}: total variation {found[f'{name}: total variation']:.3f}"
        axes.set(title=title, xlabel="x", aspect="equal")
    panels[0].plot(*found["x"][:1000].T, ".", color="#999999", markersize=2, zorder=0, label="1000 of the points")
    panels[0].legend(loc="lower right")
    panels[0].set(ylabel="y")
    canvas.colorbar(lines, ax=panels, label="density")
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
