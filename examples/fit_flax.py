"""Fit a flax module to data."""

import jax
import jax.numpy as jnp
from flax import linen as nn

import riesz

jax.config.update("jax_enable_x64", True)
x = jnp.linspace(-1, 1, 200)[:, None]  # a flax layer takes points of shape (1,)
y = jnp.sin(4 * x) * jnp.exp(-x)

model = nn.Sequential([nn.Dense(12, param_dtype=float), jnp.tanh, nn.Dense(1, param_dtype=float)])
D, theta0 = riesz.parametrise(model.apply, model.init(jax.random.key(0), x[0]))
loss = riesz.least_squares(riesz.points(x, data=y))
solution = riesz.minimise(loss, D, theta0, max_steps=300)

# D.params gives flax's own variables back.
print(solution, "largest error:", jnp.max(jnp.abs(model.apply(D.params(solution.theta), x) - y)))
