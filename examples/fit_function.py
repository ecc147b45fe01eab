"""Fit a plain function to data: the height, rate and level of an exponential decay."""

import jax
import jax.numpy as jnp

import riesz

jax.config.update("jax_enable_x64", True)
t = jnp.linspace(0, 5, 50)
y = 2.5 * jnp.exp(-1.3 * t) + 0.5

decay = lambda p, t: p["height"] * jnp.exp(-p["rate"] * t) + p["level"]
D, theta0 = riesz.parametrise(decay, {"height": 1.0, "rate": 1.0, "level": 0.0})
loss = riesz.least_squares(riesz.points(t, data=y))
solution = riesz.minimise(loss, D, theta0, target=1e-20)

# D.params gives the dictionary back.
print(solution, D.params(solution.theta))
