# %% [markdown]
# # From Adam and L-BFGS
#
# You have a network, a loss and a training loop in JAX, with Adam or L-BFGS of optax. This page fits the same network
# to the same data both ways, and says what changes.

# %%
import time

import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import matplotlib.pyplot as plt
import optax

import riesz

x = jnp.linspace(-1, 1, 200)
y = jnp.sin(6 * x) * jnp.exp(-x)
network = eqx.nn.MLP("scalar", "scalar", width_size=12, depth=1, activation=jnp.tanh, key=jax.random.key(0))

# %% [markdown]
# ## Before
#
# A gradient, an update, and a learning rate that somebody has to choose.

# %%
params, static = eqx.partition(network, eqx.is_array)


def half_mean_square(params):
    return 0.5 * jnp.mean((jax.vmap(eqx.combine(params, static))(x) - y) ** 2)


def train(optimiser, steps):
    """The losses and seconds of a run, compilation aside."""

    def step(carry, _):
        params, state = carry
        value, gradient = jax.value_and_grad(half_mean_square)(params)
        update, state = optimiser.update(gradient, state, params, value=value, grad=gradient, value_fn=half_mean_square)
        return (optax.apply_updates(params, update), state), value

    run = jax.jit(lambda params: jax.lax.scan(step, (params, optimiser.init(params)), length=steps)[1])
    compiled = run.lower(params).compile()
    began = time.perf_counter()
    losses = jax.block_until_ready(compiled(params))
    return losses, jnp.linspace(0, time.perf_counter() - began, steps)


adam = train(optax.with_extra_args_support(optax.adam(1e-2)), 20_000)
lbfgs = train(optax.lbfgs(), 2_000)

# %% [markdown]
# ## After
#
# riesz needs to see the *function* and the points, not only the number that comes out: from the rows of derivatives
# at the points it knows how the function moves when parameters do, and takes the step that is best for the function.
# So the loss is written as an integral over points, and there is no learning rate and no loop.

# %%
D, theta0 = riesz.parametrise(network)
loss = riesz.least_squares(riesz.points(x, data=y))
solution = riesz.minimise(loss, D, theta0, riesz.auto(long=False), max_steps=150)
print(solution)
print("largest error:", float(jnp.max(jnp.abs(jax.vmap(solution.function)(x) - y))))  # again an equinox network

# %%
runs = {
    "Adam": (*adam, "#888888", "solid"),
    "L-BFGS": (*lbfgs, "#000000", "dotted"),
    "riesz.auto": (solution.history["loss"], solution.history["seconds"], "#0072B2", "solid"),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
for name, (losses, seconds, colour, line) in runs.items():
    left.loglog(jnp.arange(1, len(losses) + 1), losses, color=colour, linestyle=line, label=name)
    right.loglog(jnp.maximum(seconds, 1e-3), losses, color=colour, linestyle=line)
left.set(xlabel="steps", ylabel="loss")
right.set(xlabel="seconds, compilation aside")
left.legend()
left.grid(alpha=0.25)
right.grid(alpha=0.25)

# %% [markdown]
# ## What to believe
#
# A step of riesz costs more: it assembles one row per point and factorises them. It pays where you want digits, with
# up to some thousands of parameters or points (with both large, see [from a laptop to many hosts](../scale.md)). For
# a network with millions of parameters on a stream of images, where two digits are enough, stay with Adam.
#
# The loss of `auto` need not fall with every step: it may climb out of a narrow valley, and `solution.theta` is the
# best that was found. Curves of one start are an anecdote. [Timings](../timings.md) has medians of ten starts on the
# problems of the paper.
#
# | what you have | what it becomes |
# |---|---|
# | `optax.adam(1e-3)`, a schedule | nothing: `riesz.auto()` is the default; the other methods are listed on the [first page](../../README.md#the-methods) |
# | `loss_fn(params, x, y)` | a loss over points: `riesz.least_squares(riesz.points(x, data=y))`, or another [loss](../losses.md) |
# | `residual(params, ...)` that returns all residuals at once | `riesz.fit(residual, params, args)` ([fit data](fit_data.py)) |
# | `model.apply(params, x)` | `D, theta0 = riesz.parametrise(apply, params)`; `solution.params` is the pytree again |
# | batches | `riesz.minibatch(...)`, with a `key` ([batches](../batches.md)) |
# | weight decay, early stopping | `minimise(..., ridge=1e-4, validation=held_out, patience=20)` |
# | an optax loop that has to stay | `riesz.optax.natural` ([in the loops of other packages](../adapters.md)) |
# | the loop, `jit`, a progress bar, checkpoints | `riesz.minimise(..., checkpoint="run")` |
# | "has it converged?" | `solution.result` |
