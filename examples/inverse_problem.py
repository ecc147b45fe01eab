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


def temperature(v):
    """The component u, of which there are data."""
    return lambda x: v(x)[0]


def heat(v):
    """-a u''."""
    bent = riesz.derivative(riesz.derivative(temperature(v)))
    return lambda x: -v(x)[1] * bent(x)


def solve(short=False):
    """The network, the number, and how sure the data are of the number."""
    network, weights = riesz.mlp(jax.random.key(0), (1, 12, 1))

    def model(params, x):
        return jnp.stack([x * (1 - x) * network(params["weights"])(x), params["conductivity"]])

    D, theta0 = riesz.parametrise(model, {"weights": weights, "conductivity": 1.0})
    m = 40
    x = (jnp.arange(m) + 0.5) / m
    y = exact(x) + NOISE * jax.random.normal(jax.random.key(3), (m,))
    data = riesz.Integral(lambda z, y: 0.5 * (z - y) ** 2, riesz.points(x, data=y), operator=temperature)
    # The equation holds without noise: its weight only has to be large beside that of the data.
    equation = riesz.residual(heat, source, riesz.gauss_legendre(0.0, 1.0, 40))
    solution = riesz.minimise(data + equation, D, theta0, max_steps=20 if short else 300)

    at = jnp.linspace(0, 1, 401)
    u = jax.vmap(solution.function)(at)[:, 0]
    a, deviation = solution.params["conductivity"], solution.deviations()["conductivity"]
    return {
        "conductivity (0.3 is right)": f"{a:.5f} ± {deviation:.5f}",
        "a": float(a),
        "its standard deviation": float(deviation),
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
    left.set(xlabel="x", ylabel="u(x)", title=f"a = {found['conductivity (0.3 is right)']}")
    left.legend()
    right.semilogy(found["loss"], color="#0072B2")
    right.set(xlabel="steps", title="loss")
    for axes in (left, right):
        axes.grid(alpha=0.25)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
