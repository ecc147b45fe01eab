"""Operators: functions of functions, built from nested JVPs so that rows stay separable in the points."""

from typing import Any

import jax
import jax.numpy as jnp

from ._types import Function


def identity(v: Function) -> Function:
    """The operator that leaves v as it is: (A v)(x) = v(x)."""
    return v


def derivative(v: Function) -> Function:
    """The derivative of a function of one variable: (A v)(x) = v'(x).

    ```python
    second = riesz.derivative(riesz.derivative(jnp.sin))
    second(0.3)  # -sin(0.3)
    ```
    """

    def slope(x: Any) -> Any:
        x = jnp.asarray(x)
        if x.size != 1:
            raise ValueError(f"derivative takes scalar points, but a point has shape {x.shape}; use gradient.")
        return jax.jvp(v, (x,), (jnp.ones_like(x),))[1]

    return slope


def gradient(v: Function) -> Function:
    """The gradient of a function of several variables: (A v)(x) = grad v(x), the points' axis last."""
    return jax.jacfwd(v)


def laplacian(v: Function) -> Function:
    """The Laplacian: (A v)(x) = sum_i d^2 v / dx_i^2 (x), by one nested JVP per dimension.

    ```python
    poisson = riesz.residual(riesz.laplacian, lambda x: -x[0] * x[1], over)
    ```
    """

    def trace(x: Any) -> Any:
        x = jnp.asarray(x)

        def second(direction: jax.Array) -> Any:
            along = lambda x: jax.jvp(v, (x,), (direction.reshape(x.shape),))[1]
            return jax.jvp(along, (x,), (direction.reshape(x.shape),))[1]

        return jnp.sum(jax.vmap(second)(jnp.eye(x.size, dtype=x.dtype)), axis=0)

    return trace
