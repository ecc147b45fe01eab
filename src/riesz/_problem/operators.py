"""Operators: functions of functions, so that z_j = (A v)(x_j) depends on no other point than x_j."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._types import Function, Operator
from .forward_laplacian import forward_laplacian
from .programs import has_loop


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
        x = jnp.asarray(_check.native(x))
        if x.size != 1:
            raise ValueError(f"derivative takes scalar points, but a point has shape {x.shape}; use gradient.")
        return jax.jvp(v, (x,), (jnp.ones_like(x),))[1]

    return slope


def jacobian(v: Function, x: jax.Array) -> Callable[..., Any]:
    """`jax.jacrev` or `jax.jacfwd`, whichever gives the Jacobian of v at x with fewer passes.

    It matters for the rows. Those of a gradient in forward mode take n^2 passes: each of its n entries is pulled back
    through all n directions, and n - 1 of these carry zeros. Those of a gradient in reverse mode take n.
    """
    program, values = jax.make_jaxpr(v, return_shape=True)(x)
    values = jax.tree.leaves(values)
    real = all(jnp.issubdtype(value.dtype, jnp.floating) for value in values)
    few = sum(value.size for value in values) < x.size
    return jax.jacrev if few and real and not has_loop(program.jaxpr) else jax.jacfwd


def gradient(v: Function) -> Function:
    r"""The gradient of a function of several variables: $(A v)(x) = \nabla v(x)$, the points' axis last.

    ```python
    riesz.gradient(lambda x: x[0] ** 2 * x[1])(jnp.array([3.0, 5.0]))  # [30, 9]
    ```
    """

    def slopes(x: Any) -> Any:
        x = _check.floating("x", x)
        return jacobian(v, x)(v)(x)

    return slopes


def value_and_gradient(v: Function) -> Function:
    r"""The value and the gradient side by side: $(A v)(x) = (v(x), \nabla v(x))$, in one vector.

    In n dimensions it has n + 1 entries; for a function with k values it has shape (k, n + 1). Energies and H1 norms
    are densities of this z.

    ```python
    square = lambda z: 0.5 * jnp.sum(z**2)
    H1 = riesz.InnerProduct(riesz.value_and_gradient, square)
    ```
    """

    def pair(x: Any) -> jax.Array:
        x = _check.floating("x", x)
        slopes, value = jacobian(v, x)(lambda x: (v(x),) * 2, has_aux=True)(x)
        value = jnp.asarray(value)
        return jnp.concatenate([value[..., None], slopes.reshape(*value.shape, x.size)], axis=-1)

    return pair


class Partial(eqx.Module):
    """The partial derivative along these coordinates, one after the other.

    Two of them with the same axes are equal, so that the second one compiles nothing.
    """

    axes: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, v: Function) -> Function:
        for axis in self.axes:
            v = self.along(axis, v)
        return v

    def along(self, axis: int, v: Function) -> Function:
        """The partial derivative of v along one coordinate."""

        def slope(x: Any) -> Any:
            x = _check.floating("x", x)
            if x.ndim > 1 or not -x.size <= axis < x.size:
                raise _check.Mismatch(
                    f"axes must name coordinates of the points, whose shape is {x.shape}, but one is {axis}."
                )
            direction = jnp.zeros(x.size, x.dtype).at[axis].set(1)
            return jax.jvp(v, (x,), (direction.reshape(x.shape),))[1]

        return slope


def partial(*axes: int) -> Operator:
    r"""A partial derivative, of any order: $(A v)(x) = \partial_{i_1} \cdots \partial_{i_r} v(x)$.

    **Arguments:**

    - `axes`: the coordinates to differentiate along, counted from 0; -1 is the last one.

    ```python
    mixed = riesz.partial(0, 1)  # d^2 / dx_0 dx_1
    mixed(lambda x: x[0] ** 2 * x[1])(jnp.array([3.0, 5.0]))  # 6
    ```
    """
    if not axes:
        raise ValueError("axes must name at least one coordinate, as in riesz.partial(0)(v).")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"axes must be whole numbers, as in riesz.partial(0)(v), not {_check.shown(axis)}.")
    return Partial(axes)


def time_derivative(v: Function) -> Function:
    r"""The derivative in the last coordinate, which is time: $(A v)(x, t) = \partial_t v(x, t)$.

    ```python
    def heat(v):
        rate, diffusion = riesz.time_derivative(v), riesz.spatial(riesz.laplacian)(v)
        return lambda x: rate(x) - diffusion(x)
    ```
    """
    return Partial((-1,))(v)


class Spatial(eqx.Module):
    """An operator applied at fixed time, the last coordinate."""

    operator: Operator

    def __call__(self, v: Function) -> Function:
        def image(x: Any) -> Any:
            x = _check.floating("x", x)
            if x.ndim != 1 or x.size < 2:
                raise _check.Mismatch(f"spatial takes points (x, t), so at least two numbers, not shape {x.shape}.")
            return self.operator(lambda y: v(jnp.concatenate([y, x[-1:]])))(x[:-1])

        return image


def spatial(operator: Operator) -> Operator:
    r"""An operator that acts in space alone: $(A v)(x, t) = (B\, v(\cdot, t))(x)$, with time the last coordinate.

    **Arguments:**

    - `operator`: the operator B, which sees functions of points that lack the last coordinate.

    ```python
    diffusion = riesz.spatial(riesz.laplacian)
    diffusion(lambda x: x[0] ** 2 * x[1])(jnp.array([3.0, 5.0]))  # 10
    ```
    """
    return Spatial(_check.function("operator", operator))


def divergence(v: Function) -> Function:
    r"""The divergence of a vector field: $(A v)(x) = \sum_i \partial_i v_i(x)$; of a matrix field, row by row.

    ```python
    def diffusion(v):  # div (k grad v), with k = 1 + |x|^2
        return riesz.divergence(lambda x: (1 + x @ x) * riesz.gradient(v)(x))
    ```
    """

    def trace(x: Any) -> jax.Array:
        x = _check.floating("x", x)
        slopes = jax.jacfwd(v)(x)
        if slopes.ndim < 2 * x.ndim or slopes.shape[slopes.ndim - 2 * x.ndim : slopes.ndim - x.ndim] != x.shape:
            shape = slopes.shape[: slopes.ndim - x.ndim]
            raise _check.Mismatch(f"divergence takes fields with values of shape {x.shape}, as x has, not {shape}.")
        return slopes if x.ndim == 0 else jnp.trace(slopes, axis1=-2, axis2=-1)

    return trace


def hessian(v: Function) -> Function:
    r"""The matrix of second derivatives: $(A v)(x)_{ij} = \partial_i \partial_j v(x)$, the points' axes last."""
    return gradient(gradient(v))


def laplacian(v: Function) -> Function:
    r"""The Laplacian, $(A v)(x) = \sum_i \partial_i^2 v(x)$, carried forward with value and gradient in one pass.

    For a shallow network in any dimension it costs about as much as the network itself; no Hessian is formed.

    ```python
    poisson = riesz.residual(riesz.laplacian, lambda x: -x[0] * x[1], over)
    ```

    A function that knows its own Laplacian, as a method `own_laplacian(x)`, is asked for it; tensor trains do.
    """
    own = getattr(v, "own_laplacian", None)
    return lambda x: forward_laplacian(v, _check.floating("x", x)) if own is None else own(_check.floating("x", x))
