"""Fit an equinox network to data."""

import equinox as eqx
import jax
import jax.numpy as jnp

import riesz

jax.config.update("jax_enable_x64", True)
x = jnp.linspace(-1, 1, 200)
y = jnp.sin(4 * x) * jnp.exp(-x)

network = eqx.nn.MLP("scalar", "scalar", width_size=12, depth=1, activation=jnp.tanh, key=jax.random.key(0))
D, theta0 = riesz.parametrise(network)
loss = riesz.least_squares(riesz.points(x, data=y))
solution = riesz.minimise(loss, D, theta0, max_steps=300)

# solution.function is an equinox network again.
print(solution, "largest error:", jnp.max(jnp.abs(jax.vmap(solution.function)(x) - y)))
