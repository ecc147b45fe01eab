r"""Rows by layers: those of a model whose parameters enter through matrix products, known by two factors per matrix.

The row of a value z for a matrix A that is multiplied with the columns $h_c$ is $\sum_c \bar y_c h_c^T$, so the kernel
matrix is a sum of Hadamard products of small Gram matrices,

$$K_{ij} = \sum_A \sum_{c,c'} (\bar y_{ic} \cdot \bar y_{jc'})\,(h_{ic} \cdot h_{jc'}),$$

and products with the rows are products of matrices: no row is ever made. Parameters that enter otherwise, as biases do,
have rows of their own.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .._linalg.rows import AbstractRows
from .._types import Rows, Vector
from .layers import Plan, Reading, run_order, taken
from .rows import Block
from .stacking import mesh_of, stack, unstack

NUMBERS = 2**20
"""About so many numbers of the rows of one matrix are in work at a time, where these are needed: caches hold them."""


class Factors(eqx.Module):
    """The rows of one block for one matrix, sum_c left_c right_c^T.

    Shapes are (rows, columns, n_out) and (points, columns, n_in), where all values of a point share their right factor.
    """

    left: jax.Array
    right: jax.Array
    rows: jax.Array | None = None
    """The rows themselves, (rows, n_out, n_in), where columns are so many that products with these are quicker."""

    @property
    def values(self) -> int:
        """Values per point."""
        return self.left.shape[0] // self.right.shape[0]

    def repeated(self) -> jax.Array:
        """The right factors of every row."""
        return jnp.repeat(self.right, self.values, axis=0)

    def with_rows(self) -> "Factors":
        """The same with the rows themselves."""
        # The barrier has the left factors transposed once: otherwise the compiler reads them across, four times slower.
        left = jax.lax.optimization_barrier(jnp.swapaxes(self.left, 1, 2))
        rows = jnp.einsum("ior,irn->ion", left, self.repeated())
        return Factors(self.left, self.right, rows)

    def some(self, start: Any, size: int) -> jax.Array:
        """The rows for some of the outputs of the matrix, one after the other."""
        if self.rows is not None:
            rows = jax.lax.dynamic_slice_in_dim(self.rows, start, size, 1)
        else:
            left = jax.lax.dynamic_slice_in_dim(self.left, start, size, 2)
            rows = jnp.einsum("iro,irn->ion", left, self.repeated())
        return rows.reshape(rows.shape[0], -1)

    def scaled(self, S: jax.Array) -> "Factors":
        """The factors of Psi S^-1, where S_ij = a_i b_j."""
        rows = None if self.rows is None else self.rows / S[None]
        return Factors(self.left / S[None, None, :, 0], self.right / (S[None, None, 0] / S[0, 0]), rows)

    def beside(self, other: "Factors") -> "Factors":
        """The factors of the sum of two matrices of rows."""
        sides = zip((self.left, self.right), (other.left, other.right), strict=True)
        return Factors(*(jnp.concatenate(pair, axis=1) for pair in sides))

    def __matmul__(self, matrix: jax.Array) -> jax.Array:
        """The inner product of every row with a displacement of the matrix."""
        if self.rows is not None:
            return self.rows.reshape(self.rows.shape[0], -1) @ matrix.reshape(-1)
        along = jnp.repeat(jnp.einsum("irn,on->iro", self.right, matrix), self.values, axis=0)
        return jnp.sum(self.left * along, axis=(1, 2))

    def pull(self, r: jax.Array) -> jax.Array:
        """The sum of all rows, each times its entry of r, as a matrix."""
        if self.rows is not None:
            return (r @ self.rows.reshape(r.size, -1)).reshape(self.rows.shape[1:])
        weighed = self.left * r[:, None, None]
        at_points = jnp.sum(weighed.reshape(-1, self.values, *weighed.shape[1:]), axis=1)
        return jnp.einsum("iro,irn->on", at_points, self.right)


def factors(theta: Vector, blocks: tuple[Block, ...], how: Plan) -> tuple[list[dict[int, Factors]], list[jax.Array]]:
    """The factors of every block for every matrix, by its number, and the block's rows of the other parameters."""
    found, rows, number = [], [], np.zeros(theta.size, int)
    number[how.others] = np.arange(how.others.size)
    for block, program, uses in zip(blocks, how.programs, how.uses, strict=True):
        outputs = lambda use: how.matrices[use.matrix].shape[1 if use.transposed else 0]
        still = [jnp.zeros((outputs(use), use.columns), theta.dtype) for use in uses]
        chosen = tuple(use.site for use in uses)

        def at(x: jax.Array, program: Any = program, chosen: Any = chosen, still: Any = still) -> Any:
            def value(moved: Any, others: jax.Array) -> tuple[jax.Array, Any]:
                reading = Reading(moved, chosen, (others, number))
                return reading.value(program, theta, x), reading.factors

            z, pullback, rights = jax.vjp(value, still, theta[how.others], has_aux=True)
            lefts, rest = jax.vmap(pullback)(jnp.eye(z.size, dtype=z.dtype))
            return lefts, rights, rest

        lefts, rights, rest = jax.vmap(at)(block.over.x)
        rows.append(block.weigh(rest) if how.others.size else jnp.zeros((block.rows, 0), theta.dtype))
        by_matrix: dict[int, list[tuple[jax.Array, jax.Array]]] = {}
        for use, left, right in zip(uses, lefts, rights, strict=True):
            m, p, n_out, columns = left.shape
            weighed = block.weigh(left.reshape(m, p, -1)).reshape(m * p, n_out, columns)
            pair = jnp.swapaxes(weighed, 1, 2), jnp.swapaxes(right, 1, 2)
            # Transposed: what is on the left belongs to the columns of the matrix.
            pair = (jnp.repeat(pair[1], p, axis=0), pair[0]) if use.transposed else pair
            by_matrix.setdefault(use.matrix, []).append(pair)
        found.append({k: _joined(pairs) for k, pairs in by_matrix.items()})
    return found, rows


