"""Burgers' equation with viscosity 0.01/pi: u_t + u u_x = nu u_xx on [-1, 1] x [0, 1], from u(x, 0) = -sin(pi x).

By t = 1/3 a front forms at x = 0, as thin as a hundredth of the interval. Slabs of time are solved one after the other,
on points that go where the residual is large. The walls hold by construction. Two solutions of the equation never move
apart in L1, so that after a time t the error is at most the L1 norm of the start's plus that of the residual until then
(multiply the equation of the error by its sign). It is also measured, against the closed solution of Cole and Hopf.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import draw_losses, main, of_itself
from matplotlib.figure import Figure

import riesz

VISCOSITY = 0.01 / np.pi
TIMES = (0.0, 0.2, 0.3, 0.4, 0.6, 1.0)
"""The slabs: short ones while the front forms."""


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


def start(z):
    """u(x, 0)."""
    return -jnp.sin(jnp.pi * z[0])


def march(short):
    """A network for every slab, zero at the walls, which begins with the values of the one before."""
    network, theta0 = riesz.mlp(jax.random.key(0), (2, 14, 14, 1))
    network = riesz.hard_boundary(network, riesz.box_bubble((-1.0, None), (1.0, None)))

    def slab(t0, t1, before):
        inside = riesz.adaptive(riesz.sobol((-1.0, t0), (1.0, t1), 200 if short else 2048))
        begin = riesz.initial(before or start, riesz.product(riesz.grid(-1.0, 1.0, 400), riesz.points([t0])))
        return riesz.residual(operator, 0.0, inside) + 100.0 * begin, riesz.local_time(network, t0)

    method, steps = riesz.auto(long=False), 5 if short else 150
    return riesz.march(slab, TIMES, theta0, method=method, max_steps=steps)


def bounds(solution):
    """Of the error in L1 until the end of every slab: the jumps at the beginnings and the residual, on other points."""
    found, before = [], start
    for t0, t1, slab in zip(TIMES[:-1], TIMES[1:], solution.slabs, strict=True):
        begin = riesz.product(riesz.grid(-1.0, 1.0, 4001), riesz.points([t0]))
        jump = jax.vmap(slab.function)(begin.x) - jax.vmap(before)(begin.x)
        inside = riesz.sobol((-1.0, t0), (1.0, t1), 2**15, seed=1)
        r = jax.vmap(operator(slab.function))(inside.x)
        found.append(float(begin.weights @ jnp.abs(jump) + inside.weights @ jnp.abs(r)))
        before = slab.function
    return np.cumsum(found)


def solve(short=False):
    """The solution, what it says of itself, and its error."""
    solution = march(short)
    x, t = np.linspace(-1, 1, 401), np.linspace(0, 1, 101)
    z = np.stack(np.meshgrid(x, t, indexing="ij"), axis=-1)
    u, v = reference(*np.moveaxis(z, -1, 0)), np.asarray(jax.vmap(jax.vmap(solution.function))(z)).reshape(401, 101)
    error, bound = np.trapezoid(np.abs(v - u), x, axis=0), bounds(solution)
    return {
        "relative L2 error": float(np.linalg.norm(v - u) / np.linalg.norm(u)),
        "largest L1 error": float(error.max()),
        "bound of it": float(bound[-1]),
        **of_itself(solution),
        "x": x, "t": t, "u": u, "v": v, "error": error, "bound": bound, "ends": TIMES[1:],
    }  # fmt: skip


def draw(found):
    """The solution, its profiles as the front forms, its error with the bound, and the way there."""
    canvas = Figure(figsize=(10, 6.6), layout="constrained")
    (left, right), (below, way) = canvas.subplots(2, 2)
    image = left.imshow(found["v"], cmap="cividis", origin="lower", extent=(0, 1, -1, 1), aspect="auto")
    canvas.colorbar(image, ax=left)
    for column, colour in ((0, "#999999"), (25, "#56B4E9"), (50, "#0072B2"), (100, "#D55E00")):
        right.plot(found["x"], found["v"][:, column], color=colour, label=f"t = {found['t'][column]:g}")
        right.plot(found["x"], found["u"][:, column], color="black", linestyle="dotted")
    below.semilogy(found["t"], found["error"], color="#D55E00", label="error")
    below.stairs(
        found["bound"], TIMES, baseline=None, color="#0072B2", linestyle="dashed", label="bound, for each slab"
    )
    draw_losses(way, found)
    left.set(title="u(x, t)", xlabel="t", ylabel="x")
    right.set(title="profiles (dotted: reference)", xlabel="x", ylabel="u", xticks=(-1, -0.5, 0, 0.5, 1))
    below.set(title="L1 norm of the error", xlabel="t")
    way.set(title="loss, one slab after the other")
    for axes in (right, below):
        axes.grid(alpha=0.25)
        axes.legend(fontsize="small")
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
