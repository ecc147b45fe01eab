"""The heat equation in space and time, u_t = u_xx on [0, 1] x [0, 1/2], from u(x, 0) = sin(pi x).

Residual, walls and start are three terms of one loss; the exact solution is exp(-pi^2 t) sin(pi x). How large the error
can be follows from the loss: see `bound`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import draw_losses, main, of_itself
from matplotlib.figure import Figure

import riesz

END = 0.5
WEIGHT = 10.0
"""Of the terms for walls and start."""


def exact(z):
    """The solution at z = (x, t)."""
    return jnp.exp(-(jnp.pi**2) * z[1]) * jnp.sin(jnp.pi * z[0])


def operator(u):
    """u_t - u_xx."""

    def residual(z):
        x, t = jnp.eye(2, dtype=z.dtype)
        along = lambda direction: lambda z: jax.jvp(u, (z,), (direction,))[1]
        return along(t)(z) - jax.jvp(along(x), (z,), (x,))[1]

    return residual


def problem():
    """The loss: residual, walls and start."""
    time = riesz.gauss_legendre(0.0, END, 30)
    inside = riesz.product(riesz.gauss_legendre(0.0, 1.0, 30), time)
    walls = riesz.product(riesz.boundary(0.0, 1.0), time)
    start = riesz.product(riesz.gauss_legendre(0.0, 1.0, 30), riesz.points(jnp.zeros(1)))
    return (
        riesz.residual(operator, 0.0, inside)
        + WEIGHT * riesz.residual(riesz.identity, 0.0, walls)
        + WEIGHT * riesz.residual(riesz.identity, exact, start)
    )


def bound(loss):
    """The most that the L2 norm of the error e = u - v can be where the loss is this, as an integral.

    Let r be the residual, b and s what v has in excess at the walls and at the start, and let p solve -p_t - p_xx = e,
    with p = 0 at the walls and at the end. By parts, |e|^2 is a sum of three products: r with p, b with the slopes of p
    at the walls, s with p at the start. Their second factors have L2 norms of at most |e| times the constants below.
    """
    constants = np.array([1 / np.pi**2, 1 / np.sqrt(2), 1 / (np.sqrt(2) * np.pi)])
    return np.sqrt(2 * loss * np.sum(constants**2 / [1.0, WEIGHT, WEIGHT]))


def solve(short=False):
    """The network that solves it."""
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 64, 1))
    solution = riesz.minimise(problem(), D, theta0, max_steps=10 if short else 1000)
    x, t = jnp.meshgrid(jnp.linspace(0, 1, 101), jnp.linspace(0, END, 101), indexing="ij")
    z = jnp.stack([x, t], axis=-1).reshape(-1, 2)
    u, v = jax.vmap(exact)(z), jax.vmap(solution.function)(z)
    norm = np.sqrt(-np.expm1(-2 * np.pi**2 * END)) / (2 * np.pi)  # of u, in L2
    return {
        "relative L2 error": float(jnp.linalg.norm(v - u) / jnp.linalg.norm(u)),
        "bound of it": float(bound(solution.between) / norm),
        **of_itself(solution),
        "v": np.asarray(v).reshape(101, 101),
        "error": np.abs(np.asarray(v - u)).reshape(101, 101),
    }


def draw(found):
    """The solution, its error, and the way there."""
    canvas = Figure(figsize=(11, 3.8), layout="constrained")
    left, middle, right = canvas.subplots(1, 3)
    where = {"origin": "lower", "extent": (0, END, 0, 1), "aspect": "auto"}
    canvas.colorbar(left.imshow(found["v"], cmap="cividis", **where), ax=left)
    size = np.log10(np.maximum(found["error"], 1e-16))
    canvas.colorbar(middle.imshow(size, cmap="cividis", **where), ax=middle)
    draw_losses(right, found)
    left.set(title="u(x, t)", xlabel="t", ylabel="x")
    middle.set(title="log10 |u - v|", xlabel="t", ylabel="x")
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
