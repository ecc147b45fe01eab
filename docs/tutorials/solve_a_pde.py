# %% [markdown]
# # Solve a PDE
#
# A network that satisfies a differential equation, first on an interval and then on a square; how to see whether the
# answer is right when nobody knows the solution.

# %%
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import riesz

# %% [markdown]
# ## An equation is an operator, a right-hand side and points
#
# We look for $u$ on $[0, 1]$ with $-\varepsilon u'' + u' = 1$ and $u(0) = u(1) = 0$. An operator takes a *function*
# and returns a function, so that the equation is written as it is spoken. The model vanishes at both ends by
# construction.

# %%
slope = riesz.derivative
epsilon = 0.1
A = lambda v: lambda x: -epsilon * slope(slope(v))(x) + slope(v)(x)

network, theta0 = riesz.mlp(jax.random.key(0), (1, 5, 5, 1))
D = lambda theta: lambda x: x * (1 - x) * network(theta)(x)

loss = riesz.residual(A, 1.0, riesz.grid(0.0, 1.0, 400))
solution = riesz.minimise(loss, D, theta0)
print(solution.summary())

# %% [markdown]
# The loss is half the mean square of the residual $-\varepsilon u'' + u' - 1$ over the 400 points, and it has fallen
# to rounding.

# %% [markdown]
# ## What to believe
#
# A small loss says that the equation holds *at the points*. Two questions remain: does it hold between them, and how
# far is $u$ from the solution? The first is answered by looking at the residual elsewhere; the points of a Gauss rule
# will do. The second needs the equation: here the solution is known, $x - (e^{x/\varepsilon} - 1)/(e^{1/\varepsilon}
# - 1)$.

# %%
elsewhere = riesz.residual(A, 1.0, riesz.gauss_legendre(0.0, 1.0, 150))
print(f"loss at the points it was trained on: {float(solution.loss):.1e}")
print(f"loss at others:                       {float(elsewhere(solution.function)):.1e}")

x = jnp.linspace(0, 1, 301)
exact = x - jnp.expm1(x / epsilon) / jnp.expm1(1 / epsilon)
found = jax.vmap(solution.function)(x)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
left.plot(x, exact, color="black", linewidth=3, alpha=0.3, label="exact")
left.plot(x, found, color="#0072B2", linestyle="dashed", label="network")
left.set(xlabel="x", title="the solution")
left.legend()
right.semilogy(x, np.maximum(np.abs(found - exact), 1e-17), color="#D55E00")
right.set(xlabel="x", title="its error")
right.grid(alpha=0.25)

# %% [markdown]
# ## A square, and a boundary that is a term of the loss
#
# Poisson's equation $-\Delta u = f$ on $[0, 1]^2$ with $u = 0$ on the sides. Losses add up, each with its own points:
# the equation on a Gauss rule inside, the boundary values on the sides. `metrics` are recorded at every step; here it
# is the relative error against the known solution $\sin \pi x \, \sin \pi y$.

# %%
low, high = (0.0, 0.0), (1.0, 1.0)
u = lambda x: jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
inside = riesz.residual(riesz.laplacian, lambda x: -2 * jnp.pi**2 * u(x), riesz.gauss_legendre(low, high, 16))
sides = riesz.residual(riesz.identity, 0.0, riesz.boundary(low, high, 16))

points = jnp.stack(jnp.meshgrid(jnp.linspace(0, 1, 41), jnp.linspace(0, 1, 41)), axis=-1).reshape(-1, 2)
values = jax.vmap(u)(points)


def error(theta):
    return jnp.linalg.norm(jax.vmap(D(theta))(points) - values) / jnp.linalg.norm(values)


D, theta0 = riesz.mlp(jax.random.key(1), (2, 16, 1))
square = riesz.minimise(inside + sides, D, theta0, riesz.auto(long=False), max_steps=100, metrics={"error": error})
print(square, f"relative error: {float(error(square.theta)):.1e}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
where = np.log10(np.abs(np.asarray(jax.vmap(square.function)(points) - values)) + 1e-17).reshape(41, 41)
image = left.imshow(where, origin="lower", extent=(0, 1, 0, 1), cmap="cividis")
figure.colorbar(image, ax=left)
left.set(title="log10 of the error", xlabel="x", ylabel="y")
right.semilogy(square.history["loss"], color="#0072B2", label="loss")
right.semilogy(square.history["error"], color="#D55E00", linestyle="dashed", label="relative error")
right.set(xlabel="steps")
right.legend()
right.grid(alpha=0.25)

# %% [markdown]
# `auto(long=False)` makes quick steps alone, which is right for a run of a hundred steps. Without it `auto` would go
# on to long steps, and to rounding ([how auto works](../auto.md)).
#
# The loss need not fall with every step: `auto` may climb out of a narrow valley, and `solution.theta` is the best of
# all steps.
#
# In short:
#
# - Look at the residual at points that the run has not seen. Where it is much larger, take more points.
# - Solve from a second start. Two answers that differ are no answer.
# - Terms of a loss compete. Where boundary values matter more, weigh them, `inside + 100 * sides`, or build them into
#   the model as above ([models](../models.md)).
#
# More equations are in the [gallery](../gallery.md), and all operators on [their page](../operators.md).
