r"""Layers: how the parameters of a model enter its values, through matrix products or otherwise.

Where a weight matrix A enters as $y_c = A h_c$, with one or a few columns c at a point, the row of a value z is the
short sum of outer products $\partial z/\partial A = \sum_c \bar y_c h_c^T$. Which products there are is read off the
traced program, so that any model, and any operator on it, is served: a network of any library, its gradient, its
Laplacian.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._problem.features import Whole
from .._problem.programs import bind, has_loop, walk, without_unused
from .._types import Operator, Parametrisation, Vector

MOST = 0.5
"""Where more than this share of the parameters enter otherwise than through matrix products, rows are assembled."""


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


def run_order(places: np.ndarray) -> tuple[int, ...] | None:
    """The order of the axes in which entries lie one after the other, as those of a transposed matrix do; else None."""
    first = int(places.min()) if places.size else 0
    if places.size == 0 or int(places.max()) - first + 1 != places.size:
        return None
    run, orders = np.arange(first, first + places.size), itertools.permutations(range(places.ndim))
    return next((order for order in orders if np.array_equal(places.transpose(order).reshape(-1), run)), None)


def taken(theta: Vector, places: np.ndarray) -> jax.Array:
    """The entries in some places, without looking each of them up where they lie one after the other.

    Derivatives of a look-up are additions one by one, which take longer than all else.
    """
    order = run_order(places)
    if order is None:
        return theta[places]
    run = jax.lax.slice_in_dim(theta, int(places.min()), int(places.min()) + places.size)
    return run.reshape([places.shape[axis] for axis in order]).transpose(np.argsort(order))


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
        return taken(values, number[argument.places])

    def _advance(self, equation: Any, given: list[Any]) -> list[Any]:
        views, name = [isinstance(a, View) for a in given], equation.primitive.name
        if views == [True] and name in VIEWS and _only_moves(equation):
            places = VIEWS[name](given[0].places, **equation.params)
            return [View(*pair) for pair in zip(places, bind(equation, given[0].value), strict=True)]
        if sum(views) == 1 and name == "dot_general" and _is_matrix_product(equation):
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


def _is_matrix_product(equation: Any) -> bool:
    """Whether both factors and their product are numbers of one kind, no batch of matrices, and none is empty.

    A real matrix times a complex array has another derivative than its transpose times what comes back.
    """
    arrays = [v.aval for v in (*equation.invars, *equation.outvars)]
    batched = any(equation.params["dimension_numbers"][1])
    return not batched and all(a.size > 0 and a.dtype == arrays[0].dtype for a in arrays)


class Use(NamedTuple):
    """A site whose matrix is one of the plan's."""

    site: int
    """The number of the site in its program."""
    matrix: int
    transposed: bool
    """Whether the product is with the transposed matrix."""
    columns: int


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """How the parameters of a model enter the values of some operators."""

    programs: list[Any]
    """The traced program of each operator's value at a point."""
    uses: list[tuple[Use, ...]]
    """Of each program, where its matrices are used."""
    matrices: list[np.ndarray]
    """The matrices, each by the places of its parameters in theta, n_out x n_in."""
    others: np.ndarray
    """The places of the other parameters."""

    def columns(self, program: int, matrix: int) -> int:
        """How many columns a matrix is multiplied with at a point, in one of the programs."""
        return sum(use.columns for use in self.uses[program] if use.matrix == matrix)


def plan(D: Parametrisation, theta: Any, values: Sequence[tuple[Operator, Any]]) -> Plan | None:
    """How parameters enter the values of some operators at their points, arrays or shapes of arrays.

    None where most of them do so otherwise than through matrix products, and where a loop has no reverse mode.
    """
    if any(isinstance(operator, Whole) for operator, _ in values):
        return None
    programs, readings, shape = [], [], jax.ShapeDtypeStruct(theta.shape, theta.dtype)
    for operator, x in values:
        one = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
        value = lambda theta, x, operator=operator: jnp.ravel(operator(D(theta))(x))
        programs.append(without_unused(jax.make_jaxpr(value)(shape, one)))
        if has_loop(programs[-1].jaxpr):
            return None
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
    numbers = {key: number for number, key in enumerate(kept)}

    def use(i: int, site: Site) -> Use | None:
        transposed = site.key not in numbers
        number = numbers.get(site.other_key if transposed else site.key)
        return None if number is None else Use(i, number, transposed, site.columns)

    found = [[use(i, site) for i, site in enumerate(reading.sites)] for reading in readings]
    uses = [tuple(each for each in some if each is not None) for some in found]
    return Plan(programs, uses, [site.places for site in kept.values()], others)
