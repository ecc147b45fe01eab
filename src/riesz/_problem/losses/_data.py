"""Losses against data: regression of values, or of values and gradients, and classification of logits by labels."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from ... import _check
from ..integral import Integral
from ..measures import AbstractMeasure, Points
from ..operators import value_and_gradient


def _matched(loss: str, z: jax.Array, data: Any) -> tuple[jax.Array, jax.Array]:
    """The value and the data in one shape; (1,) and () are equal, any other difference is an error."""
    data = jnp.asarray(_present(loss, data), z.dtype)
    if z.shape == data.shape:
        return z, data
    if z.size == data.size == 1:
        return z.reshape(()), data.reshape(())
    raise _check.Mismatch(f"data must match the model in {loss}: values are {z.shape}, data is {data.shape} per point.")


def _present(loss: str, data: Any) -> Any:
    """The data, returned unchanged; their absence is an error."""
    if data is None:
        raise _check.Mismatch(f"over must carry data for {loss}, such as riesz.points(x, data=y).")
    return data


def _known(over: AbstractMeasure) -> np.ndarray | None:
    """All the data that a measure can ever give; None where they cannot be seen before the run."""
    fixed = getattr(over, "points", getattr(over, "pool", over))  # of mini-batches, of Christoffel points
    if not isinstance(fixed, Points) or fixed.data is None or _check.is_traced(fixed.data):
        return None
    return np.asarray(fixed.data)


def half_squared_error(z: jax.Array, data: Any) -> jax.Array:
    """The density |z - y|^2 / 2."""
    z, data = _matched("least_squares", z, data)
    return 0.5 * jnp.sum((z - data) ** 2)


def least_squares(over: AbstractMeasure) -> Integral:
    r"""Least-squares regression, $\frac12 \int |v(x) - y|^2 \, d\mu$.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values.

    ```python
    loss = riesz.least_squares(riesz.points(x, data=y))
    ```
    """
    return Integral(half_squared_error, over)


def _huber(delta: jax.Array, z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("huber", z, data)
    delta = jnp.asarray(delta, z.dtype)
    r, size = z - data, jnp.abs(z - data)
    return jnp.sum(jnp.where(size <= delta, 0.5 * r**2, delta * (size - 0.5 * delta)))


def huber(over: AbstractMeasure, delta: Any = 1.0) -> Integral:
    r"""Robust regression: squares of small errors, moduli of large ones, $\int h(v(x) - y) \, d\mu$.

    $$h(r) = \tfrac12 r^2 \text{ where } |r| \le \delta, \quad \delta\, (|r| - \tfrac12 \delta) \text{ elsewhere.}$$

    Its Hessian is zero at points with large errors: these add nothing to the Gauss-Newton metric, and where all errors
    are large the metric is zero. Start from a least-squares fit, or take `pseudo_huber`, or `W=riesz.L2()`.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values; vectors are summed entry by entry.
    - `delta`: the error beyond which the loss grows linearly.

    ```python
    loss = riesz.huber(riesz.points(x, data=y), delta=0.1)
    ```
    """
    return Integral(Partial(_huber, _check.leaf(_check.scalar("delta", delta, above=0.0))), over)


def _pseudo_huber(delta: jax.Array, z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("pseudo_huber", z, data)
    r = z - data
    # The same number without the difference, which loses the digits of small errors.
    return jnp.sum(r**2 / (1 + jnp.sqrt(1 + (r / jnp.asarray(delta, z.dtype)) ** 2)))


def pseudo_huber(over: AbstractMeasure, delta: Any = 1.0) -> Integral:
    r"""Robust regression, smooth, $\int \delta^2 \big(\sqrt{1 + (v(x) - y)^2/\delta^2} - 1\big) \, d\mu$.

    **Arguments:**

    - `over`: a measure with data y, of the shape of the model's values; vectors are summed entry by entry.
    - `delta`: the error around which the loss turns from a square into a modulus.

    ```python
    loss = riesz.pseudo_huber(riesz.points(x, data=y), delta=0.1)
    ```
    """
    return Integral(Partial(_pseudo_huber, _check.leaf(_check.scalar("delta", delta, above=0.0))), over)


def _poisson(z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("poisson", z, data)
    return jnp.sum(jnp.exp(z) - data * z)


def poisson(over: AbstractMeasure) -> Integral:
    r"""Poisson regression with the logarithmic link, $\int e^{v} - y v \, d\mu$ with counts y.

    The model is the logarithm of the mean: the counts at x are Poisson with mean exp(v(x)).

    **Arguments:**

    - `over`: a measure whose data are counts, or any numbers from 0 on.

    ```python
    loss = riesz.poisson(riesz.points(x, data=counts))
    ```
    """
    counts = _known(over)
    if counts is not None and (counts < 0).any():
        raise ValueError(f"data must be counts from 0 on for poisson, but it holds {counts.min()}.")
    return Integral(_poisson, over)


def _sobolev(z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("sobolev", _row(z), _row(_present("sobolev", data)))
    return 0.5 * jnp.sum((z - data) ** 2)


def _row(a: jax.Array) -> jax.Array:
    """One value with its gradient, without the axis of length 1 that a model with one value may put in front."""
    return a[0] if a.ndim == 2 and a.shape[0] == 1 else a


def sobolev(over: AbstractMeasure) -> Integral:
    r"""Regression of values and gradients, $\frac12 \int |v(x) - y|^2 + |\nabla v(x) - g|^2 \, d\mu$.

    **Arguments:**

    - `over`: a measure whose data hold (y, g) at each point, the value first: 1 + n entries for points of n
      coordinates, and shape (p, 1 + n) where the model has values in R^p.

    ```python
    loss = riesz.sobolev(riesz.points(x, data=jax.vmap(riesz.value_and_gradient(u))(x)))
    ```
    """
    return Integral(_sobolev, over, value_and_gradient)


def _logistic(z: jax.Array, data: Any) -> jax.Array:
    z, data = _matched("logistic", z, data)
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
    labels = _known(over)
    low, high = (0, 1) if labels is None else (labels.min(), labels.max())
    if low < 0 or high > 1:
        raise ValueError(f"data must be labels in {{0, 1}} for logistic, but it holds {low} to {high}.")
    return Integral(_logistic, over)


class Softmax(eqx.Module):
    """The density log sum_k exp(z_k) - z_y of logits z and a label y."""

    classes: int = eqx.field(static=True)
    """The fewest classes that the labels need."""

    def __call__(self, z: jax.Array, data: Any) -> jax.Array:
        label = jnp.asarray(_present("softmax", data))
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
    labels, classes = _known(over), 0
    if labels is not None:
        if not np.issubdtype(labels.dtype, np.integer):
            raise TypeError(f"data must be whole-number labels for softmax, but its dtype is {labels.dtype}.")
        if labels.min() < 0:
            raise ValueError(f"data must be labels from 0 on for softmax, but it holds {labels.min()}.")
        classes = int(labels.max()) + 1
    return Integral(Softmax(classes), over)
