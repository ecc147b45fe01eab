"""Streamed rows: Psi as the products it takes part in, assembled a chunk of points at a time."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._problem.features import along, evaluate, features, flat
from .._types import Operator, Parametrisation, Rows, Vector
from .tangent import Block


def pull(
    D: Parametrisation, operator: Operator, theta: Vector, x: jax.Array, covectors: jax.Array, chunk: int | None
) -> Vector:
    """sum_j covector_j^T dz_j/dtheta: one pass of reverse mode, `chunk` points at a time."""

    def part(points: tuple[jax.Array, jax.Array]) -> Vector:
        x, covectors = points
        return jax.vjp(lambda theta: flat(evaluate(D, operator, theta, x)), theta)[1](covectors)[0]

    if chunk is None or chunk >= x.shape[0]:
        return part((x, covectors))
    return _sum(part, (whole_chunks(x, chunk), whole_chunks(covectors, chunk, "constant")), chunk)


def whole_chunks(x: jax.Array, chunk: int, mode: str = "edge") -> jax.Array:
    """Points padded to a multiple of `chunk`, with copies of the last one or with zeros."""
    return jnp.pad(x, [(0, -x.shape[0] % chunk), *[(0, 0)] * (x.ndim - 1)], mode=mode)


def _split(arrays: Any, chunk: int) -> Any:
    return jax.tree.map(lambda a: a.reshape(-1, chunk, *a.shape[1:]), arrays)


def _sum(part: Callable[[Any], jax.Array], arrays: Any, chunk: int) -> jax.Array:
    """The sum of what a function gives for every chunk."""
    chunks = _split(arrays, chunk)
    shape = jax.eval_shape(part, jax.tree.map(lambda a: a[0], chunks))
    return jax.lax.scan(lambda so_far, one: (so_far + part(one), None), jnp.zeros(shape.shape, shape.dtype), chunks)[0]


def _pieces(block: Block, chunk: int) -> Any:
    """The points and forms of a block in whole chunks; what was added weighs nothing."""
    over, curvature = jax.tree.map(lambda a: whole_chunks(a, chunk), (block.over, block.curvature))
    return eqx.tree_at(lambda over: over.weights, over, whole_chunks(block.over.weights, chunk, "constant")), curvature


def total(block: Block, of: Callable[[Block], jax.Array], chunk: int | None) -> jax.Array:
    """The sum of what a function gives for every chunk of a block's points; the chunks come without features."""
    if chunk is None or chunk >= block.over.x.shape[0]:
        return of(block)
    part: Any = lambda piece: of(dataclasses.replace(block, over=piece[0], curvature=piece[1]))
    return _sum(part, _pieces(block, chunk), chunk)


class Streamed(eqx.Module):
    r"""$\Psi = [\sqrt{w_j}\, R_j\, \partial z_j/\partial\theta]\, S^{-1}$, known by its products.

    $\Psi \delta$ is one JVP, $\Psi^T r$ one VJP; $\Psi^T \Psi = \sum_c \Psi_c^T \Psi_c$ and $\Psi \Psi^T = [\Psi_c
    \Psi_{c'}^T]$ are assembled chunk by chunk. It is written as an array is: `psi @ delta`, `psi.T @ r`, `psi.T @ psi`,
    `psi @ psi.T`, `psi / scale`.
    """

    D: Parametrisation
    theta: jax.Array
    blocks: tuple[Block, ...]
    chunk: int = eqx.field(static=True)
    scale: jax.Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and parameters."""
        return sum(block.features.values.size for block in self.blocks), self.theta.size

    @property
    def T(self) -> "Transposed":
        """Psi^T."""
        return Transposed(self)

    def __truediv__(self, scale: jax.Array) -> "Streamed":
        """Psi with each column divided by a number."""
        scale = scale.reshape(-1)
        return dataclasses.replace(self, scale=scale if self.scale is None else self.scale * scale)

    def divided(self, columns: jax.Array) -> jax.Array:
        """Columns, the last axis, divided by the scale."""
        return columns if self.scale is None else columns / self.scale.reshape(*[1] * (columns.ndim - 1), -1)

    def __matmul__(self, other: Any) -> jax.Array:
        """Psi delta, or the kernel matrix Psi Psi^T."""
        if isinstance(other, Transposed):
            return self._kernel()
        delta = self.divided(other)
        moved = [along(self.D, block.operator, self.theta, delta, block.over.x) for block in self.blocks]
        return jnp.concatenate([block.weigh(flat(z)) for block, z in zip(self.blocks, moved, strict=True)])

    def assembled(self, block: Block) -> Rows:
        """The rows of a chunk of a block, as an array."""
        rows: Any = features(self.D, block.operator, self.theta, block.over.x).rows
        return self.divided(block.weigh(rows))

    def _total(self, of: Callable[[Rows], jax.Array]) -> jax.Array:
        parts = [total(block, lambda piece: of(self.assembled(piece)), self.chunk) for block in self.blocks]
        return jnp.sum(jnp.stack(parts), axis=0) if len(parts) > 1 else parts[0]

    @property
    def gram(self) -> Rows:
        """Psi^T Psi, d x d."""
        return self._total(lambda psi: psi.T @ psi)

    @property
    def stored(self) -> Rows:
        """Psi as an array after all, without a second copy on the way."""
        return self._map(lambda psi: psi)

    @property
    def norms(self) -> jax.Array:
        """The norms of the columns."""
        return jnp.sqrt(self._total(lambda psi: jnp.sum(psi**2, axis=0)))

    def _map(self, of: Callable[[Rows], jax.Array]) -> jax.Array:
        """What a function gives for the rows of every chunk, one entry a row, chunks one after the other."""
        results = []
        for block in self.blocks:
            one: Any = lambda piece, block=block: of(
                self.assembled(dataclasses.replace(block, over=piece[0], curvature=piece[1]))
            )
            chunk = min(self.chunk, block.over.x.shape[0])
            parts = jax.lax.map(one, _split(_pieces(block, chunk), chunk))
            results.append(parts.reshape(-1, *parts.shape[2:])[: block.features.values.size])
        return jnp.concatenate(results) if len(results) > 1 else results[0]

    def _kernel(self) -> Rows:
        return self._map(lambda psi: self._map(lambda other: other @ psi.T).T)


class Transposed(eqx.Module):
    """The transpose of streamed rows."""

    rows: Streamed

    def __matmul__(self, other: Any) -> jax.Array:
        """Psi^T r, or the Gram matrix Psi^T Psi."""
        rows = self.rows
        if isinstance(other, Streamed):
            return rows.gram
        pulled, start = [], 0
        for block in rows.blocks:
            z = flat(block.features.values)
            part = jax.lax.dynamic_slice_in_dim(other, start, z.size)
            (slopes,) = jax.linear_transpose(block.weigh, z)(part)
            pulled.append(pull(rows.D, block.operator, rows.theta, block.over.x, slopes, rows.chunk))
            start += z.size
        return rows.divided(jnp.sum(jnp.stack(pulled), axis=0))
