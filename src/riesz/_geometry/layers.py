r"""Layers: the kernel matrix of a model whose parameters enter through matrix products, without its rows.

Where a weight matrix A enters as $y_c = A h_c$, with one or a few columns c at a point, the row of a value z is the
short sum of outer products $\partial z/\partial A = \sum_c \bar y_c h_c^T$, and the kernel matrix is a sum of Hadamard
products of small Gram matrices,

$$K_{ij} = \sum_A \sum_{c,c'} (\bar y_{ic} \cdot \bar y_{jc'})\,(h_{ic} \cdot h_{jc'}).$$

Which products there are is read off the traced program, so that any model, and any operator on it, is served: a network
of any library, its gradient, its Laplacian. Parameters that enter otherwise, as biases do, have rows of their own.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._problem.features import Whole
from .._problem.programs import bind, walk
from .._types import Operator, Parametrisation, Vector
from .rows import Block
from .stacking import stack

MOST = 0.5
"""Where more than this share of the parameters enter otherwise than through matrix products, rows are assembled."""
NUMBERS = 2**24
"""About so many numbers of the rows of one matrix are assembled at a time, where that is quicker."""


class View(NamedTuple):
    """An array whose entries are parameters: their places in theta, and their values."""

    places: np.ndarray
    value: jax.Array


def _split(places: np.ndarray, sizes: Any, axis: int, **_: Any) -> list[np.ndarray]:
    return np.split(places, np.cumsum(sizes)[:-1], axis)


def _strided(places: np.ndarray, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> list[np.ndarray]:
    steps = strides or (1,) * places.ndim
    return [places[tuple(map(slice, start_indices, limit_indices, steps))]]


VIEWS: dict[str, Any] = {
    "split": _split,
    "slice": _strided,
    "reshape": lambda places, new_sizes, **_: [places.reshape(new_sizes)],
    "squeeze": lambda places, dimensions, **_: [np.squeeze(places, dimensions)],
    "transpose": lambda places, permutation, **_: [np.transpose(places, permutation)],
}
"""Steps that only move entries, as functions of where these come from."""


class Site(NamedTuple):
    """A matrix product A H of the program, A an array of parameters: where these are, n_out x n_in."""

    places: np.ndarray
    columns: int

    @property
    def key(self) -> tuple[Any, bytes]:
        return self.places.shape, self.places.tobytes()

    @property
    def other_key(self) -> tuple[Any, bytes]:
        """The key of the transposed matrix."""
        return self.places.shape[::-1], self.places.T.tobytes()


@dataclasses.dataclass
class Reading:
    """A walk through the program of a value that notes how parameters are used: in matrix products, or otherwise."""

    moved: list[jax.Array] | None = None
    """Displacements that are added to the products at some sites; None to note sites only."""
    chosen: tuple[int, ...] = ()
    """The numbers of these sites."""
    apart: Any = None
    """The values of parameters that are used otherwise, and which of them is each entry of theta."""
    sites: list[Site] = dataclasses.field(default_factory=list)
    factors: list[jax.Array] = dataclasses.field(default_factory=list)
    """The matrices H of the chosen sites, n_in x columns."""
    others: list[np.ndarray] = dataclasses.field(default_factory=list)
    """The places of parameters that are used otherwise."""

    def value(self, program: Any, theta: Vector, x: jax.Array) -> jax.Array:
        """The value of the program, flattened."""
        start = View(np.arange(theta.size, dtype=np.int32), theta)
        (z,) = walk(program.jaxpr, program.consts, (start, x), self._advance)
        return self._plain(z)

    def _plain(self, argument: Any) -> Any:
        if not isinstance(argument, View):
            return argument
        if self.apart is None:
            self.others.append(argument.places.reshape(-1))
            return argument.value
        # Not from theta, whose derivative would be as long as theta, for every point.
        values, number = self.apart
        wanted = number[argument.places.reshape(-1)]
        first, last = wanted[0], wanted[-1] + 1
        if np.array_equal(wanted, np.arange(first, last)):
            return values[first:last].reshape(argument.places.shape)
        return values[wanted].reshape(argument.places.shape)

    def _advance(self, equation: Any, given: list[Any]) -> list[Any]:
        views, name = [isinstance(a, View) for a in given], equation.primitive.name
        if views == [True] and name in VIEWS and _only_moves(equation):
            places = VIEWS[name](given[0].places, **equation.params)
            return [View(*pair) for pair in zip(places, bind(equation, given[0].value), strict=True)]
        if sum(views) == 1 and name == "dot_general" and not any(equation.params["dimension_numbers"][1]):
            return [self._product(equation, given, views.index(True))]
        return bind(equation, *map(self._plain, given))

    def _product(self, equation: Any, given: list[Any], which: int) -> jax.Array:
        """The product of a matrix of parameters with another array, the one that is `which` of both."""
        contracted = equation.params["dimension_numbers"][0]
        matrix, other = given[which], given[1 - which]
        free = lambda array, side: [a for a in range(array.ndim) if a not in contracted[side]]
        outer, columns = free(matrix.places, which), free(other, 1 - which)
        n_in = math.prod(matrix.places.shape[a] for a in contracted[which])
        places = np.transpose(matrix.places, (*outer, *contracted[which])).reshape(-1, n_in)
        number, count = len(self.sites), math.prod(other.shape[a] for a in columns)
        self.sites.append(Site(places, count))
        if self.moved is not None and number not in self.chosen:
            matrix = View(matrix.places, self._plain(matrix))
        arguments = [matrix.value, other] if which == 0 else [other, matrix.value]
        (product,) = bind(equation, *arguments)
        if self.moved is None or number not in self.chosen:
            return product
        self.factors.append(jnp.transpose(other, (*contracted[1 - which], *columns)).reshape(n_in, count))
        moved = self.moved[self.chosen.index(number)]
        return product + (moved if which == 0 else moved.T).reshape(product.shape)


def _only_moves(equation: Any) -> bool:
    return equation.primitive.name != "reshape" or equation.params["dimensions"] is None


class Plan(NamedTuple):
    """How the parameters of a model enter the values of some operators."""

    programs: list[Any]
    """The traced program of each operator's value at a point."""
    chosen: list[tuple[int, ...]]
    """Of each program, the numbers of the sites whose matrices are used."""
    sites: list[list[Site]]
    matrices: list[tuple[Any, bytes]]
    """Which matrices there are, by their keys."""
    others: np.ndarray
    """The places of the other parameters."""


