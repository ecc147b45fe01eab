# %% [markdown]
# # Classify
#
# Two classes that overlap: a network of 41 parameters learns the probability of each. What it gets right, how sure it
# may be, and what happens where classes do not overlap.

# %%
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import riesz


# %%
def draw(key, n):
    """Points in the plane, and labels: 1 is likely near a ring."""
    first, second = jax.random.split(key)
    x = 1.2 * jax.random.normal(first, (n, 2))
    likely = jax.nn.sigmoid(6 * (1 - 2 * jnp.abs(jnp.linalg.norm(x, axis=1) - 1.2)))
    return x, jax.random.uniform(second, (n,)) < likely, likely


x, labels, _ = draw(jax.random.key(0), 1000)
held, held_labels, _ = draw(jax.random.key(2), 1000)
new, new_labels, new_likely = draw(jax.random.key(1), 4000)

D, theta0 = riesz.mlp(jax.random.key(3), (2, 10, 1))
loss = riesz.logistic(riesz.points(x, data=labels))
held_loss = riesz.logistic(riesz.points(held, data=held_labels))

# %% [markdown]
# The loss is the cross-entropy, and `D(theta)` is the logit. `validation` is a loss on other points, measured after
# every step: the run ends when it has not improved for `patience` steps, and `solution.theta` is where it was lowest.
# The points `new` play no part in any of this; they are for judging.

# %%
solution = riesz.minimise(loss, D, theta0, riesz.auto(long=False), validation=held_loss, patience=20)
probability = lambda points: jax.nn.sigmoid(jax.vmap(solution.function)(points))
right = jnp.mean((probability(new) > 0.5) == new_labels)
best = jnp.mean((new_likely > 0.5) == new_labels)
print(solution)
print(f"labels of points not seen, read correctly: {100 * right:.1f} %")
print(f"the same with the true probabilities:      {100 * best:.1f} %")

# %%
figure, (left, middle, last) = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
side = jnp.linspace(-3, 3, 81)
plane = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2)
image = left.imshow(
    probability(plane).reshape(81, 81), origin="lower", extent=(-3, 3, -3, 3), cmap="cividis", vmin=0, vmax=1
)
figure.colorbar(image, ax=left)
left.set(title="probability of class 1")

middle.semilogy(solution.history["loss"], color="#0072B2", label="trained on")
middle.semilogy(solution.history["validation"], color="#D55E00", linestyle="dashed", label="held out")
middle.set(title="loss", xlabel="steps")
middle.legend()
middle.grid(alpha=0.25)

said = np.asarray(probability(new))
part = np.digitize(said, np.linspace(0, 1, 9)[1:-1])
groups = [part == k for k in range(8) if (part == k).sum() > 20]
shares = [(said[group].mean(), np.asarray(new_labels)[group].mean()) for group in groups]
last.plot([0, 1], [0, 1], color="#888888", linestyle="dotted")
last.plot(*np.transpose(shares), "o-", color="#0072B2")
last.set(title="what it says, and how it is", xlabel="probability said", ylabel="share of class 1")
last.grid(alpha=0.25)

# %% [markdown]
# ## What to believe
#
# - **The share on points not seen**, beside the best there can be. On points it was trained on, every model is too
#   good.
# - **The loss on points held out**: where it rises while the other falls, the model learns the noise. Stop there, or
#   take a smaller model or more points.
# - **The probabilities**, if the points of the right-hand picture lie on the diagonal: of those to which the model
#   gives 70 %, about 70 % belong to class 1. A model can read most labels correctly and still be far too sure.
#
# ## Where classes can be separated
#
# There the loss has no minimiser: larger and larger weights bring it ever closer to zero. Look at the size of the
# parameters.

# %%
apart = riesz.logistic(riesz.points(x, data=x[:, 0] + x[:, 1] > 0))
linear, start = riesz.parametrise(lambda p, x: p["weights"] @ x + p["level"], {"weights": jnp.zeros(2), "level": 0.0})
separated = riesz.minimise(apart, linear, start)
ridged = riesz.minimise(apart, linear, start, ridge=1e-3)
for name, run in {"without a ridge": separated, "with a ridge": ridged}.items():
    print(f"{name}: {run}, weights {run.params['weights']}")

# %% [markdown]
# Without a ridge the run ends when the loss is next to nothing; the weights only say how far they got by then, and
# every probability is 0 or 1. The line between the classes is fine; the probabilities are not to be believed. A run
# whose parameters grow like this may also end as `UNBOUNDED`, with a sentence that says what to do ([all
# results](../reliability.md)). `ridge` adds $10^{-3} |\theta - \theta_0|^2 / 2$ to the loss, which then has a
# minimiser.
#
# More than two classes are the same with `riesz.softmax` and a model with one output for each class; the example
# [digits.py](../../examples/digits.py) reads handwritten digits. Other losses are on [their page](../losses.md).
