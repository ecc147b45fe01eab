"""An inverse problem: find the conductivity a in -a u'' = f, u(0) = u(1) = 0, and u, from noisy values of u.

The unknown number stands beside the network: the model is the function x -> (u(x), a), whose second component is
constant, so that operators see both.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure

import riesz

CONDUCTIVITY = 0.3
NOISE = 1e-3


def exact(x):
    """The solution for the source below."""
    return jnp.sin(jnp.pi * x) + jnp.sin(2 * jnp.pi * x) / 2


def source(x):
    """The heat put in."""
    return CONDUCTIVITY * jnp.pi**2 * (jnp.sin(jnp.pi * x) + 2 * jnp.sin(2 * jnp.pi * x))


def balance(v):
    """-a u'' - f."""
    bent = riesz.derivative(riesz.derivative(lambda x: v(x)[0]))
    return lambda x: -v(x)[1] * bent(x) - source(x)


def solve(short=False):
    """The network, the number, and how sure the data are of the number."""
    network, weights = riesz.mlp(jax.random.key(0), (1, 12, 1))

    def D(theta):
        u = network(theta[:-1])
        return lambda x: jnp.stack([x * (1 - x) * u(x), theta[-1]])

    m = 40
    x = (jnp.arange(m) + 0.5) / m
    y = exact(x) + NOISE * jax.random.normal(jax.random.key(3), (m,))
    # Each residual in units of its own error: noise in the data, as good as none in the equation.
    data = riesz.Integral(lambda z, y: 0.5 * ((z[0] - y) / NOISE) ** 2, riesz.points(x, data=y))
    equation = 1e6 * riesz.residual(balance, 0.0, riesz.gauss_legendre(0.0, 1.0, 40))
    loss = data + equation
    theta0 = jnp.append(weights, 1.0)
    solution = riesz.minimise(loss, D, theta0, max_steps=20 if short else 300)

    # The variance of theta[-1] is e^T (m G)^-1 e.
    space = riesz.tangent_space(loss, D, solution.theta, riesz.GaussNewton(), filter=riesz.Cutoff(1e-8))
    e = jnp.zeros_like(theta0).at[-1].set(1.0)
    at = jnp.linspace(0, 1, 401)
    u = jax.vmap(solution.function)(at)[:, 0]
    return {
        "conductivity (0.3 is right)": float(solution.theta[-1]),
        "its standard deviation": float(jnp.sqrt(space.riesz(e)[-1] / m)),
        "largest error of u": float(jnp.max(jnp.abs(u - exact(at)))),
        "x": np.asarray(x), "y": np.asarray(y), "at": np.asarray(at), "u": np.asarray(u),
        "loss": np.asarray(solution.history["loss"]),
    }  # fmt: skip


def draw(found):
    """The data and the solution; the way there."""
    canvas = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.plot(found["at"], np.asarray(exact(found["at"])), color="black", linestyle="dashed", label="exact")
    left.plot(found["at"], found["u"], color="#0072B2", label="network")
    left.plot(found["x"], found["y"], "o", color="#D55E00", markersize=3, label="data")
    a, deviation = found["conductivity (0.3 is right)"], found["its standard deviation"]
    left.set(xlabel="x", ylabel="u(x)", title=f"a = {a:.5f} ± {deviation:.5f}")
    left.legend()
    right.semilogy(found["loss"], color="#0072B2")
    right.set(xlabel="steps", title="loss")
    for axes in (left, right):
        axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
