"""Classification: cross-entropies of logits against labels."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..integral import Integral
from ..measures import AbstractMeasure
from ._data import known, matched, present


def _logistic(z: jax.Array, data: Any) -> jax.Array:
    z, data = matched("logistic", z, data)
    # log(1 + e^z) - y z without the difference, which would lose what is left of a label that is read with confidence.
    return jnp.sum(data * jax.nn.softplus(-z) + (1 - data) * jax.nn.softplus(z))


def logistic(over: AbstractMeasure) -> Integral:
    r"""Binary cross-entropy on logits, $\int \log(1 + e^{v}) - y v \, d\mu$ with labels y in {0, 1}.

    **Arguments:**

    - `over`: a measure whose data are labels in {0, 1}, or probabilities between them.

    ```python
    loss = riesz.logistic(riesz.points(x, data=labels))
    ```
    """
    labels = known(over)
    low, high = (0, 1) if labels is None else (labels.min(), labels.max())
    if low < 0 or high > 1:
        raise ValueError(f"data must be labels in {{0, 1}} for logistic, but it holds {low} to {high}.")
    return Integral(_logistic, over)


class Softmax(eqx.Module):
    """The density log sum_k exp(z_k) - z_y of logits z and a label y."""

    classes: int = eqx.field(static=True)
    """The fewest classes that the labels need."""

    def __call__(self, z: jax.Array, data: Any) -> jax.Array:
        label = jnp.asarray(present("softmax", data))
        if label.size != 1 or not jnp.issubdtype(label.dtype, jnp.integer):
            raise _check.Mismatch(
                "data must be one whole-number label per point for softmax, "
                f"but a point has shape {label.shape} and dtype {label.dtype}."
            )
        if z.ndim != 1 or z.size < max(self.classes, 2):
            raise _check.Mismatch(
                f"D must give a vector of one logit per class for softmax, at least {max(self.classes, 2)}, "
                f"but values are {z.shape}."
            )
        # A label that nobody could check gives NaN where it is out of range, and not the nearest class.
        right = label.reshape(())
        others = jnp.where(jnp.arange(z.size) == right, -jnp.inf, z - jnp.take(z, right, mode="fill"))
        # log(1 + sum of the others), which keeps its digits where the label is read with confidence.
        return jax.nn.softplus(jax.nn.logsumexp(others))


def softmax(over: AbstractMeasure) -> Integral:
    r"""Cross-entropy of several classes on logits, $\int \log \sum_k e^{v_k(x)} - v_y(x) \, d\mu$.

    The model has values in R^K, one logit per class. Adding one number to all of them changes nothing, so the Hessian
    is singular in that direction; every filter allows for that.

    **Arguments:**

    - `over`: a measure whose data are labels 0, 1, ..., K - 1, whole numbers.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 10, 3))
    loss = riesz.softmax(riesz.points(x, data=labels))
    ```
    """
    labels, classes = known(over), 0
    if labels is not None:
        if not np.issubdtype(labels.dtype, np.integer):
            raise TypeError(f"data must be whole-number labels for softmax, but its dtype is {labels.dtype}.")
        if labels.min() < 0:
            raise ValueError(f"data must be labels from 0 on for softmax, but it holds {labels.min()}.")
        classes = int(labels.max()) + 1
    return Integral(Softmax(classes), over)
