"""Hard boundary conditions: models that satisfy them whatever their parameters are."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ... import _check
from ..._types import Function, Parametrisation, Vector
from ._around import AbstractAround


class HardBoundary(AbstractAround):
    """The parametrisation of the functions lift(x) + bubble(x) D(theta)(x), whose inner parametrisation is D."""

    D: Parametrisation
    bubble: Callable[[Any], Any]
    lift: Any
    """A function or a number."""

    def __call__(self, theta: Vector) -> Function:
        inner = self.D(theta)

        def lifted(x: Any) -> jax.Array:
            z = inner(x)
            for name, part in (("bubble", self.bubble), ("lift", self.lift)):
                value = jnp.asarray(part(x) if callable(part) else part, z.dtype)
                if value.shape not in ((), z.shape):
                    raise _check.Mismatch(f"{name} must match D, but a point gives shapes {value.shape} and {z.shape}.")
                z = value * z if name == "bubble" else value + z
            return z

        return lifted


def hard_boundary(D: Parametrisation, bubble: Callable[[Any], Any], lift: Any = 0.0) -> HardBoundary:
    r"""A model that satisfies boundary conditions exactly, $x \mapsto \ell(x) + b(x)\, D(\theta)(x)$.

    Where the bubble b vanishes, values are those of the lift; where its gradient vanishes too, so are gradients.

    **Arguments:**

    - `D`: a parametrisation.
    - `bubble`: b, a function that vanishes where values are prescribed, such as `riesz.box_bubble(low, high)`.
    - `lift`: the function (or number) that has the prescribed values there.

    **Returns:** the new parametrisation; theta is that of `D`.

    ```python
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 20, 1))
    D = riesz.hard_boundary(D, riesz.box_bubble((0, 0), (1, 1)), lift=lambda x: x[0])
    ```
    """
    _check.function("D", D)
    _check.function("bubble", bubble)
    if not callable(lift):
        lift = _check.leaf(_check.number("lift", lift))
    return HardBoundary(D, bubble, lift)


class BoxBubble(eqx.Module):
    """The product of the distances to the sides of a box; None stands for a side that is not there."""

    low: tuple[jax.Array | None, ...]
    high: tuple[jax.Array | None, ...]
    scalar: bool = eqx.field(static=True)

    def __call__(self, x: Any) -> jax.Array:
        shape = () if self.scalar else (len(self.low),)
        result = jnp.ones((), jnp.result_type(x))
        for t, a, b in zip(_check.point(x, shape, "this bubble"), self.low, self.high, strict=True):
            scale = 1 if a is None or b is None else 4 / (b - a) ** 2
            result = result * scale * (1 if a is None else t - a) * (1 if b is None else b - t)
        return result


def _is_vector(corner: Any) -> bool:
    return isinstance(corner, Sequence) and not isinstance(corner, str) or getattr(corner, "ndim", 0) == 1


def box_bubble(low: Any, high: Any) -> BoxBubble:
    r"""A function that vanishes on the sides of a box, $b(x) = \prod_i \frac{4 (x_i - a_i)(b_i - x_i)}{(b_i - a_i)^2}$.

    It is 1 in the middle of the box.

    **Arguments:**

    - `low`, `high`: the corners; numbers take scalar points, sequences vector points. An entry None leaves that side
      free; the factor of the opposite side is then the distance to it.

    ```python
    b = riesz.box_bubble((-1.0, 0.0), (1.0, None))  # x in [-1, 1], t from 0
    ```
    """
    scalar = not _is_vector(low)
    corners = [
        tuple(None if side is None else _check.leaf(_check.scalar(name, side)) for side in sides)
        for name, corner in (("low", low), ("high", high))
        for sides in [corner if _is_vector(corner) else (corner,)]
    ]
    if scalar == _is_vector(high) or len(corners[0]) != len(corners[1]):
        raise ValueError(
            f"low and high must be two numbers or two sequences of one length, "
            f"but they are {_check.shown(low)} and {_check.shown(high)}."
        )
    for a, b in zip(*corners, strict=True):
        if a is not None and b is not None:
            _check.ordered(a, b)
    if all(side is None for corner in corners for side in corner):
        raise ValueError("low and high must hold at least one number, but they hold none.")
    return BoxBubble(*corners, scalar=scalar)
