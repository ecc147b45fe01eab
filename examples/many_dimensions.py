"""Poisson's equation in 10 and in 100 dimensions by tensor trains, whose solutions are sums of products.

-Laplace u = f on (0,1)^n with u given on the boundary: u = x_1 x_2 + x_3 x_4 + ... in 10 dimensions, |x|^2 in 100.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

PROBLEMS = {
    10: (lambda x: jnp.sum(x[::2] * x[1::2]), 0.0, 3, (500, 200)),
    100: (lambda x: jnp.sum(x**2), 200.0, 2, (1500, 1500)),
}
"""u and its Laplacian, the rank, and the points inside and on the boundary, by dimension."""


def problem(n, first, second, times=1):
    """The loss on random points inside and on the boundary, so many times as many as a run has."""
    u, source, _, (inside, edge) = PROBLEMS[n]
    within = riesz.monte_carlo((0.0,) * n, (1.0,) * n, times * inside).draw(first)
    border = riesz.monte_carlo_boundary((0.0,) * n, (1.0,) * n, times * edge).draw(second)
    equation = riesz.residual(riesz.laplacian, source, riesz.points(within.x))
    return equation + riesz.residual(riesz.identity, u, riesz.points(border.x))


def solve(short=False):
    """Both problems from a random start, with the CPU seconds of the whole call and the error at fresh points."""
    found = {}
    for n, (u, source, rank, _) in PROBLEMS.items():
        keys = jax.random.split(jax.random.key(1), 3)
        D, theta0 = riesz.tensor_train(keys[2], (rank,) * (n - 1), riesz.Legendre(0.0, 1.0, 3))
        x = jax.random.uniform(jax.random.key(2), (2000, n))
        exact = jax.vmap(u)(x)
        error = lambda theta, D=D, x=x, exact=exact: (
            jnp.linalg.norm(jax.vmap(D(theta))(x) - exact) / jnp.linalg.norm(exact)
        )
        began, steps = time.process_time(), 2 if short else 100
        solution = riesz.minimise(problem(n, *keys[:2]), D, theta0, max_steps=steps, metrics={"error": error})
        found[f"{n} dimensions: CPU seconds"] = time.process_time() - began
        found[f"{n} dimensions: parameters"] = theta0.size
        found[f"{n} dimensions: result"] = solution.result.name
        found[f"{n} dimensions: notes"] = " ".join(solution.notes) or "none"
        found[f"{n} dimensions: relative L2 error"] = float(error(solution.theta))
        if n == 10:  # u at the boundary; in a hundred dimensions it would take longer than the solution
            bound = riesz.elliptic_error(
                solution.function, 1.0, -source, (0.0,) * n, (1.0,) * n, u
            )  # u at the boundary
            found[f"{n} dimensions: bound of it"] = bound.l2 / float(jnp.sqrt(jnp.mean(exact**2)))
        fresh = problem(n, *jax.random.split(jax.random.key(3)), times=10)
        found[f"{n} dimensions: loss at the points"] = float(solution.loss)
        found[f"{n} dimensions: loss between the points"] = float(fresh(solution.function))
        found[f"{n} errors"] = np.asarray(solution.history["error"])
    return found


def draw(found):
    """The errors after every step, and a bound at the solution."""
    canvas = Figure(figsize=(7, 4.4), layout="constrained")
    axes = canvas.subplots()
    for n, colour, mark in ((10, "#0072B2", "o"), (100, "#D55E00", "s")):
        name = f"{n} dimensions"
        label = f"{name}, {found[f'{name}: parameters']} parameters"
        axes.semilogy(found[f"{n} errors"], color=colour, marker=mark, markersize=4, label=label)
        if n == 10:
            axes.axhline(found[f"{name}: bound of it"], color=colour, linestyle="dashed", label="bound at the solution")
    axes.set(xlabel="steps", ylabel="relative L2 error", title="Poisson's equation by tensor trains")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()
    axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
