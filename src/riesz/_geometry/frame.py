"""The frame at theta: v = D(theta), its tangent space under W and X, and the loss's differential there."""

import copy
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import _check
from .._linalg.filters import AbstractFilter, Floor
from .._linalg.solvers import QRSVD, AbstractFactorisation
from .._problem.features import Features, evaluate, features
from .._problem.integral import AbstractLoss, check_problem
from .._problem.measures import Points
from .._types import Operator, Parametrisation, Vector
from .inner_products import L2, AbstractInnerProduct, AbstractMetric, GaussNewton
from .streamed import Streamed, pull
from .tangent import Block, Differential, TangentSpace


class Sample(eqx.Module):
    """What one step sees: the points of every term of the loss, and of W and X where they have their own."""

    terms: tuple[Points, ...]
    W: Points | None = None
    X: Points | None = None


def draw_sample(
    loss: AbstractLoss,
    D: Parametrisation,
    theta: Vector,
    key: Any,
    W: AbstractMetric,
    X: AbstractMetric | None = None,
) -> Sample:
    """The points of one step: those of the loss, and of W and X where they have measures of their own."""
    keys = (None, None, None) if key is None else jax.random.split(key, 3)
    return Sample(
        loss.draw(keys[0], D, theta),
        W.draw(keys[1], D, theta),
        None if X is None else X.draw(keys[2], D, theta),
    )


class Frame:
    """Everything a step may ask at theta, computed when it is first asked for, and once.

    A frame lives inside one step while it is traced; it is not a pytree.
    """

    def __init__(
        self,
        loss: AbstractLoss,
        D: Parametrisation,
        theta: Vector,
        sample: Sample,
        *,
        W: AbstractMetric,
        X: AbstractInnerProduct | None = None,
        filter: AbstractFilter,
        factorisation: AbstractFactorisation | None = None,
    ):
        self.loss, self.D, self.theta, self.sample = loss, D, theta, sample
        self.filter, self.factorisation = filter, factorisation
        self._W, self._X = W, X

    def replace(self, filter: AbstractFilter, factorisation: AbstractFactorisation | None = None) -> "Frame":
        """The same frame with another filter, sharing rows and factorisation; or with another factorisation too."""
        other = copy.copy(self)
        other.filter = filter
        for name in ("W", "X", "gradient"):
            other.__dict__.pop(name, None)
        if factorisation is not None:
            other.factorisation = factorisation
        elif "W" in self.__dict__:
            other.__dict__["W"] = eqx.tree_at(lambda space: space.filter, self.W, filter)
        return other

    @property
    def _how(self) -> AbstractFactorisation:
        return QRSVD() if self.factorisation is None else self.factorisation

    @property
    def chunk(self) -> int | None:
        """How many points at a time rows are assembled for; None for all of them."""
        return self._how.at_once

    def assemble(self, operator: Operator, x: jax.Array) -> Features:
        """Values at the points, and rows unless they are assembled in chunks."""
        if self.chunk is None:
            return features(self.D, operator, self.theta, x)
        return Features(evaluate(self.D, operator, self.theta, x), None)

    def streamed(self, blocks: tuple[Block, ...]) -> Streamed | None:
        """The rows of blocks where they are assembled in chunks."""
        return None if self.chunk is None else Streamed(self.D, self.theta, blocks, self.chunk)

    def psi(self, blocks: tuple[Block, ...]) -> Any:
        """The weighted rows of blocks: an array, or their products where the factorisation needs no more."""
        streamed = self.streamed(blocks)
        if streamed is None:
            return jnp.concatenate([block.weighted for block in blocks])
        return streamed.stored if self._how.stores else streamed

    @cached_property
    def features(self) -> tuple[Features, ...]:
        """Values and rows of every term: the one Jacobian of a step."""
        terms = zip(self.loss.terms, self.sample.terms, strict=True)
        return tuple(self.assemble(term.operator, over.x) for term, over in terms)

    @property
    def _has_features(self) -> bool:
        return "features" in self.__dict__

    @cached_property
    def values(self) -> tuple[jax.Array, ...]:
        """z_j of every term; a forward pass, unless the Jacobian has brought them along."""
        if self._has_features:
            return tuple(feats.values for feats in self.features)
        terms = zip(self.loss.terms, self.sample.terms, strict=True)
        return tuple(evaluate(self.D, term.operator, self.theta, over.x) for term, over in terms)

    @cached_property
    def value(self) -> jax.Array:
        """L(v)."""
        parts = zip(self.loss.terms, self.values, self.sample.terms, strict=True)
        return jnp.sum(jnp.stack([term.integrate(z, over) for term, z, over in parts]))

    @cached_property
    def differential(self) -> Differential:
        """L'(v)."""
        parts = zip(self.loss.terms, self.values, self.sample.terms, strict=True)
        return Differential(tuple(term.slope(z, over) for term, z, over in parts))

    @cached_property
    def W(self) -> Any:
        """The space in which the gradient of the loss is represented."""
        return self._W.space(self, self.sample.W)

    @cached_property
    def X(self) -> TangentSpace:
        """The tangent space onto which momentum is projected; W's own where the two agree."""
        if self._X is None or (isinstance(self._X, L2) and isinstance(self._W, GaussNewton) and self._W.is_L2(self)):
            return self.W
        return self._X.space(self, self.sample.X)

    def covector(self, differential: Differential) -> Vector:
        """L'(psi(theta)) in R^d: with the frame's own L', the gradient of the loss in theta."""
        weighted = [
            over.weights[:, None] * slope for over, slope in zip(self.sample.terms, differential.slopes, strict=True)
        ]
        if self._has_features and self.chunk is None:
            parts = zip(self.features, weighted, strict=True)
            return sum(jnp.einsum("mpd,mp->d", feats.rows, slope) for feats, slope in parts)  # type: ignore[return-value]
        terms = zip(self.loss.terms, self.sample.terms, weighted, strict=True)
        pulled = [pull(self.D, term.operator, self.theta, over.x, slope, self.chunk) for term, over, slope in terms]
        return jnp.sum(jnp.stack(pulled), axis=0)

    @cached_property
    def gradient(self) -> Vector:
        """Coefficients of grad L(v), the representer of the frame's own differential."""
        _ = self.W  # first, because its Jacobian brings along the values that the differential needs
        return self.representer(self.differential)

    def representer(self, differential: Differential) -> Vector:
        """Coefficients g of the Riesz representer in T_theta: (psi^T g, w)_W = L'(w) for all w in T_theta."""
        rows, rest = self.W.lift(differential)
        if rows is None:
            return self.W.riesz(self.covector(rest))
        if rest is None:
            return self.W.project(rows)
        return self.W.project(rows) + self.W.riesz(self.covector(rest))

    @property
    def gradient_norm(self) -> jax.Array:
        """|grad L(v)| in W: the norm of the representer of the frame's own differential."""
        rows, rest = self.W.lift(self.differential)
        covector = jnp.zeros_like(self.theta) if rest is None else self.covector(rest)
        return self.W.factorised.norm(rows, covector, self.filter)