def _joined(pairs: list[tuple[jax.Array, jax.Array]]) -> Factors:
    """All columns of one matrix; right factors are of points, unless some are of rows."""
    most = max(right.shape[0] for _, right in pairs)
    rights = [jnp.repeat(right, most // right.shape[0], axis=0) for _, right in pairs]
    return Factors(jnp.concatenate([left for left, _ in pairs], axis=1), jnp.concatenate(rights, axis=1))


def needs_rows(first: int, second: int, n_out: int, n_in: int) -> bool:
    """Whether inner products of rows with so many columns each are made from the rows, the cheaper of two orders."""
    return first * second * (n_in + n_out) > n_in * n_out


def rows_held(how: Plan, rows: list[int]) -> int:
    """The numbers of the rows that are held for some blocks of so many rows."""
    pairs = [(i, k) for i in range(len(rows)) for k in range(len(how.matrices))]
    return sum(rows[i] * how.matrices[k].size for i, k in pairs if _is_held(how, i, k))


def _is_held(how: Plan, block: int, matrix: int) -> bool:
    columns = how.columns(block, matrix)
    return needs_rows(columns, columns, *how.matrices[matrix].shape)


class Layered(AbstractRows):
    """Rows that are known by the factors of every matrix of the model."""

    chunked: AbstractRows
    """The same rows in chunks, for what layers do not tell."""
    theta: jax.Array
    blocks: tuple[Block, ...]
    how: Plan
    parts: list[dict[int, Factors]]
    rest: list[jax.Array]
    factored: bool = eqx.field(static=True, default=False)
    """Whether scales are products of a row and a column factor of every matrix of the model."""

    @classmethod
    def of(cls, chunked: AbstractRows, theta: Vector, blocks: tuple[Block, ...], how: Plan, chunk: int) -> "Layered":
        """The factors of all blocks, with rows where these are needed and fit into a chunk, to which memory is cut."""
        parts, rest = factors(theta, blocks, how)
        fits = [block.over.weights.shape[0] <= chunk for block in blocks]
        held = lambda b, k, part: part.with_rows() if fits[b] and _is_held(how, b, k) else part
        parts = [{k: held(b, k, part) for k, part in some.items()} for b, some in enumerate(parts)]
        return cls(chunked, theta, blocks, how, parts, rest)

    @property
    def shape(self) -> tuple[int, int]:
        return self.chunked.shape

    @property
    def dtype(self) -> Any:
        return self.theta.dtype

    @property
    def mesh(self) -> Mesh | None:
        return mesh_of(self.blocks)

    def __matmul__(self, delta: jax.Array) -> jax.Array:
        if delta.ndim == 2:
            return jax.lax.map(lambda column: self @ column, delta.T).T
        matrices, others = [taken(delta, places) for places in self.how.matrices], delta[self.how.others]
        pairs = zip(self.parts, self.rest, strict=True)
        return stack(self.blocks, [sum((part @ matrices[k] for k, part in p.items()), r @ others) for p, r in pairs])

    def pull(self, r: jax.Array) -> jax.Array:
        if r.ndim == 2:
            return jax.lax.map(self.pull, r.T).T
        given = list(zip(self.parts, self.rest, unstack(self.blocks, r), strict=True))
        others = sum(part @ rest for _, rest, part in given)
        return self._put(lambda k: sum(p[k].pull(part) for p, _, part in given if k in p), others)

    def gram(self) -> jax.Array:
        psi = self.array()
        return psi.T @ psi

    def kernel(self) -> jax.Array:
        def between(a: int, b: int) -> jax.Array:
            pairs = [(part, self.parts[b][k]) for k, part in self.parts[a].items() if k in self.parts[b]]
            return sum((paired(*pair) for pair in pairs), self.rest[a] @ self.rest[b].T)

        numbers = range(len(self.blocks))
        upper = {(a, b): between(a, b) for a in numbers for b in numbers if a <= b}
        band = lambda a: stack(self.blocks, [upper[a, b].T if a <= b else upper[b, a] for b in numbers])
        return stack(self.blocks, [band(a).T for a in numbers])

    def norms(self) -> jax.Array:
        return jnp.sqrt(self._squares(self.parts, self.rest))

    def array(self) -> Rows:
        blocks = []
        for parts, rest in zip(self.parts, self.rest, strict=True):
            psi = jnp.zeros((rest.shape[0], self.theta.size), self.dtype).at[:, self.how.others].set(rest)
            for k, part in parts.items():
                psi = psi.at[:, self.how.matrices[k].reshape(-1)].set(part.some(0, part.left.shape[2]))
            blocks.append(psi)
        return stack(self.blocks, blocks)

    def some(self, points: int) -> Rows:
        return self.chunked.some(points)

    def scaled(self, scale: jax.Array) -> AbstractRows:
        if not self.factored:
            return self.chunked.scaled(scale)
        matrices, others = [taken(scale, places) for places in self.how.matrices], scale[self.how.others]
        parts = [{k: part.scaled(matrices[k]) for k, part in some.items()} for some in self.parts]
        rest = [row / others[None, :] for row in self.rest]
        return dataclasses.replace(self, chunked=self.chunked.scaled(scale), parts=parts, rest=rest)

    def in_coordinates(self, scale: jax.Array) -> tuple["Layered", jax.Array]:
        """The nearest scale whose part for every matrix is a product, so that its factors stay factors."""
        return dataclasses.replace(self, factored=True), factored(scale, self.how)

    def turned(self, direction: Vector) -> jax.Array:
        moved = lambda theta: factors(theta, self.blocks, self.how)
        (found, _), (turned, rest) = jax.jvp(moved, (self.theta,), (direction,))
        # The derivative of l h^T is l' h^T + l h'^T.
        product = lambda f, g: Factors(g.left, f.right).beside(Factors(f.left, g.right))
        pairs = zip(found, turned, strict=True)
        return self._squares([{k: product(f[k], g[k]) for k in f} for f, g in pairs], rest)

    def _squares(self, parts: list[dict[int, Factors]], rest: list[jax.Array]) -> Vector:
        """The squared norms of all columns."""
        others = sum(jnp.sum(row**2, axis=0) for row in rest)
        return self._put(lambda k: sum(_column_squares(some[k]) for some in parts if k in some), others)

    def _put(self, matrix: Callable[[int], Any], others: Any) -> Vector:
        """A vector of parameters, from its part for every matrix, by number, and for the other parameters."""
        found = jnp.zeros_like(self.theta).at[self.how.others].set(others)
        for k, places in enumerate(self.how.matrices):
            found = _given(found, places, matrix(k))
        return found


def _given(theta: Vector, places: np.ndarray, matrix: Any) -> Vector:
    """The vector with the entries of a matrix in their places."""
    order = run_order(places)
    if order is None:
        return theta.at[places].set(matrix)
    return jax.lax.dynamic_update_slice_in_dim(theta, matrix.transpose(order).reshape(-1), int(places.min()), 0)


def factored(scale: jax.Array, how: Plan) -> jax.Array:
    """The scale whose part for every matrix is the product of a row and a column factor: geometric means.

    Entries that are held, by a scale beyond all measure, count only where their whole row or column is held.
    """
    held = scale >= jnp.finfo(scale.dtype).max ** 0.25
    for places in how.matrices:
        free, logs = ~taken(held, places), jnp.log(taken(scale, places))
        mean = lambda axis, free=free, logs=logs: jnp.where(
            jnp.any(free, axis), jnp.sum(jnp.where(free, logs, 0), axis) / jnp.maximum(jnp.sum(free, axis), 1),
            jnp.max(logs, axis),
        )  # fmt: skip
        scale = _given(scale, places, jnp.exp(mean(1)[:, None] + mean(0)[None, :] - mean((0, 1))))
    return scale


def _pieces(n_out: int, numbers: int) -> list[tuple[int, int]]:
    """How n_out outputs, each of so many numbers, are taken a few at a time: how many pieces of which size."""
    size = min(max(NUMBERS // numbers, 1), n_out)
    pieces = [(n_out // size, size), (1, n_out % size)]
    return [piece for piece in pieces if piece[1]]


def _column_squares(part: Factors) -> jax.Array:
    """The sums of squares over all rows, n_out x n_in."""
    if part.left.shape[1] == 1:
        return (part.left[:, 0] ** 2).T @ part.repeated()[:, 0] ** 2
    (rows, _, n_out), n_in = part.left.shape, part.right.shape[2]
    found, done = [], 0
    for count, size in _pieces(n_out, rows * n_in):
        at = lambda start, size=size: jnp.sum(part.some(start, size) ** 2, axis=0).reshape(size, n_in)
        found.append(jax.lax.map(at, done + size * jnp.arange(count)).reshape(-1, n_in))
        done += count * size
    return jnp.concatenate(found)


def paired(first: Factors, second: Factors) -> jax.Array:
    """The inner products of all rows of one block with all of another, for one matrix, in the cheaper of two orders."""
    (_, R, n_out), (_, Q, n_in) = first.left.shape, second.right.shape
    if needs_rows(R, Q, n_out, n_in):
        return _by_rows(first, second)
    left = jnp.einsum("iro,jqo->irjq", first.left, second.left)
    right = jnp.einsum("irn,jqn->irjq", first.right, second.right)
    m, n = right.shape[0], right.shape[2]
    left = left.reshape(m, first.values, R, n, second.values, Q)
    return jnp.einsum("mprnsq,mrnq->mpns", left, right).reshape(m * first.values, n * second.values)


def _by_rows(first: Factors, second: Factors) -> jax.Array:
    """The same from the rows themselves, for some outputs at a time."""
    (rows, _, n_out), n_in = first.left.shape, first.right.shape[2]
    found, done = jnp.zeros((rows, second.left.shape[0]), first.left.dtype), 0
    for count, size in _pieces(n_out, max(found.shape) * n_in):
        at = lambda start, size=size: first.some(start, size) @ second.some(start, size).T
        found = jax.lax.fori_loop(0, count, lambda i, K, at=at, done=done, size=size: K + at(done + size * i), found)
        done += count * size
    return found
