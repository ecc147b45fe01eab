"""Inner products W and X on functions: which rows, with which point-wise form."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax

from .. import _check
from .._linalg.filters import AbstractFilter
from .._linalg.solvers import AbstractSolver
from .._problem.features import Whole
from .._problem.integral import AbstractLoss, Integral
from .._problem.known import Known
from .._problem.measures import AbstractMeasure, Points
from .._problem.operators import identity
from .._types import Operator, Parametrisation, Vector
from .assembly import rows_of
from .forms import AbstractForm, Diagonal, Full, Identity, bounded, form_of
from .linearise import Linearisation, Part, Sample
from .rows import Block
from .tangent import AbstractSpace, TangentSpace


class AbstractMetric(eqx.Module):
    """What stands in for G: it turns the linearisation at theta into a space that solves with it."""

    needs_rows: ClassVar[bool] = True
    """Whether its spaces are made of rows."""

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> Points | None:
        """The points of the metric's own measure for one step, if it has one."""
        return None

    @property
    def drawn(self) -> bool:
        """Whether the metric's own measure is drawn anew each step."""
        return False

    @abc.abstractmethod
    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> AbstractSpace:
        """The space at theta; `over` are the points of the metric's own measure, if it has one."""


class AbstractInnerProduct(AbstractMetric):
    """An inner product of functions, (f, g) = sum_j w_j (A f)(x_j)^T M_j (A g)(x_j)."""

    @abc.abstractmethod
    def blocks(self, at: Linearisation, over: Points | None) -> tuple[Block, ...]:
        """The blocks of rows that the inner product has at theta."""

    def space(
        self, at: Linearisation, over: Points | None, solver: AbstractSolver, filter: AbstractFilter
    ) -> TangentSpace:
        blocks = self.blocks(at, over)
        return TangentSpace.of(blocks, rows_of(at.D, at.theta, blocks, at.chunk), solver, filter)


def _blocks_of_terms(at: Linearisation, form: Callable[[Part], AbstractForm | None]) -> tuple[Block, ...]:
    """One block for each term of the loss that has a form."""
    forms = [(t, part, form(part)) for t, part in enumerate(at.parts)]
    return tuple(Block(part.term.operator, part.over, M, part.features, t) for t, part, M in forms if M is not None)


class L2(AbstractInnerProduct):
    r"""The identity on the z of every term, over every term's measure: $\sum_j w_j\, z_j^T z_j'$."""

    def blocks(self, at: Linearisation, over: Points | None) -> tuple[Block, ...]:
        return _blocks_of_terms(at, lambda part: Identity())


class GaussNewton(AbstractInnerProduct):
    r"""The Hessian of the loss, $H_L(f, g) = \sum_j w_j\, (A f)_j^T\, \ell''(z_j)\, (A g)_j$.

    For least squares it is `L2()`. Terms with a linear density add nothing.
    """

    def blocks(self, at: Linearisation, over: Points | None) -> tuple[Block, ...]:
        blocks = _blocks_of_terms(at, lambda part: form_of(part.term, part.features.values, part.over))
        if not blocks:
            raise ValueError("W=GaussNewton() has no metric here: every density of the loss is linear.")
        return blocks


class BoundedGaussNewton(AbstractInnerProduct):
    """Gauss-Newton with l'' raised where a point would promise to gain more than its loss, as auto has it."""

    share: jax.Array
    """How far l'' is raised: 1 far from a minimiser, 0 at one, where Gauss-Newton's own steps converge fastest."""

    def blocks(self, at: Linearisation, over: Points | None) -> tuple[Block, ...]:
        def form(part: Part) -> AbstractForm | None:
            where = part.features.values, part.over
            second = form_of(part.term, *where)
            # The model of a quadratic density is exact, whatever it promises.
            if not isinstance(second, Diagonal | Full) or part.term.quadratic(*where):
                return second
            return bounded(second, part.densities, part.slopes, self.share)

        return _blocks_of_terms(at, form)


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
            if self.over.adapts:
                raise ValueError("over must not be adaptive for an inner product: only the points of a loss adapt.")

    @property
    def drawn(self) -> bool:
        return self.over is not None and self.over.drawn

    def draw(self, key: Any, D: Parametrisation, theta: Vector) -> Points | None:
        if self.over is None:
            return None
        return self.over.draw(key, Known(D, theta, self.operator, self.density)).draw()  # without a domain

    def blocks(self, at: Linearisation, over: Points | None) -> tuple[Block, ...]:
        if over is None and any(isinstance(part.term.operator, Whole) for part in at.parts):
            raise ValueError(
                "over must be given to an InnerProduct where the loss has a ResidualVector: it has no points."
            )
        measures = tuple(part.over for part in at.parts) if over is None else (over,)
        return tuple(self._block(at, points) for points in measures)

    def _block(self, at: Linearisation, over: Points) -> Block:
        known, form = at.features(self.operator, over.x), Identity()
        if self.density is not None:
            form = form_of(Integral(self.density, over, self.operator), known.values, over)
        if form is None:
            raise ValueError("density must be curved: that of an InnerProduct is linear, so that it has no rows.")
        return Block(self.operator, over, form, known, None)


def same_rows(first: tuple[Block, ...], second: tuple[Block, ...]) -> bool:
    """Whether two inner products have the same rows here, so that one factorisation serves both.

    Both then consist of the rows of the loss's own terms, unchanged, as L2 and Gauss-Newton do for least squares.
    """
    plain = lambda blocks: [block.term if isinstance(block.form, Identity) else None for block in blocks]
    return plain(first) == plain(second) and None not in plain(first)


def draw_sample(
    loss: AbstractLoss, D: Parametrisation, theta: Vector, key: Any, W: AbstractMetric, X: AbstractMetric | None = None
) -> Sample:
    """The points of one step: those of the loss, and of W and X where they have measures of their own."""
    keys = (None, None, None) if key is None else jax.random.split(key, 3)
    own = None if X is None else X.draw(keys[2], D, theta)
    return Sample(loss.draw(keys[0], D, theta), W.draw(keys[1], D, theta), own)
