"""How rows are held: stored as one array, by layers, or assembled for a chunk of points when a product needs them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from .._linalg.rows import AbstractRows, Stored, evenly
from .._problem.features import Whole, along, features
from .._types import Parametrisation, Rows, Vector
from .layered import Layered
from .layers import plan
from .rows import Block, block_on, chunks_of, is_one_chunk, pull_in_chunks, sum_over_chunks, weighted
from .stacking import joined, mesh_of, stack, unstack


def rows_of(D: Parametrisation, theta: Vector, blocks: tuple[Block, ...], chunk: int | None) -> AbstractRows:
    """All rows of the blocks: stored, or `chunk` points at a time; by layers where rows are fewer than parameters."""
    if chunk is not None:
        chunked = Chunked(D, theta, blocks, chunk)
        rows, d = chunked.shape
        how = plan(D, theta, [(block.operator, block.over.x) for block in blocks]) if rows < d else None
        return chunked if how is None else Layered.of(chunked, theta, blocks, how, chunk)
    parts = [block.weigh(block.features.jacobians) for block in blocks if block.features.jacobians is not None]
    return Stored(stack(blocks, parts), mesh_of(blocks))


class Chunked(AbstractRows):
    r"""Rows that are never stored: $\Psi \delta$ is a JVP, $\Psi^T r$ a VJP, and matrices are sums over chunks.

    $\Psi^T \Psi = \sum_c \Psi_c^T \Psi_c$ and $\Psi \Psi^T = [\Psi_c \Psi_{c'}^T]$; a chunk that is not full is filled
    with copies of its last point, of weight zero.
    """

    D: Parametrisation
    theta: jax.Array
    blocks: tuple[Block, ...]
    chunk: int = eqx.field(static=True)
    scale: jax.Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.rows for block in self.blocks), self.theta.size

    @property
    def dtype(self) -> Any:
        return self.theta.dtype

    @property
    def mesh(self) -> Mesh | None:
        return mesh_of(self.blocks)

    def scaled(self, scale: jax.Array) -> "Chunked":
        return dataclasses.replace(self, scale=scale if self.scale is None else self.scale * scale)

    def _divided(self, columns: jax.Array) -> jax.Array:
        """The last axis, of parameters, divided by the scale."""
        return columns if self.scale is None else columns / self.scale.reshape(*[1] * (columns.ndim - 1), -1)

    def __matmul__(self, delta: jax.Array) -> jax.Array:
        if delta.ndim == 2:
            return jax.lax.map(lambda column: self @ column, delta.T).T
        step = self._divided(delta)
        return weighted(self.blocks, lambda block: along(self.D, block.operator, self.theta, step, block.over.x))

    def pull(self, r: jax.Array) -> jax.Array:
        if r.ndim == 2:
            return jax.lax.map(self.pull, r.T).T
        parts = unstack(self.blocks, r)
        pulled = [
            pull_in_chunks(self.D, block.operator, self.theta, block.unweigh(part), block.over, self.chunk)
            for block, part in zip(self.blocks, parts, strict=True)
        ]
        return self._divided(jnp.sum(jnp.stack(pulled), axis=0))

    def gram(self) -> jax.Array:
        return self._sum(lambda psi: psi.T @ psi)

    def kernel(self) -> jax.Array:
        """The kernel matrix: every chunk is assembled once for each chunk."""
        return self._map(lambda psi: self._map(lambda other: other @ psi.T).T)

    def norms(self) -> jax.Array:
        return jnp.sqrt(self._sum(lambda psi: jnp.sum(psi**2, axis=0)))

    def array(self) -> Rows:
        """All rows, without a second copy on the way."""
        return self._map(lambda psi: psi)

    def some(self, points: int) -> Rows:
        """Every block gives points by its share of all."""
        total = sum(block.over.weights.shape[0] for block in self.blocks)
        return jnp.concatenate(
            [self._some(block, max(points * block.over.weights.shape[0] // total, 1)) for block in self.blocks]
        )

    def _some(self, block: Block, points: int) -> Rows:
        if isinstance(block.operator, Whole):
            return self._assembled(block)
        count = block.over.weights.shape[0]
        chosen = evenly(count, points)
        part = jax.tree.map(lambda array: array[chosen], (block.over, block.form))
        return self._assembled(block_on(block, part)) * (count / chosen.size) ** 0.5

    def _assembled(self, block: Block) -> Rows:
        return self._divided(block.weigh(features(self.D, block.operator, self.theta, block.over.x).jacobians))  # type: ignore[arg-type]

    def _sum(self, of: Callable[[Rows], jax.Array]) -> jax.Array:
        parts = [sum_over_chunks(block, lambda part: of(self._assembled(part)), self.chunk) for block in self.blocks]
        return jnp.sum(jnp.stack(parts), axis=0) if len(parts) > 1 else parts[0]

    def _map(self, of: Callable[[Rows], jax.Array]) -> jax.Array:
        """What a function gives for the rows of every chunk, one entry per row, chunks one after the other."""
        results = []
        for block in self.blocks:
            if is_one_chunk(block.operator, block.over.x, self.chunk):
                results.append(of(self._assembled(block)))
            else:
                at = lambda part, block=block: of(self._assembled(block_on(block, part)))
                results.append(joined(jax.lax.map(at, chunks_of(block, self.chunk)), block))
        return stack(self.blocks, results)
