"""Poisson's equation on a square two ways, -Δu = f on [0, 1]², u = 0 on its sides.

By its residual, ½∫(Δv + f)², and by its Ritz energy, ∫½|∇v|² - f v, whose minimum is the same function. The model is
zero on the sides by construction. The exact solution is sin(pi x) sin(2 pi y).
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

LOW, HIGH = (0.0, 0.0), (1.0, 1.0)


def exact(x):
    """The solution."""
    return jnp.sin(jnp.pi * x[0]) * jnp.sin(2 * jnp.pi * x[1])


def source(x):
    """f = -Δu."""
    return 5 * jnp.pi**2 * exact(x)


def solve(short=False):
    """The two solutions and their errors."""
    network, theta0 = riesz.mlp(jax.random.key(0), (2, 20, 1))
    D = riesz.hard_boundary(network, riesz.box_bubble(LOW, HIGH))
    inside = riesz.gauss_legendre(LOW, HIGH, 40)
    losses = {
        "residual": riesz.residual(riesz.laplacian, lambda x: -source(x), inside),
        "Ritz energy": riesz.ritz(1.0, source, inside),
    }
    x, y = jnp.meshgrid(*2 * [jnp.linspace(0, 1, 101)], indexing="ij")
    z = jnp.stack([x, y], axis=-1).reshape(-1, 2)
    u = jax.vmap(exact)(z)
    error = lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(z) - u) / jnp.linalg.norm(u)
    found = {}
    for name, loss in losses.items():
        solution = riesz.minimise(
            loss, D, theta0, riesz.auto(long=False), max_steps=10 if short else 120, metrics={"error": error}
        )
        found[f"{name}: relative L2 error"] = float(error(solution.theta))
        bound = riesz.elliptic_error(solution.function, 1.0, source, LOW, HIGH)  # which does not know u
        found[f"{name}: bound of it"] = bound.l2 / 0.5  # the norm of u
        found[f"{name}: steps"] = solution.steps
        found[f"{name}: errors"] = np.asarray(solution.history["error"])
        found[f"{name}: where"] = np.abs(np.asarray(jax.vmap(solution.function)(z) - u)).reshape(101, 101)
    return found


def draw(found):
    """Where the errors are, and how they fell."""
    canvas = Figure(figsize=(11, 3.4), layout="constrained")
    *maps, right = canvas.subplots(1, 3)
    for axes, name, colour in zip(maps, ("residual", "Ritz energy"), ("#0072B2", "#D55E00"), strict=True):
        size = np.log10(np.maximum(found[f"{name}: where"].T, 1e-16))
        image = axes.imshow(size, cmap="cividis", origin="lower", extent=(0, 1, 0, 1))
        canvas.colorbar(image, ax=axes)
        axes.set(title=f"log10 of the error, {name}", xlabel="x", ylabel="y")
        right.semilogy(found[f"{name}: errors"], color=colour, alpha=0.3)
        right.semilogy(np.minimum.accumulate(found[f"{name}: errors"]), color=colour, label=f"{name}, best so far")
    right.set(title="relative L2 error", xlabel="steps")
    right.grid(alpha=0.25)
    right.legend()
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
