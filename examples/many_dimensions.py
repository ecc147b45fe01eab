"""Poisson's equation in 10 and in 100 dimensions by tensor trains, whose solutions are sums of products.

-Laplace u = f on (0,1)^n with u given on the boundary: u = x_1 x_2 + x_3 x_4 + ... in 10 dimensions, |x|^2 in 100.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import draw_losses, main, of_itself
from matplotlib.figure import Figure

import riesz

PROBLEMS = {
    10: (lambda x: jnp.sum(x[::2] * x[1::2]), 0.0, 3, (500, 200)),
    100: (lambda x: jnp.sum(x**2), 200.0, 2, (1500, 1500)),
}
"""u and its Laplacian, the rank, and the points inside and on the boundary, by dimension."""


def solve(short=False):
    """Both problems from a random start, with the CPU seconds of the whole call and the error at fresh points."""
    found = {}
    for n, (u, source, rank, (inside, edge)) in PROBLEMS.items():
        low, high, keys = (0.0,) * n, (1.0,) * n, jax.random.split(jax.random.key(1), 3)
        # Random points that stay, and know where they were drawn: the run can look between them.
        within = riesz.adaptive(riesz.monte_carlo(low, high, inside))
        border = riesz.adaptive(riesz.monte_carlo_boundary(low, high, edge))
        edges = riesz.residual(riesz.identity, u, border) / (2 * n)  # an average: the area of the boundary is 2n
        loss = riesz.residual(riesz.laplacian, source, within) + edges
        D, theta0 = riesz.tensor_train(keys[2], (rank,) * (n - 1), riesz.Legendre(0.0, 1.0, 3))
        x = jax.random.uniform(jax.random.key(2), (2000, n))
        exact = jax.vmap(u)(x)
        error = lambda theta, D=D, x=x, exact=exact: (
            jnp.linalg.norm(jax.vmap(D(theta))(x) - exact) / jnp.linalg.norm(exact)
        )
        began = time.process_time()
        solution = riesz.minimise(loss, D, theta0, max_steps=2 if short else 100, metrics={"error": error})
        found[f"{n} dimensions: CPU seconds"] = time.process_time() - began
        found[f"{n} dimensions: parameters"] = theta0.size
        found[f"{n} dimensions: relative L2 error"] = float(error(solution.theta))
        bound = riesz.elliptic_error(solution.function, 1.0, -source, low, high, u)  # u on the boundary alone
        found[f"{n} dimensions: bound of it"] = bound.l2 / float(jnp.sqrt(jnp.mean(exact**2)))
        found |= of_itself(solution, f"{n} dimensions: ")
        found[f"{n} errors"] = np.asarray(solution.history["error"])
    return found


def draw(found):
    """The errors after every step with their bounds at the end, and the losses."""
    canvas = Figure(figsize=(10, 5), layout="constrained")
    left, right = canvas.subplots(1, 2)
    for n, colour, mark in ((10, "#0072B2", "o"), (100, "#D55E00", "s")):
        name = f"{n} dimensions"
        label = f"{name}, {found[f'{name}: parameters']} parameters"
        left.semilogy(found[f"{n} errors"], color=colour, marker=mark, markersize=4, label=label)
        left.axhline(found[f"{name}: bound of it"], color=colour, linestyle="dashed", label=f"{name}, bound at the end")
        draw_losses(right, found, f"{name}: ", colour, mark)
    left.set(xlabel="steps", ylabel="relative L2 error", title="Poisson's equation by tensor trains")
    left.grid(alpha=0.25)
    left.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.18))
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
