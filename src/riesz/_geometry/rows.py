r"""The rows of an inner product at theta, $\Psi = [\sqrt{w_j}\, R_j\, \partial (A v)(x_j)/\partial\theta]$, in blocks.

A block is what one operator gives on one measure. Its rows are stored, or assembled for a chunk of points at a time
whenever a product needs them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from .._linalg.devices import placed
from .._problem.features import Features, Whole, flat, pull
from .._problem.measures import Points
from .._types import Operator, Parametrisation, Vector
from .forms import AbstractForm
from .stacking import stack

Slopes = tuple[jax.Array, ...]
"""L'(v), as the slopes l'(z_j) of every term at its points: it can be paired with any tangent space."""


class Block(eqx.Module):
    """The rows that one operator gives on one measure."""

    operator: Operator
    over: Points
    form: AbstractForm
    """The point-wise form of the inner product."""
    features: Features
    """The values at the points, and the rows before weighting where they are stored."""
    term: int | None = eqx.field(static=True)
    """The term of the loss whose operator and points these are, if any."""

    def weigh(self, z: jax.Array) -> jax.Array:
        """The weighted rows sqrt(w_j) R_j z_j, for z of shape (m, p) or (m, p, d)."""
        weights = jnp.sqrt(self.over.weights).reshape(-1, *[1] * (z.ndim - 1))
        return (weights * self.form.root(z)).reshape(-1, *z.shape[2:])

    def unweigh(self, r: jax.Array) -> jax.Array:
        """The transpose of `weigh`: from weighted rows to slopes of shape (m, p)."""
        z = flat(self.features.values)
        return jax.linear_transpose(self.weigh, jax.ShapeDtypeStruct(z.shape, z.dtype))(r)[0]

    @property
    def rows(self) -> int:
        return self.features.values.size


def weighted(blocks: tuple[Block, ...], of: Callable[[Block], jax.Array]) -> jax.Array:
    """A function as weighted rows; `of(block)` gives its values under the block's operator at its points."""
    return stack(blocks, [block.weigh(flat(of(block))) for block in blocks])


def split(blocks: tuple[Block, ...], slopes: Slopes) -> tuple[jax.Array | None, Slopes | None]:
    """L' as an inner product with given rows, and a rest that stays a covector.

    Rows are projected without squaring the condition number, so as much as possible goes through them: for L2, all of
    it. Where the blocks are not those of the loss, there are no such rows.
    """
    rest: dict[int, Any] = dict(enumerate(slopes))
    rows = []
    for block in blocks:
        if block.term is None:
            return None, slopes
        slope, rest[block.term] = block.form.split(rest[block.term])
        rows.append((jnp.sqrt(block.over.weights)[:, None] * slope).reshape(-1))
    r = stack(blocks, rows)
    if all(part is None for part in rest.values()):
        return r, None
    return r, tuple(jnp.zeros_like(slope) if rest[t] is None else rest[t] for t, slope in enumerate(slopes))


def is_one_chunk(operator: Operator, x: jax.Array, chunk: int) -> bool:
    """Whether all points are taken at once, because they are few or because their values come whole."""
    return chunk >= x.shape[0] or isinstance(operator, Whole)


def _split(array: jax.Array, chunk: int, mesh: Mesh | None, mode: str = "edge") -> jax.Array:
    """An array of points in chunks, filled up with copies of the last point or with zeros.

    Where points are spread over devices, every device has its share of every chunk.
    """
    parts = 1 if mesh is None else mesh.size
    share, rest = -(-chunk // parts), array.shape[1:]
    apart = array.reshape(parts, -1, *rest)
    whole = jnp.pad(apart, [(0, 0), (0, -apart.shape[1] % share), *[(0, 0)] * len(rest)], mode=mode)
    chunks = jnp.swapaxes(whole.reshape(parts, -1, share, *rest), 0, 1).reshape(-1, parts * share, *rest)
    return chunks if mesh is None else placed(chunks, mesh, 1)


def chunks_of(block: Block, chunk: int) -> tuple[Points, AbstractForm]:
    """The points and forms of a block in chunks; points that fill the last one have no weight."""
    mesh = block.over.mesh
    over, form = jax.tree.map(lambda array: _split(array, chunk, mesh), (block.over, block.form))
    weights = _split(block.over.weights, chunk, mesh, "constant")
    return eqx.tree_at(lambda over: over.weights, over, weights), form


def block_on(block: Block, part: tuple[Points, AbstractForm]) -> Block:
    """The block on one chunk of its points; its values stay behind."""
    return dataclasses.replace(block, over=part[0], form=part[1])


def sum_over_chunks(block: Block, of: Callable[[Block], jax.Array], chunk: int | None) -> jax.Array:
    """The sum of what a function gives for every chunk of a block's points."""
    if chunk is None or is_one_chunk(block.operator, block.over.x, chunk):
        return of(block)
    return _summed(lambda part: of(block_on(block, part)), chunks_of(block, chunk))


def _summed(of: Callable[[Any], jax.Array], parts: Any) -> jax.Array:
    shape = jax.eval_shape(of, jax.tree.map(lambda array: array[0], parts))
    return jax.lax.scan(lambda so_far, part: (so_far + of(part), None), jnp.zeros(shape.shape, shape.dtype), parts)[0]


def pull_in_chunks(
    D: Parametrisation,
    operator: Operator,
    theta: Vector,
    covectors: jax.Array,
    over: Points,
    chunk: int | None,
    by: Callable[..., Vector] = pull,
) -> Vector:
    """The covector sum_j covector_j^T dz_j/dtheta, or what else `by` pulls back, for `chunk` points at a time."""
    if chunk is None or is_one_chunk(operator, over.x, chunk):
        return by(D, operator, theta, covectors, over.x)
    parts = _split(over.x, chunk, over.mesh), _split(covectors, chunk, over.mesh, "constant")
    return _summed(lambda part: by(D, operator, theta, part[1], part[0]), parts)
