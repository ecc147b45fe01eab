"""Inner products W and X on functions: which rows, with which point-wise form."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .. import _check
from .._problem.features import features
from .._problem.integral import Integral
from .._problem.measures import AbstractMeasure, Points
from .._problem.operators import identity
from .._types import Operator, Parametrisation, Vector
from .tangent import Block, Curvature, TangentSpace

if TYPE_CHECKING:
    from .frame import Frame


class AbstractMetric(eqx.Module):
    """What stands in for G: it turns the frame at theta into a space that solves with it."""

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> Points | None:
        """The points of the metric's own measure for one step, if it has one."""
        return None

    @property
    def drawn(self) -> bool:
        """Whether the metric's own measure is drawn anew each step."""
        return False

    @abc.abstractmethod
    def space(self, frame: "Frame", over: Points | None) -> Any:
        """The space at the frame's theta: it has `rank`, `lift`, `riesz`, and `project` where it has rows."""


class AbstractInnerProduct(AbstractMetric):
    """An inner product of functions, (f, g) = sum_j w_j (A f)(x_j)^T M_j (A g)(x_j)."""

    @abc.abstractmethod
    def blocks(self, frame: "Frame", over: Points | None) -> tuple[Block, ...]:
        """The blocks of rows that the inner product has at the frame's theta."""

    def space(self, frame: "Frame", over: Points | None) -> TangentSpace:
        """The tangent space at theta with this inner product."""
        blocks = self.blocks(frame, over)
        return TangentSpace(blocks, frame.filter, frame.factorisation, frame.psi(blocks))


def _is_identity(term: Integral, z: jax.Array, over: Points) -> bool:
    """Whether l'' is the identity whatever z is, as for least squares."""
    fixed = term.fixed_curvature(z, over)
    return fixed is not None and np.array_equal(fixed, np.eye(len(fixed)))


def _form(term: Integral, z: jax.Array, over: Points) -> Curvature | None:
    """The form l''(z_j) at every point; None is the identity."""
    return None if _is_identity(term, z, over) else Curvature.of(term.curvature(z, over))


class L2(AbstractInnerProduct):
    r"""The identity on the z of every term, over every term's measure: $\sum_j w_j\, z_j^T z_j'$."""

    def blocks(self, frame: "Frame", over: Points | None) -> tuple[Block, ...]:
        """One block a term."""
        parts = zip(frame.loss.terms, frame.sample.terms, frame.features, strict=True)
        return tuple(Block(term.operator, over, feats, None, t) for t, (term, over, feats) in enumerate(parts))


class GaussNewton(AbstractInnerProduct):
    r"""The Hessian of the loss, $H_L(f, g) = \sum_j w_j\, (A f)_j^T\, \ell''(z_j)\, (A g)_j$.

    For least squares it is `L2()`. Terms with a linear density add nothing.
    """

    def blocks(self, frame: "Frame", over: Points | None) -> tuple[Block, ...]:
        """One block for each term whose density is not linear."""
        blocks = []
        parts = zip(frame.loss.terms, frame.sample.terms, frame.features, strict=True)
        for t, (term, points, feats) in enumerate(parts):
            if not term.is_linear(feats.values, points):
                blocks.append(Block(term.operator, points, feats, _form(term, feats.values, points), t))
        if not blocks:
            raise ValueError("W=GaussNewton() has no metric here: every density of the loss is linear.")
        return tuple(blocks)

    def is_L2(self, frame: "Frame") -> bool:
        """Whether it is `L2()` here."""
        parts = zip(frame.loss.terms, frame.features, frame.sample.terms, strict=True)
        return all(_is_identity(term, feats.values, over) for term, feats, over in parts)


class InnerProduct(AbstractInnerProduct):
    r"""The inner product of another operator, form or measure: H1, an energy, a weighted L2.

    It is the Hessian of `Integral(density, over, operator)` at the current function,
    $(f, g) = \sum_j w_j\, (A f)_j^T\, \mathrm{density}''\, (A g)_j$.

    **Arguments:**

    - `operator`: the operator A; the identity by default.
    - `density`: a convex function of z, or of (z, data); |z|^2/2, the identity form, by default.
    - `over`: a measure; by default the measures of all terms of the loss.

    ```python
    H1_seminorm = riesz.InnerProduct(riesz.gradient)
    riesz.nhb(W=riesz.GaussNewton(), X=H1_seminorm)
    ```
    """

    operator: Operator = identity
    density: Callable[..., Any] | None = None
    over: AbstractMeasure | None = None

    def __check_init__(self):
        _check.function("operator", self.operator)
        if self.density is not None:
            _check.function("density", self.density)
        if self.over is not None:
            _check.kind("over", self.over, AbstractMeasure, "a measure, such as riesz.grid(0.0, 1.0, 100), or None")

    @property
    def drawn(self) -> bool:
        """Whether its own measure is drawn anew each step."""
        return self.over is not None and self.over.drawn

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> Points | None:
        """The points of its own measure, if it has one."""
        if self.over is None:
            return None
        return self.over.draw(key, lambda x: features(D, self.operator, theta, x).rows)

    def blocks(self, frame: "Frame", over: Points | None) -> tuple[Block, ...]:
        """One block a measure, with this inner product's operator and form."""
        return tuple(self._block(frame, points) for points in (frame.sample.terms if over is None else (over,)))

    def _block(self, frame: "Frame", over: Points) -> Block:
        feats = frame.assemble(self.operator, over.x)
        if self.density is None:
            return Block(self.operator, over, feats, None, None)
        form = _form(Integral(self.density, over, self.operator), feats.values, over)
        return Block(self.operator, over, feats, form, None)