def tangent_space(
    loss: AbstractLoss,
    D: Parametrisation,
    theta: Vector,
    W: AbstractInnerProduct | None = None,
    filter: AbstractFilter | None = None,
    factorisation: AbstractFactorisation | None = None,
    key: Any = None,
) -> TangentSpace:
    r"""The tangent space $T_\theta$ of the model class at D(theta), with the inner product W.

    **Arguments:**

    - `loss`, `D`, `theta`: the problem and the parameters.
    - `W`: the inner product; `L2()` by default.
    - `filter`: how its Gram matrix is inverted; `Floor(1e-8)` by default.
    - `factorisation`: `QRSVD()` by default.
    - `key`: needed where points are drawn.

    ```python
    space = riesz.tangent_space(loss, D, theta)
    space.gram, space.rank, space.norm(delta), space.riesz(covector)
    ```
    """
    W = L2() if W is None else W
    filter = Floor(1e-8) if filter is None else filter
    _check.kind("W", W, AbstractInnerProduct, "an inner product, such as riesz.L2()")
    _check.kind("filter", filter, AbstractFilter, "a filter, such as riesz.Floor(1e-8)")
    if factorisation is not None:
        _check.kind("factorisation", factorisation, AbstractFactorisation, "riesz.QRSVD(), riesz.Gram() or None")
    theta = _check.native(theta)
    check_problem(loss, D, theta, key)
    if W.drawn and key is None:
        raise ValueError("key must be given, such as jax.random.key(0): W draws its points.")
    sample = draw_sample(loss, D, theta, key, W)
    return Frame(loss, D, theta, sample, W=W, filter=filter, factorisation=factorisation).W
