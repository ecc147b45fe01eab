"""The coordinates in which auto measures displacements: parameters by how fast they turn their tangent functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._geometry.frame import Frame
from ..._geometry.streamed import total
from ..._geometry.tangent import Block, lift
from ..._problem.features import features
from ..._types import Vector


def norms(blocks: tuple[Block, ...], rows: Callable[[Block], jax.Array], chunk: int | None) -> jax.Array:
    """The norms of the columns of the rows that a function of every block gives, a chunk of its points at a time."""
    square = lambda block: jnp.sum(rows(block) ** 2, axis=0)
    return jnp.sqrt(jnp.sum(jnp.stack([total(block, square, chunk) for block in blocks]), axis=0))


def sizes(frame: Frame, blocks: tuple[Block, ...]) -> jax.Array:
    """The norms of the tangent functions: from the rows where they are stored."""
    streamed = frame.streamed(blocks)
    return norms(blocks, lambda block: block.weighted, None) if streamed is None else streamed.norms


def turning(frame: Frame, blocks: tuple[Block, ...], signs: Vector) -> jax.Array:
    r"""How fast the tangent function of every parameter turns, $t_i$ in units of $1/\theta_i$.

    $t_i^2 = \frac1d \big|\sum_j \sigma_j\, \partial_j \psi_i / |\psi_j|\,\big|^2$, one probe of the sum of squares
    $\frac1d \sum_j |\partial_j \psi_i|^2 / |\psi_j|^2$, along a direction that moves the function equally by every
    parameter. Zero for a linear model. It costs one JVP of the rows.
    """
    size = sizes(frame, blocks)
    direction = signs / jnp.where(size > 0, size, jnp.inf)

    def turned(block: Block) -> jax.Array:
        rows: Any = lambda theta: features(frame.D, block.operator, theta, block.over.x).rows
        return block.weigh(jax.jvp(rows, (frame.theta,), (direction,))[1])

    speed = norms(blocks, turned, frame.chunk) / frame.theta.size**0.5
    return jnp.where(jnp.isfinite(speed), speed, 0)


def scale(frame: Frame, blocks: tuple[Block, ...], speed: jax.Array) -> jax.Array:
    """S: the turning speeds; for parameters that turn nothing, so little that damping stays below rounding.

    A tangent function as small as the rounding of the largest one, both as it is and times its parameter, is zero up to
    rounding, as that of a constant is in a normalised density: its parameter is held, by a scale so large that it does
    not move.
    """
    rows, _ = lift(blocks, frame.differential)
    residual = jnp.linalg.norm(rows) if rows is not None else jnp.zeros((), speed.dtype)
    size = sizes(frame, blocks)
    least = jnp.finfo(speed.dtype).eps ** 0.5 * size / jnp.where(residual > 0, residual, 1)
    rounding = speed.size * jnp.finfo(speed.dtype).eps
    matters = lambda effect: effect > rounding * jnp.max(effect)
    moves = matters(size) | matters(size * jnp.abs(frame.theta))
    return jnp.where(moves, jnp.hypot(speed, least), jnp.finfo(speed.dtype).max ** 0.5)
