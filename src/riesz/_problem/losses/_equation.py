"""Losses of equations, differential or not: the residual, and the Ritz energy of an elliptic one."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ... import _check
from ..._types import Function, Operator
from ..integral import AbstractLoss, Integral, half_square
from ..measures import AbstractDomain, AbstractMeasure, Points
from ..operators import identity, value_and_gradient


class Residual(eqx.Module):
    """The operator that takes v to A v - f."""

    operator: Operator
    source: Any

    def __call__(self, v: Function) -> Function:
        image = self.operator(v)

        def residual(x: Any) -> jax.Array:
            z = image(x)
            f = jnp.asarray(self.source(x) if callable(self.source) else self.source, z.dtype)
            if f.shape not in ((), z.shape) and not f.size == z.size == 1:
                raise _check.Mismatch(f"source must match A v in residual: {z.shape} and {f.shape} per point.")
            return z - jnp.broadcast_to(f, z.shape) if f.shape == () else z - f.reshape(z.shape)

        return residual


def residual(operator: Operator, source: Any, over: AbstractMeasure) -> Integral:
    r"""The residual of an equation $A v = f$, $\frac12 \int |(A v)(x) - f(x)|^2 \, d\mu$.

    The source is evaluated at the points of each step, so points may be drawn.

    **Arguments:**

    - `operator`: A, a function of functions; linear or not.
    - `source`: f, a function of a point or a number.
    - `over`: the measure to integrate over.

    ```python
    loss = riesz.residual(riesz.laplacian, source, interior) + 10.0 * riesz.residual(riesz.identity, 0.0, boundary)
    ```
    """
    _check.function("operator", operator)
    if not callable(source):
        source = _check.array("source", _check.number("source", source))
    return Integral(half_square, over, Residual(operator, source))


class Departure(eqx.Module):
    """The operator v - m of a prior, by which it is told from data."""

    operator: Operator

    def __call__(self, v: Function) -> Function:
        return self.operator(v)


def prior(over: AbstractMeasure, weight: Any, mean: Any = 0.0) -> AbstractLoss:
    r"""What is known of the function before the data, $\frac{\text{weight}}{2} \int |v(x) - m(x)|^2 \, d\mu$.

    One more integral beside a fit: where data are few it keeps the function near its mean.

    **Arguments:**

    - `over`: where this is known.
    - `weight`: how well; beside a mean over N data with the standard deviation s, for a function that lies within t of
      its mean, (s/t)^2 / N over a measure of mass one.
    - `mean`: m, a function of a point or a number.

    ```python
    loss = riesz.least_squares(riesz.points(x, data=y)) + riesz.prior(riesz.grid(0.0, 1.0, 100), weight=1e-3)
    ```
    """
    _check.scalar("weight", weight, above=0.0)
    operator = residual(identity, mean, over).operator
    return Integral(half_square, over, Departure(operator)) * weight


KINDS = {"f": "a number at every point", "a": "a number at every point, or an n x n matrix"}


class Coefficients(eqx.Module):
    """The functions f and a of a Ritz energy, whose values (f(x_j), a(x_j)) are the data of points."""

    a: Any
    f: Any

    def attached(self, over: Points) -> Points:
        """The points with their data, matrices flattened."""
        return Points(over.x, over.weights, jax.vmap(self._values)(over.x))

    def _values(self, x: Any) -> jax.Array:
        values = []
        for name, part, shapes in (("f", self.f, ((),)), ("a", self.a, ((), (x.size, x.size)))):
            with _check.explained(f"{name} must be a function of a point, but it fails at shape {x.shape}"):
                value = jnp.asarray(part(x) if callable(part) else part, x.dtype)
            if value.shape not in shapes and value.shape != (1,):
                raise _check.Mismatch(f"{name} must give {KINDS[name]}, but its shape is {value.shape}.")
            values.append(value.reshape(-1))
        return jnp.concatenate(values)


class AttachedDomain(AbstractDomain):
    """A domain whose fresh points have coefficients as their data."""

    bare: AbstractDomain
    coefficients: Coefficients

    @property
    def volume(self) -> jax.Array:
        return self.bare.volume

    def uniform(self, key: Any, n: int) -> jax.Array:
        return self.bare.uniform(key, n)

    def evenly(self, x: jax.Array) -> Points:
        return self.coefficients.attached(self.bare.evenly(x))


class Attached(AbstractMeasure):
    """A measure that is drawn anew each step, with coefficients as the data of its points."""

    over: AbstractMeasure
    coefficients: Coefficients
    drawn: ClassVar[bool] = True

    @property
    def domain(self) -> AttachedDomain | None:
        return None if self.over.domain is None else AttachedDomain(self.over.domain, self.coefficients)

    @property
    def count(self) -> int:
        return self.over.count

    def draw(self, key: Any, at: Any = None) -> Points:
        return self.coefficients.attached(self.over.draw(key, at))


def _energy(z: jax.Array, data: Any) -> jax.Array:
    if z.ndim > 1 and z.shape[:-1] != (1,):
        raise _check.Mismatch(f"D must have scalar values for ritz, but values are {z.shape[:-1]}.")
    value, slope = z.reshape(-1)[0], z.reshape(-1)[1:]
    f, a = data[0], data[1:]
    flux = a[0] * slope if a.size == 1 else a.reshape(slope.size, slope.size) @ slope
    return 0.5 * slope @ flux - f * value


def ritz(a: Any, f: Any, over: AbstractMeasure) -> Integral:
    r"""The Ritz energy of $-\nabla\cdot(a \nabla u) = f$, $\int \frac12 a |\nabla v|^2 - f v \, d\mu$.

    Among all functions with the same values on the boundary, the solution has the lowest energy; `riesz.hard_boundary`
    gives the model these values. On a part of the boundary where the model is free, the flux becomes zero. The Hessian
    is the stiffness matrix, $\int a\, \nabla f \cdot \nabla g$. The energy of v, less that of the solution, is half the
    squared error in that norm. With zero values on the boundary, the energy of the solution is not positive.

    **Arguments:**

    - `a`: the coefficient, a positive function of a point or number; or symmetric positive definite matrices.
    - `f`: the source, a function of a point or a number.
    - `over`: the measure dx on the domain, such as `riesz.gauss_legendre`; data that it carries are not used.

    ```python
    D = riesz.hard_boundary(D, riesz.box_bubble((0, 0), (1, 1)))
    loss = riesz.ritz(1.0, lambda x: jnp.sin(jnp.pi * x[0]), riesz.gauss_legendre((0, 0), (1, 1), 20))
    ```
    """
    _check.kind("over", over, AbstractMeasure, "a measure, such as riesz.gauss_legendre(0.0, 1.0, 50)")
    if over.adapts:
        raise ValueError("over must not be adaptive for ritz: an energy has no residual to place points by.")
    if not callable(f):
        f = _check.leaf(_check.scalar("f", f))
    if not callable(a):
        _check.number("a", a)
        if jnp.ndim(a) == 0:
            _check.scalar("a", a, above=0.0)
        a = _check.leaf(a)
    attached = Attached(over, Coefficients(a, f))
    # The data of fixed points are computed once; the coefficients are kept for fresh points.
    fixed = lambda: dataclasses.replace(_positive(attached.draw(None)), domain=attached.domain)
    return Integral(_energy, attached if over.drawn else fixed(), value_and_gradient)


def _positive(over: Points) -> Points:
    """The points, returned unchanged; sources that are not finite and coefficients that are not positive are errors."""
    data = over.data
    if data is not None and not _check.is_traced(data):
        _check.finite_rows("f", data[:, :1])
        _check.finite_rows("a", data[:, 1:])
        if data.shape[1] == 2 and (np.asarray(data[:, 1]) <= 0).any():
            worst = int(np.argmin(np.asarray(data[:, 1])))
            raise ValueError(f"a must be greater than 0, but at point {worst} it is {data[worst, 1]}.")
    return over
