"""The five problems on which long steps are measured, with the points, weights and starts of their reference run.

Networks are tanh, weights Glorot normal, biases zero; points and weights are Gauss-Legendre's:

- poisson: -Laplace u = f on (0,1)^2, 2-64-1, 32 x 32 points inside, 64 on each side;
- heat: u_t = u_xx/4 on (0,1)^2, 2-64-1, the same points, sides x = 0, x = 1 and t = 0;
- helmholtz: Laplace u + u = q on (-1,1)^2, u = sin(pi x) sin(4 pi y), 2-20-20-1, 40 x 40, 40 on each side, times 100;
- wave, wave-30: u_tt = 4 u_xx on (0,1)^2, 2-20-20-1 (40 x 40 points) and 2-30-30-1 (50 x 50), start and walls built in.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import riesz

PI = np.pi
X, T = np.eye(2)


@dataclass
class Equation:
    """A loss, a parametrisation, its starts, and the relative L2 error at 4000 points."""

    name: str
    loss: object
    D: Callable
    start: Callable
    error: Callable


def network(layers):
    """The function theta -> x -> value of a tanh network."""

    def D(theta):
        def value(x):
            first = 0
            for n, (a, b) in enumerate(layers):
                weight = theta[first : first + a * b].reshape(b, a)
                x = weight @ x + theta[first + a * b : first + a * b + b]
                first += a * b + b
                x = jnp.tanh(x) if n < len(layers) - 1 else x
            return x[0]

        return value

    return D


def glorot(layers):
    """The starts, by seed."""

    def start(seed):
        keys = jax.random.split(jax.random.key(seed), len(layers))
        parts = [
            part
            for key, (a, b) in zip(keys, layers, strict=True)
            for part in (np.sqrt(2 / (a + b)) * jax.random.normal(key, (a * b,)), jnp.zeros(b))
        ]
        return jnp.concatenate(parts)

    return start


def _along(v, direction):
    return lambda x: jax.jvp(v, (x,), (direction,))[1]


def along(v, *directions):
    """The derivative of v along directions, one after another."""
    for direction in directions:
        v = _along(v, jnp.asarray(direction))
    return v


def rule(low, n):
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return low + (nodes + 1) * (1 - low) / 2, weights * (1 - low) / 2


def equation(name, finer=1):
    """One of them, by name; `finer` multiplies the number of points per dimension."""
    hidden = {"poisson": (64,), "heat": (64,), "helmholtz": (20, 20), "wave": (20, 20), "wave-30": (30, 30)}[name]
    sizes = (2, *hidden, 1)
    layers = list(zip(sizes[:-1], sizes[1:], strict=True))
    D, low, inner, outer, factor = network(layers), 0.0, 32, 64, 1.0
    sides = [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]
    if name == "poisson":
        exact = lambda x: jnp.sin(PI * x[0]) * jnp.sin(PI * x[1])
        operator = lambda v: lambda x: -along(v, X, X)(x) - along(v, T, T)(x)
        source = lambda x: 2 * PI**2 * exact(x)
    elif name == "heat":
        exact = lambda x: jnp.exp(-(PI**2) * x[1] / 4) * jnp.sin(PI * x[0])
        operator = lambda v: lambda x: along(v, T)(x) - along(v, X, X)(x) / 4
        source, sides = 0.0, sides[:3]
    elif name == "helmholtz":
        exact = lambda x: jnp.sin(PI * x[0]) * jnp.sin(4 * PI * x[1])
        operator = lambda v: lambda x: along(v, X, X)(x) + along(v, T, T)(x) + v(x)
        source = lambda x: (1 - 17 * PI**2) * exact(x)
        low, inner, outer, factor = -1.0, 40, 40, 100.0
        sides = [(0, -1.0), (0, 1.0), (1, -1.0), (1, 1.0)]
    else:
        exact = lambda x: (
            jnp.sin(PI * x[0]) * jnp.cos(2 * PI * x[1]) + jnp.sin(4 * PI * x[0]) * jnp.cos(8 * PI * x[1]) / 2
        )
        operator = lambda v: lambda x: along(v, T, T)(x) - 4 * along(v, X, X)(x)
        plain, source, inner, sides = D, 0.0, 40 if hidden == (20, 20) else 50, []
        D = lambda theta: lambda x: exact(x * jnp.asarray(X)) + 4 * x[0] * (1 - x[0]) * x[1] ** 2 * plain(theta)(x)
    (t, w), (s, ws) = rule(low, finer * inner), rule(low, finer * outer)
    inside = riesz.points(np.stack(np.meshgrid(t, t), -1).reshape(-1, 2), weights=np.outer(w, w).ravel())
    loss = riesz.residual(operator, source, inside)
    if sides:
        x = np.concatenate([np.insert(s[:, None], axis, at, axis=1) for axis, at in sides])
        boundary = riesz.points(x, weights=factor * np.tile(ws, len(sides)))
        loss = loss + riesz.residual(riesz.identity, exact, boundary)
    test = low + (1 - low) * np.random.default_rng(1).random((4000, 2))
    truth = jax.vmap(exact)(test)
    error = jax.jit(lambda theta: jnp.linalg.norm(jax.vmap(D(theta))(test) - truth) / jnp.linalg.norm(truth))
    return Equation(name, loss, D, glorot(layers), error)
