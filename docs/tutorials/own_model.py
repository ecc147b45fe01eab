# %% [markdown]
# # A model of your own
#
# A model class is a map `D` from a vector of parameters to a *function*: `D(theta)(x)` is a value at one point.
# Anything that JAX can differentiate will do: a formula, an equinox or flax network, or one of these with a shape
# that you know.

# %%
import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import matplotlib.pyplot as plt

import riesz

# %% [markdown]
# ## A formula with named parameters
#
# Two peaks on a background. Parameters may be any pytree; `riesz.parametrise` makes a vector of it, and `D.params`
# makes the pytree again, as does `solution.params`. A width must be positive, and the formula sees to it: the free
# parameter is its logarithm.


# %%
def spectrum(p, x):
    """One value, at one point x."""
    peaks = p["height"] * jnp.exp(-0.5 * ((x - p["centre"]) / jnp.exp(p["log_width"])) ** 2)
    return jnp.sum(peaks) + p["level"] + p["tilt"] * x


start = {
    "height": jnp.array([1.0, 1.0]),
    "centre": jnp.array([2.0, 6.0]),
    "log_width": jnp.zeros(2),
    "level": 0.0,
    "tilt": 0.0,
}
D, theta0 = riesz.parametrise(spectrum, start)

truth = {
    "height": jnp.array([2.0, 1.2]),
    "centre": jnp.array([3.0, 5.0]),
    "log_width": jnp.log(jnp.array([0.6, 0.9])),
    "level": 0.4,
    "tilt": 0.05,
}
x = jnp.linspace(0, 8, 120)
y = jax.vmap(lambda x: spectrum(truth, x))(x) + 0.05 * jax.random.normal(jax.random.key(0), x.shape)

loss = riesz.least_squares(riesz.points(x, data=y))
solution = riesz.minimise(loss, D, theta0)
print(solution)
solution.params

# %% [markdown]
# ## What to believe: does the data decide the parameters?
#
# The tangent space at the solution knows. Its rank is the number of directions in which the function can change;
# where it is smaller than the number of parameters, some combination of them does nothing. `solution.covariance()`
# has the variances that the noise leaves; these are the standard deviations.

# %%
space = riesz.tangent_space(loss, D, solution.theta)
print("parameters:", theta0.size, " rank:", int(space.rank))

D.params(jnp.sqrt(jnp.diag(solution.covariance())))

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(x, y, "o", color="#888888", markersize=3, label="data")
axes.plot(x, jax.vmap(D(theta0))(x), color="#E69F00", linestyle="dashed", label="start")
axes.plot(x, jax.vmap(solution.function)(x), color="#0072B2", label="fit")
axes.set(xlabel="x")
axes.legend()
axes.grid(alpha=0.25)

# %% [markdown]
# ## A network, with a shape that is known beforehand
#
# Networks of equinox come in as they are (those of flax by their `apply`, see
# [fit_flax.py](../../examples/fit_flax.py)). To impose what you know, wrap the function: an even one is symmetric in
# x, one that must vanish at 0 has a factor x. Nothing else changes, since riesz only ever sees functions.

# %%
network = eqx.nn.MLP("scalar", "scalar", width_size=8, depth=1, activation=jnp.tanh, key=jax.random.key(0))
free, start = riesz.parametrise(network)
even = lambda theta: lambda x: free(theta)(x) + free(theta)(-x)

t = jnp.linspace(0, 2, 40)  # data on one side alone
measured = riesz.points(t, data=jnp.cos(3 * t) * jnp.exp(-t))
fits = {
    "free": riesz.minimise(riesz.least_squares(measured), free, start, max_steps=200),
    "even": riesz.minimise(riesz.least_squares(measured), even, start, max_steps=200),
}
for name, fit in fits.items():
    print(name, fit)

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
wide = jnp.linspace(-2, 2, 201)
for (name, fit), colour, line in zip(fits.items(), ("#D55E00", "#0072B2"), ("dashed", "solid"), strict=True):
    axes.plot(wide, jax.vmap(fit.function)(wide), color=colour, linestyle=line, label=name)
axes.plot(t, measured.data, "o", color="#888888", markersize=3, label="data")
axes.set(xlabel="x", ylim=(-2, 2))
axes.legend()
axes.grid(alpha=0.25)

# %% [markdown]
# Both pass through the data; left of it only the one that knows the symmetry says anything. A fit is to be believed
# where data or the model's own shape support it, and nowhere else.
#
# Wrappers that are there already, for boundaries, periods and densities, are on the page about
# [models](../models.md); how to write operators, losses and methods is on [how to add them](../extending.md).
