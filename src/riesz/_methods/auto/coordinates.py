"""The coordinates in which auto measures displacements: parameters by how fast they turn their tangent functions."""

from typing import Any

import jax
import jax.numpy as jnp

from ..._geometry.linearise import Linearisation
from ..._geometry.rows import Block, sum_over_chunks
from ..._linalg.rows import AbstractRows
from ..._problem.features import features
from ..._types import Vector


def turning(at: Linearisation, blocks: tuple[Block, ...], psi: AbstractRows, sizes: Vector, signs: Vector) -> jax.Array:
    r"""How fast the tangent function of every parameter turns, $t_i$ in units of $1/\theta_i$.

    $t_i^2 = \frac1d \big|\sum_j \sigma_j\, \partial_j \psi_i / |\psi_j|\,\big|^2$, one probe of the sum of squares
    $\frac1d \sum_j |\partial_j \psi_i|^2 / |\psi_j|^2$, along a direction that moves the function equally by every
    parameter. Zero for a linear model. It costs one JVP of the rows. `sizes` are the norms $|\psi_i|$.
    """
    direction = signs / jnp.where(sizes > 0, sizes, jnp.inf)

    def squares(block: Block) -> jax.Array:
        rows: Any = lambda theta: features(at.D, block.operator, theta, block.over.x).jacobians
        return jnp.sum(block.weigh(jax.jvp(rows, (at.theta,), (direction,))[1]) ** 2, axis=0)

    total = psi.turned(direction)
    if total is None:
        parts = [sum_over_chunks(block, squares, at.chunk) for block in blocks]
        total = sum(parts[1:], parts[0])
    speed = jnp.sqrt(total / at.theta.size)
    return jnp.where(jnp.isfinite(speed), speed, 0)


def held(dtype: Any) -> Any:
    """The scale of a parameter that is not to move: so large that no step moves it, and its square is finite."""
    return jnp.finfo(dtype).max ** 0.5


def scale(sizes: Vector, theta: Vector, residual: jax.Array, speed: Vector, every: bool) -> jax.Array:
    """S: the turning speeds; for parameters that turn nothing, so little that damping stays below rounding.

    That is for fixed points and a quadratic loss, whose model is exact along them. Where points are drawn, parameters
    that turn nothing can still fit what is particular to few points, and where l'' changes with z, they can still go
    too far: there they are damped like the others.

    A tangent function as small as the rounding of the largest one, both as it is and times its parameter, is zero up to
    rounding, as that of a constant is in a normalised density: its parameter is held, by a scale so large that it does
    not move.

    **Arguments:**

    - `sizes`: the norms of the tangent functions.
    - `residual`: the norm of the part of L' that is an inner product with rows.
    - `every`: whether parameters that turn nothing are damped like the others.
    """
    number = jnp.finfo(speed.dtype)
    least = (1.0 if every else number.eps**0.5) / jnp.where(residual > 0, residual, 1)
    matters = lambda effect: effect > speed.size * number.eps * jnp.max(effect)
    moves = matters(sizes) | matters(sizes * jnp.abs(theta))
    return jnp.where(moves, jnp.hypot(speed, sizes * least), held(speed.dtype))
