# %% [markdown]
# # Fit data
#
# A curve through measurements that have error bars: its parameters with their errors, bounds, outliers, and a band
# around a curve for which there is no formula.

# %%
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import riesz

# %% [markdown]
# ## A formula
#
# A decay, measured with errors that grow with time. `riesz.curve_fit` is called as SciPy's is: a function of x and
# the parameters, the data, where to start, and the standard deviation of each value. `absolute_sigma` says that these
# are known in the units of the data, and not only relative to each other.

# %%
x = jnp.linspace(0, 4, 40)
sigma = 0.03 + 0.03 * x
decay = lambda x, height, rate, level: height * jnp.exp(-rate * x) + level
y = decay(x, 2.5, 1.3, 0.5) + sigma * jax.random.normal(jax.random.key(1), x.shape)

best, covariance = riesz.curve_fit(decay, x, y, p0=(1.0, 1.0, 0.0), sigma=sigma, absolute_sigma=True)
for name, value, error in zip(("height", "rate", "level"), best, np.sqrt(np.diag(covariance)), strict=True):
    print(f"{name:6} = {value:.3f} +- {error:.3f}")

# %% [markdown]
# ## What to believe
#
# If the model is right and the error bars are honest, the squared residuals, in units of their error bars, add up to
# about the number of data minus that of parameters, with a deviation of the root of twice this number. Much more says
# that the model is wrong or the bars are too short; much less, that they are too long.

# %%
residuals = (y - decay(x, *best)) / sigma
free = x.size - best.size
print(f"chi squared: {float(jnp.sum(residuals**2)):.1f}; expected: {free} +- {np.sqrt(2 * free):.1f}")

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4), sharex=True, height_ratios=(3, 1), layout="constrained")
above.errorbar(x, y, sigma, fmt="o", color="#888888", markersize=3, label="data")
above.plot(x, decay(x, *best), color="#0072B2", label="fit")
above.legend()
above.grid(alpha=0.25)
below.axhline(0, color="black", linewidth=0.8)
below.plot(x, residuals, "o", color="#D55E00", markersize=3)
below.set(xlabel="x", ylabel="residual / bar")
below.grid(alpha=0.25)

# %% [markdown]
# The residuals should look like noise: no waves, no trend, few beyond two bars.
#
# ## Outliers and bounds
#
# `riesz.fit` takes residuals of any kind, and parameters of any structure. Here five values are far off. Least squares
# follows them. Robust losses do so less, and not all alike: beyond `scale`, `soft_l1` still grows in proportion to a
# residual, `cauchy` only with its logarithm. `bounds` keep the parameters positive. The truth is 2.5, 1.3 and 0.5.

# %%
spoiled = y.at[::8].add(1.5)
residual = lambda p, x, y: p["height"] * jnp.exp(-p["rate"] * x) + p["level"] - y
start = {"height": 1.0, "rate": 1.0, "level": 0.1}
fits = {
    loss: riesz.fit(residual, start, (x, spoiled), sigma=sigma, loss=loss, scale=1.0, bounds=(0.0, None))
    for loss in ("linear", "soft_l1", "cauchy")
}
for loss, solution in fits.items():
    print(loss, {name: round(float(value), 3) for name, value in solution.params.items()})

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.plot(x, spoiled, "o", color="#888888", markersize=3, label="data")
styles = {"linear": ("#D55E00", "dashed"), "soft_l1": ("#009E73", "dashdot"), "cauchy": ("#0072B2", "solid")}
for loss, (colour, line) in styles.items():
    axes.plot(x, residual(fits[loss].params, x, 0.0), color=colour, linestyle=line, label=loss)
axes.set(xlabel="x")
axes.legend()
axes.grid(alpha=0.25)

# %% [markdown]
# ## No formula: a network and its band
#
# Where no formula is known, a small network can stand for it. `solution.predict` gives its values with the standard
# deviations that the noise leaves, estimated from the residuals.

# %%
t = jnp.linspace(-2, 2, 80)
wave = jnp.sin(3 * t) * jnp.exp(-(t**2) / 4)
noisy = wave + 0.15 * jax.random.normal(jax.random.key(1), t.shape)
D, theta0 = riesz.mlp(jax.random.key(0), (1, 5, 1))
network = riesz.minimise(riesz.least_squares(riesz.points(t, data=noisy)), D, theta0, tolerance={"loss": 1e-6})
values, deviations = network.predict(t, std=True)
inside = np.abs(values - wave) <= 2 * deviations
print(network)
print(f"share of the true curve inside the band: {np.mean(inside):.2f}")

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.fill_between(t, values - 2 * deviations, values + 2 * deviations, color="#0072B2", alpha=0.2, linewidth=0)
axes.plot(t, noisy, "o", color="#888888", markersize=3, label="data")
axes.plot(t, wave, color="black", linestyle="dashed", label="truth")
axes.plot(t, values, color="#0072B2", label="network, two deviations")
axes.set(xlabel="x")
axes.legend()
axes.grid(alpha=0.25)

# %% [markdown]
# Look at how the run ended: where it says `UNBOUNDED`, some weights run to infinity while the loss hardly falls, because the
# data do not decide them. The band rests on the parameters as they are then; with `ridge=` they would stay finite.
#
# The band says what *noise* does to this network. It does not know that another network, or a formula, might have
# been the right one; and outside of the data nothing holds it.
#
# How much the errors of several parameters go together, a covariance that is not diagonal, and data in more
# dimensions: see `riesz.fit`, `riesz.curve_fit` and `Solution.covariance` in the [reference](../api.md).