def plan(D: Parametrisation, theta: Any, values: Sequence[tuple[Operator, Any]]) -> Plan | None:
    """How parameters enter the values of some operators at their points, arrays or shapes of arrays.

    None where most of them do so otherwise than through matrix products.
    """
    if any(isinstance(operator, Whole) for operator, _ in values):
        return None
    programs, readings, shape = [], [], jax.ShapeDtypeStruct(theta.shape, theta.dtype)
    for operator, x in values:
        one = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
        value = lambda theta, x, operator=operator: jnp.ravel(operator(D(theta))(x))
        programs.append(jax.make_jaxpr(value)(shape, one))
        readings.append(Reading())
        jax.eval_shape(lambda theta, x: readings[-1].value(programs[-1], theta, x), shape, one)
    otherwise = np.zeros(theta.size, bool)
    for reading in readings:
        for places in reading.others:
            otherwise[places] = True
    kept: dict[tuple[Any, bytes], Site] = {}
    for site in (site for reading in readings for site in reading.sites):
        if site.key not in kept and site.other_key not in kept:
            kept[site.key] = site
    # Matrices that share parameters with each other, or with another use, are not matrices of their own.
    while True:
        counts = np.where(otherwise, 2, 0)
        for site in kept.values():
            np.add.at(counts, site.places.reshape(-1), 1)
        shared = [key for key, site in kept.items() if (counts[site.places] > 1).any()]
        if not shared:
            break
        for key in shared:
            otherwise[kept.pop(key).places] = True
    others = np.flatnonzero(otherwise)
    if others.size > MOST * theta.size or not kept:
        return None
    known = lambda site: site.key in kept or site.other_key in kept
    chosen = [tuple(i for i, site in enumerate(reading.sites) if known(site)) for reading in readings]
    return Plan(programs, chosen, [reading.sites for reading in readings], list(kept), others)


class Factors(eqx.Module):
    """The rows of one block for one matrix, sum_c left_c right_c^T.

    Shapes are (rows, columns, n_out) and (points, columns, n_in), where all values of a point share their right factor.
    """

    left: jax.Array
    right: jax.Array

    @property
    def values(self) -> int:
        """Values per point."""
        return self.left.shape[0] // self.right.shape[0]

    def repeated(self) -> jax.Array:
        """The right factors of every row."""
        return jnp.repeat(self.right, self.values, axis=0)

    def scaled(self, S: jax.Array) -> "Factors":
        """The factors of Psi S^-1, where S_ij = a_i b_j."""
        return Factors(self.left / S[None, None, :, 0], self.right / (S[None, None, 0] / S[0, 0]))

    def beside(self, other: "Factors") -> "Factors":
        """The factors of the sum of two matrices of rows."""
        sides = zip((self.left, self.right), (other.left, other.right), strict=True)
        return Factors(*(jnp.concatenate(pair, axis=1) for pair in sides))


