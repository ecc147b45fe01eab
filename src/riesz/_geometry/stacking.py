"""How the rows of several blocks lie in one array, and those of a block that was taken in chunks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

if TYPE_CHECKING:
    from .rows import Block


def mesh_of(blocks: "tuple[Block, ...]") -> Mesh | None:
    """The devices over which the points of all blocks are spread; None where those of one are not."""
    meshes = {block.over.mesh for block in blocks}
    return meshes.pop() if len(meshes) == 1 else None


def _parts_of(blocks: "tuple[Block, ...]") -> int:
    """In how many equal parts the rows of every block lie: as many as there are devices, else one."""
    mesh = mesh_of(blocks)
    return 1 if mesh is None else mesh.size


def stack(blocks: "tuple[Block, ...]", arrays: Sequence[jax.Array]) -> jax.Array:
    """What is known row by row of every block, in one array.

    Blocks come one after the other; where points are spread over devices, those of each device do, so that no row
    leaves its own.
    """
    if len(arrays) == 1:
        return arrays[0]
    parts = _parts_of(blocks)
    apart = [array.reshape(parts, -1, *array.shape[1:]) for array in arrays]
    return jnp.concatenate(apart, axis=1).reshape(-1, *arrays[0].shape[1:])


def unstack(blocks: "tuple[Block, ...]", array: jax.Array) -> list[jax.Array]:
    """The inverse of `stack`: what of an array belongs to every block."""
    parts = _parts_of(blocks)
    ends = np.cumsum([block.rows // parts for block in blocks])[:-1]
    apart = jnp.split(array.reshape(parts, -1, *array.shape[1:]), ends, axis=1)
    return [part.reshape(-1, *array.shape[1:]) for part in apart]


def joined(chunks: jax.Array, block: "Block") -> jax.Array:
    """The inverse of splitting, for what is known row by row of every chunk of a block's points."""
    parts, rest = _parts_of((block,)), chunks.shape[2:]
    apart = jnp.swapaxes(chunks.reshape(chunks.shape[0], parts, -1, *rest), 0, 1).reshape(parts, -1, *rest)
    return apart[:, : block.rows // parts].reshape(-1, *rest)
