"""Handwritten digits: ten classes, by softmax and its Gauss-Newton metric.

The 1797 images of 8 x 8 pixels that come with scikit-learn; every fifth is held out. The model is a small convolution,
written as a plain function: eight filters of 3 x 3 pixels, averaged over 2 x 2 places, and a linear map to ten logits.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _gallery import main
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import riesz

FILTERS = 8


def logits(params, image):
    """One number a class."""
    patches = jnp.stack([image[i : i + 6, j : j + 6] for i in range(3) for j in range(3)], axis=-1)
    seen = jnp.tanh(patches @ params["filters"] + params["biases"][None, None])
    pooled = seen.reshape(3, 2, 3, 2, FILTERS).mean(axis=(1, 3))
    return pooled.reshape(-1) @ params["weights"] + params["level"]


def problem():
    """The loss, the model and its start; which images are right, of those trained on and of those held out."""
    images, labels = (jnp.asarray(part) for part in load_digits(return_X_y=True))
    images = images.reshape(-1, 8, 8) / 16.0
    held = np.arange(len(labels)) % 5 == 0
    first, second = jax.random.split(jax.random.key(0))
    params = {
        "filters": jax.random.normal(first, (9, FILTERS)), "biases": jnp.zeros(FILTERS),
        "weights": 0.1 * jax.random.normal(second, (9 * FILTERS, 10)), "level": jnp.zeros(10),
    }  # fmt: skip
    D, theta0 = riesz.parametrise(logits, params)
    loss = riesz.softmax(riesz.points(images[~held], data=labels[~held]))
    correct = lambda which: lambda theta: jnp.argmax(jax.vmap(D(theta))(images[which]), axis=-1) == labels[which]
    return loss, D, theta0, {"trained on": correct(~held), "held out": correct(held)}, (images[held], labels[held])


def solve(short=False):
    """The trained model, and which held-out images it misreads."""
    loss, D, theta0, correct, (images, labels) = problem()
    # The shift is the trust in each image: smaller ones learn faster, until steps overshoot. At 1e-2 the Gram matrix is
    # as good as a QR factorisation of the 14,370 rows, and much faster.
    method = riesz.ngd(
        W=riesz.GaussNewton(), filter=riesz.Shift(1e-2), step_size=riesz.Constant(1.0), factorisation=riesz.Gram()
    )
    shares = {name: lambda theta, right=right: jnp.mean(right(theta)) for name, right in correct.items()}
    solution = riesz.minimise(loss, D, theta0, method, max_steps=2 if short else 30, metrics=shares)
    wrong = np.flatnonzero(~np.asarray(correct["held out"](solution.theta)))
    read = np.asarray(jnp.argmax(jax.vmap(solution.function)(images), axis=-1))
    return {
        "held-out images read correctly, per cent": 100 * float(shares["held out"](solution.theta)),
        "steps": solution.steps,
        "loss": np.asarray(solution.history["loss"]),
        **{name: np.asarray(solution.history[name]) for name in shares},
        "misread": [(np.asarray(images[i]), int(labels[i]), int(read[i])) for i in wrong[:6]],
    }


def draw(found):
    """The way there, and what is still misread."""
    canvas = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = canvas.subfigures(1, 3)
    axes = left.subplots()
    axes.semilogy(found["loss"], color="#0072B2")
    axes.set(title="loss", xlabel="steps")
    axes.grid(alpha=0.25)
    axes = middle.subplots()
    for name, colour in (("trained on", "#999999"), ("held out", "#D55E00")):
        misread = 100 * (1 - found[name])
        axes.semilogy(np.where(misread > 0, misread, np.nan), color=colour, label=name)  # none is no point of the plot
    axes.set(title="images misread", xlabel="steps", ylabel="per cent")
    axes.grid(alpha=0.25)
    axes.legend()
    right.suptitle("held-out images that are misread")
    for axes in right.subplots(2, 3).flat:
        axes.set_axis_off()
    for axes, (image, label, read) in zip(right.axes, found["misread"], strict=False):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(f"a {label}, read as {read}", fontsize=8)
    return canvas


if __name__ == "__main__":
    main(__file__, solve, draw)