def factors(theta: Vector, blocks: tuple[Block, ...], how: Plan) -> tuple[list[Any], list[jax.Array]]:
    """The factors of every block for every matrix, and its rows of the other parameters."""
    found: list[dict[Any, Factors]] = []
    rows, number = [], np.zeros(theta.size, int)
    number[how.others] = np.arange(how.others.size)
    for block, program, chosen, sites in zip(blocks, how.programs, how.chosen, how.sites, strict=True):
        still = [jnp.zeros((sites[i].places.shape[0], sites[i].columns), theta.dtype) for i in chosen]

        def at(x: jax.Array, program: Any = program, chosen: Any = chosen, still: Any = still) -> Any:
            def value(moved: Any, others: jax.Array) -> tuple[jax.Array, Any]:
                reading = Reading(moved, chosen, (others, number))
                return reading.value(program, theta, x), reading.factors

            z, pullback, rights = jax.vjp(value, still, theta[how.others], has_aux=True)
            lefts, rest = jax.vmap(pullback)(jnp.eye(z.size, dtype=z.dtype))
            return lefts, rights, rest

        lefts, rights, rest = jax.vmap(at)(block.over.x)
        rows.append(block.weigh(rest) if how.others.size else jnp.zeros((block.rows, 0), theta.dtype))
        by_matrix: dict[Any, list[tuple[jax.Array, jax.Array]]] = {}
        for i, left, right in zip(chosen, lefts, rights, strict=True):
            m, p, n_out, columns = left.shape
            weighed = block.weigh(left.reshape(m, p, -1)).reshape(m * p, n_out, columns)
            pair = jnp.swapaxes(weighed, 1, 2), jnp.swapaxes(right, 1, 2)
            if sites[i].key in how.matrices:
                by_matrix.setdefault(sites[i].key, []).append(pair)
            else:
                # Transposed: what is on the left belongs to the columns of the matrix.
                by_matrix.setdefault(sites[i].other_key, []).append((jnp.repeat(pair[1], p, axis=0), pair[0]))
        found.append({key: _joined(pairs) for key, pairs in by_matrix.items()})
    return found, rows


