"""Stages: a model plus a small second one, which is fitted to what the first has left."""

from typing import Any

import jax

from ... import _check
from ..._types import Function, Parametrisation, Vector
from ._around import AbstractAround


class Staged(AbstractAround):
    """The parametrisation of the functions v(x) + scale D(theta)(x), where v is known."""

    first: Parametrisation
    theta: Vector
    """The parameters of v, which stay as they are."""
    D: Parametrisation
    scale: jax.Array

    def __call__(self, theta: Vector) -> Function:
        v, w = self.first(self.theta), self.D(theta)

        def corrected(x: Any) -> jax.Array:
            known, correction = v(x), w(x)
            if known.shape != correction.shape:
                raise _check.Mismatch(
                    f"network must match D, but a point gives shapes {correction.shape} and {known.shape}."
                )
            return known + self.scale.astype(known.dtype) * correction

        return corrected


def stage(
    D: Parametrisation, theta: Vector, network: tuple[Parametrisation, Vector], scale: Any
) -> tuple[Staged, Vector]:
    r"""A second network for what a first one has left, $x \mapsto v(x) + s\, N(\theta)(x)$ with v fixed.

    The unknowns are the parameters of the network N; v, the first stage, stays as it is. A stage is itself a
    parametrisation, so that a third one can follow.

    **Arguments:**

    - `D`, `theta`: the first stage v = D(theta), such as `solution.theta` of its run.
    - `network`: N with its start, a pair such as `riesz.sine_mlp` returns; behind `riesz.hard_boundary` where D is.
    - `scale`: s, about the size of the error that is left, such as the root mean square of a fit's residuals.

    **Returns:** `(D, theta0)`, with theta0 that of the network.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 10, 1))
    solution = riesz.minimise(loss, D, theta0)
    network = riesz.sine_mlp(jax.random.key(1), (1, 10, 1), frequency=20.0)
    D, theta0 = riesz.stage(D, solution.theta, network, scale=1e-3)
    ```
    """
    _check.function("D", D)
    theta = _check.floating("theta", theta)
    if theta.ndim != 1 or theta.size == 0:
        raise ValueError(f"theta must have one axis of parameters, but its shape is {theta.shape}.")
    _check.finite_rows("theta", theta)
    if not isinstance(network, tuple) or len(network) != 2:
        raise TypeError(
            f"network must be a pair of a parametrisation and its start, as riesz.mlp returns it, "
            f"not {_check.shown(network)}."
        )
    second, theta0 = network
    _check.function("network[0]", second)
    scale = _check.leaf(_check.scalar("scale", scale, above=0.0))
    return Staged(first=D, theta=theta, D=second, scale=scale), _check.floating("network[1]", theta0)
