"""Burgers' equation with viscosity 0.01/pi: u_t + u u_x = nu u_xx on [-1, 1] x [0, 1], from u(x, 0) = -sin(pi x).

By t = 1/3 a front forms at x = 0, as thin as a hundredth of the interval. Half of the points lie within 0.16 of it by
a map x = w sinh(c s); weights make up for that. Start and walls hold by construction. The error is measured against the
closed solution of Cole and Hopf, an integral over a Gaussian.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

VISCOSITY = 0.01 / np.pi


def reference(x, t):
    """u(x, t) = -E[sin(pi Y) g(Y)]/E[g(Y)], Y = x - sqrt(2 nu t) N with N normal, g(y) = exp(-cos(pi y)/(2 pi nu))."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    y = np.pi * (np.asarray(x)[..., None] - np.sqrt(2 * VISCOSITY * np.asarray(t))[..., None] * nodes)
    exponent = -np.cos(y) / (2 * np.pi * VISCOSITY)
    g = weights * np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    return -(np.sin(y) * g).sum(axis=-1) / g.sum(axis=-1)


def operator(u):
    """u_t + u u_x - nu u_xx."""

    def residual(z):
        x, t = jnp.eye(2, dtype=z.dtype)
        along = lambda direction: lambda z: jax.jvp(u, (z,), (direction,))[1]
        slope, bend = jax.jvp(along(x), (z,), (x,))
        return along(t)(z) + u(z) * slope - VISCOSITY * bend

    return residual


def graded(m, width=0.05):
    """Gauss-Legendre points for [-1, 1], crowded within `width` of zero."""
    rule, reach = riesz.gauss_legendre(-1.0, 1.0, m), np.arcsinh(1 / width)
    x, stretch = width * jnp.sinh(reach * rule.x), width * reach * jnp.cosh(reach * rule.x)
    return riesz.points(x, weights=stretch * rule.weights)


def solve(short=False):
    """The network that solves it."""
    network, theta0 = riesz.mlp(jax.random.key(0), (2, 20, 20, 1))
    D = riesz.hard_boundary(network, riesz.box_bubble((-1, 0), (1, None)), lift=lambda z: -jnp.sin(jnp.pi * z[0]))
    domain = riesz.product(graded(20 if short else 120), riesz.gauss_legendre(0.0, 1.0, 10 if short else 50))
    loss = riesz.residual(operator, 0.0, domain)
    solution = riesz.minimise(loss, D, theta0, riesz.auto(long=False), max_steps=5 if short else 250)
    x, t = np.linspace(-1, 1, 401), np.linspace(0, 1, 101)
    z = np.stack(np.meshgrid(x, t, indexing="ij"), axis=-1)
    u, v = reference(*np.moveaxis(z, -1, 0)), np.asarray(jax.vmap(jax.vmap(solution.function))(z)).reshape(401, 101)
    return {
        "relative L2 error": float(np.linalg.norm(v - u) / np.linalg.norm(u)),
        "steps": solution.steps,
        "loss": np.asarray(solution.history["loss"]),
        "x": x, "t": t, "u": u, "v": v,
    }  # fmt: skip


def draw(found):
    """The solution, its profiles as the front forms, and the way there."""
    canvas = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = canvas.subplots(1, 3)
    image = left.imshow(found["v"], cmap="cividis", origin="lower", extent=(0, 1, -1, 1), aspect="auto")
    canvas.colorbar(image, ax=left)
    for column, colour in ((0, "#999999"), (25, "#56B4E9"), (50, "#0072B2"), (100, "#D55E00")):
        middle.plot(found["x"], found["v"][:, column], color=colour, label=f"t = {found['t'][column]:g}")
        middle.plot(found["x"], found["u"][:, column], color="black", linestyle="dotted")
    right.semilogy(found["loss"], color="#0072B2")
    left.set(title="u(x, t)", xlabel="t", ylabel="x")
    middle.set(title="profiles (dotted: reference)", xlabel="x")
    right.set(title="loss", xlabel="steps")
    middle.legend()
    for axes in (middle, right):
        axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