def _joined(pairs: list[tuple[jax.Array, jax.Array]]) -> Factors:
    """All columns of one matrix; right factors are of points, unless some are of rows."""
    most = max(right.shape[0] for _, right in pairs)
    rights = [jnp.repeat(right, most // right.shape[0], axis=0) for _, right in pairs]
    return Factors(jnp.concatenate([left for left, _ in pairs], axis=1), jnp.concatenate(rights, axis=1))


def kernel(theta: Vector, blocks: tuple[Block, ...], how: Plan, scale: jax.Array | None = None) -> jax.Array:
    """The kernel matrix Psi S^-2 Psi^T of the rows of some blocks, with a scale S as `factored` makes it, or none."""
    found, rows = factors(theta, blocks, how)
    if scale is not None:
        found = [{key: part.scaled(scale[_places(key)]) for key, part in parts.items()} for parts in found]
        rows = [row / scale[how.others][None, :] for row in rows]

    def between(a: int, b: int) -> jax.Array:
        pairs = [(found[a][key], found[b][key]) for key in how.matrices if key in found[a] and key in found[b]]
        return sum((_paired(*pair) for pair in pairs), rows[a] @ rows[b].T)

    numbers = range(len(blocks))
    upper = {(a, b): between(a, b) for a in numbers for b in numbers if a <= b}
    band = lambda a: stack(blocks, [upper[a, b].T if a <= b else upper[b, a] for b in numbers])
    return stack(blocks, [band(a).T for a in numbers])


def squares(theta: Vector, blocks: tuple[Block, ...], how: Plan, along: Vector | None = None) -> Vector:
    """The squared norms of all columns of Psi; or of its derivative along a direction in theta."""
    if along is None:
        found, rows = factors(theta, blocks, how)
    else:
        (found, _), (turned, rows) = jax.jvp(lambda theta: factors(theta, blocks, how), (theta,), (along,))
        # The derivative of l h^T is l' h^T + l h'^T.
        product = lambda f, g: Factors(g.left, f.right).beside(Factors(f.left, g.right))
        found = [{key: product(f[key], g[key]) for key in f} for f, g in zip(found, turned, strict=True)]
    total = jnp.zeros_like(theta).at[how.others].set(sum(jnp.sum(row**2, axis=0) for row in rows))
    for key in how.matrices:
        total = total.at[_places(key)].set(sum(_column_squares(parts[key]) for parts in found if key in parts))
    return total


def factored(scale: jax.Array, how: Plan) -> jax.Array:
    """The scale whose part for every matrix is the product of a row and a column factor: geometric means.

    Entries that are held, by a scale beyond all measure, count only where their whole row or column is held.
    """
    held = scale >= jnp.finfo(scale.dtype).max ** 0.25
    for key in how.matrices:
        places = _places(key)
        free, logs = ~held[places], jnp.log(scale[places])
        mean = lambda axis, free=free, logs=logs: jnp.where(
            jnp.any(free, axis), jnp.sum(jnp.where(free, logs, 0), axis) / jnp.maximum(jnp.sum(free, axis), 1),
            jnp.max(logs, axis),
        )  # fmt: skip
        scale = scale.at[places].set(jnp.exp(mean(1)[:, None] + mean(0)[None, :] - mean((0, 1))))
    return scale


def _places(key: tuple[Any, bytes]) -> np.ndarray:
    """Where the entries of a matrix are in theta, from its key."""
    shape, places = key
    return np.frombuffer(places, np.int32).reshape(shape)


def _column_squares(factors: Factors) -> jax.Array:
    """The sums of squares over all rows, n_out x n_in."""
    if factors.left.shape[1] == 1:
        return (factors.left[:, 0] ** 2).T @ factors.repeated()[:, 0] ** 2
    n_out, n_in = factors.left.shape[2], factors.right.shape[2]
    pieces = _pieces(factors.left, max(NUMBERS // (factors.left.shape[0] * n_in), 1))
    found = jax.lax.map(lambda left: jnp.sum(_assembled(factors, left) ** 2, axis=0), pieces)
    return found.reshape(-1, n_in)[:n_out]


def _pieces(left: jax.Array, size: int) -> jax.Array:
    """Left factors for so many outputs at a time, along a first axis."""
    count = -(-left.shape[2] // size)
    whole = jnp.pad(left, ((0, 0), (0, 0), (0, count * size - left.shape[2])))
    return jnp.moveaxis(whole.reshape(*left.shape[:2], count, size), 2, 0)


def _paired(first: Factors, second: Factors) -> jax.Array:
    """The inner products of all rows of one block with all of another, for one matrix, in the cheaper of two orders."""
    (_, R, n_out), (_, Q, n_in) = first.left.shape, second.right.shape
    if R * Q * (n_in + n_out) > n_in * n_out:
        return _by_rows(first, second)
    left = jnp.einsum("iro,jqo->irjq", first.left, second.left)
    right = jnp.einsum("irn,jqn->irjq", first.right, second.right)
    m, n = right.shape[0], right.shape[2]
    left = left.reshape(m, first.values, R, n, second.values, Q)
    return jnp.einsum("mprnsq,mrnq->mpns", left, right).reshape(m * first.values, n * second.values)


def _by_rows(first: Factors, second: Factors) -> jax.Array:
    """The same from the rows themselves, for some outputs at a time."""
    n_out, n_in = first.left.shape[2], first.right.shape[2]
    rows = max(first.left.shape[0], second.left.shape[0])
    size = max(NUMBERS // (rows * n_in), 1)
    if size >= n_out:
        return _assembled(first, first.left) @ _assembled(second, second.left).T

    def add(so_far: jax.Array, lefts: Any) -> tuple[jax.Array, None]:
        return so_far + _assembled(first, lefts[0]) @ _assembled(second, lefts[1]).T, None

    zero = jnp.zeros((first.left.shape[0], second.left.shape[0]), first.left.dtype)
    return jax.lax.scan(add, zero, (_pieces(first.left, size), _pieces(second.left, size)))[0]


def _assembled(factors: Factors, left: jax.Array) -> jax.Array:
    """Rows for some of the outputs."""
    return jnp.einsum("iro,irn->ion", left, factors.repeated()).reshape(left.shape[0], -1)
