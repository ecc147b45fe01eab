"""`tangent_space`: the tangent space at given parameters, for whoever wants to look at it."""

from typing import Any

from .. import _check
from .._geometry.inner_products import L2, AbstractInnerProduct, draw_sample
from .._geometry.linearise import linearise
from .._geometry.tangent import TangentSpace
from .._linalg.filters import AbstractFilter, Floor
from .._linalg.solvers import AbstractSolver, as_solver, check_filter
from .._problem.checks import check_problem
from .._problem.integral import AbstractLoss
from .._types import Parametrisation, Vector


def tangent_space(
    loss: AbstractLoss,
    D: Parametrisation,
    theta: Vector,
    W: AbstractInnerProduct | None = None,
    filter: AbstractFilter | None = None,
    factorisation: AbstractSolver | None = None,
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
    solver = as_solver(factorisation)
    check_filter(solver, filter)
    theta = _check.native(theta)
    check_problem(loss, D, theta, key)
    if W.drawn and key is None:
        raise ValueError("key must be given, such as jax.random.key(0): W draws its points.")
    sample = draw_sample(loss, D, theta, key, W)
    at = linearise(loss, D, theta, sample, chunk=solver.points_at_once)
    return W.space(at, sample.W_points, solver, filter)
