"""What a run leaves."""

import os
import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._bytes.files import reason
from .._methods.result import Result
from .fingerprint import Origin
from .picture import picture
from .problem import Problem
from .summary import page, summary
from .table import table
from .uncertainty import Spread, predicted, spread


class Start(eqx.Module):
    """One of the starts of a run with restarts, and how it ended."""

    number: int
    """0 for the start that was given."""
    theta0: jax.Array
    result: Result
    steps: int
    loss: float
    """The loss of its best parameters."""
    seconds: float


class Solution(eqx.Module):
    """What `minimise` returns; from `minimise_many`, with a leading axis of starts."""

    theta: jax.Array
    """The best accepted parameters; those that met a target or tolerance; the last ones where points are drawn."""
    loss: jax.Array
    """The loss at theta."""
    last: jax.Array
    """The last accepted parameters: where the method itself stands."""
    result: Any
    """A `Result`, or an array of them."""
    steps: Any
    """The number of steps made, or an array of them."""
    history: dict[str, np.ndarray]
    """loss, seconds, metrics and `between` at every iterate (steps + 1 of them); the other columns for every step.

    `between` is the loss between the points, where these were chosen from a domain; NaN where it was not looked at.
    `redrawn`, where measures adapt, is True at the first iterate whose loss is on points that were placed anew."""
    D: Callable[[Any], Any]
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    """What a user should know beside the result, in sentences."""
    starts: tuple[Start, ...] = ()
    """With `restarts=`, a `Start` for each one that was made, in order; a callback sees those that have ended. Else
    empty."""
    problem: Problem | None = None
    """The loss, D and the method, as they were run; None where they are not known."""
    state: Any = None
    """What the method carries to its next step, from `last`; None where it is not known, and for a batch of starts."""
    between: Any = None
    """The loss at theta between the points, where these were chosen from a domain; None where it is not known."""
    origin: Origin | None = eqx.field(static=True, default=None)
    """What a solution from a file was found with; None for others, whose problem says it."""

    @property
    def params(self) -> Any:
        """The parameters as the pytree that was parametrised, `D.params(theta)`; stacked for a batch of starts."""
        params = getattr(self.D, "params", None)
        if not callable(params):
            raise AttributeError("solution.params needs a D that has D.params, as those of riesz.parametrise have.")
        if self.theta.ndim == 1:
            return params(self.theta)
        stack = lambda *leaves: jnp.stack(leaves) if eqx.is_inexact_array(leaves[0]) else leaves[0]
        return jax.tree.map(stack, *map(params, self.theta))

    @property
    def model(self) -> Any:
        """D(theta): a module of equinox or flax nnx with its trained parameters; else, or for a batch, the function."""
        return self.function

    @property
    def function(self) -> Callable[[Any], Any]:
        """The function D(theta); for a batch of starts, the function whose values are stacked along a first axis."""
        if self.theta.ndim == 1:
            return self.D(self.theta)
        return lambda x: jax.vmap(lambda theta: self.D(theta)(x))(self.theta)

    def save(self, path: str | os.PathLike) -> None:
        """Write the solution to a file, which `riesz.load(path, D)` reads; a file of that name is replaced.

        It is an .npz without pickle that `numpy.load` opens, with a checksum: parameters, loss, history, result, steps,
        notes, starts and the method's state. D and the loss, which are code, are not in it.

        ```python
        solution.save("solution.npz")
        ```
        """
        from .keeping import save  # which knows what a solution was found with

        _check.kind("path", path, str | os.PathLike, "a path")
        try:
            save(self, pathlib.Path(path))
        except OSError as error:
            raise OSError(f"path must be a file that can be written, but {path} cannot: {reason(error)}.") from error

    def table(self) -> dict[str, np.ndarray]:
        """The history as columns of equal length, `step` first, as `pandas.DataFrame` takes them.

        Row k has the loss, the seconds and the metrics at iterate k, and the columns of the step that was made from it:
        its gradient norm is that at iterate k, its step norm that of the way to iterate k + 1. No step was made from
        the last iterate, so that these columns, made floating-point, end with NaN. For a batch of starts the tables are
        one below the other, each as long as its run, and a column `start` comes first.

        ```python
        pandas.DataFrame(solution.table())
        ```
        """
        return table(self)

    def summary(self) -> str:
        """The result with its sentence, loss, steps, seconds, parameters, points, method, solver and notes, as text."""
        return summary(self)

    def plot(self) -> Any:
        """Draw the history with matplotlib: `pip install riesz[plot]`.

        The loss is above, on a logarithmic scale if it is positive, with the steps that were rejected; below it are the
        gradient's norm and the metrics. Phases of auto are shaded. A batch of starts has a line for each.

        **Returns:** the figure.

        ```python
        solution.plot().savefig("history.png")
        ```
        """
        return picture(self)

    def _repr_html_(self) -> str:
        return page(self)

    def covariance(self, sigma: Any = None) -> np.ndarray:
        r"""The covariance matrix of theta, from the tangent space at the solution.

        It is the uncertainty that independent noise in the data leaves, to first order. For least squares the variance
        of the noise is estimated from the residuals, unless `sigma` says it; other densities, robust ones and
        likelihoods, assume no distribution (the sandwich formula). Of mini-batches all points are the data; points that
        are drawn from a domain carry none and are refused. Priors and ridges narrow it. Equations, which are the terms
        made by `riesz.residual`, hold without noise, as firmly as their weights say: what is left is the noise of the
        data in the unknown coefficients of an inverse problem. Directions that nothing decides have no part in it.

        **Arguments:**

        - `sigma`: the standard deviation of the noise, one for all data or one per datum, for least squares.

        ```python
        deviations = np.sqrt(np.diag(solution.covariance()))
        ```
        """
        return self._spread(sigma).covariance

    def deviations(self, sigma: Any = None) -> Any:
        """The standard deviations of the parameters, as the pytree of `params` where D has one, else as a vector.

        They are the square roots of the diagonal of `covariance`, and infinite where nothing decides a parameter, as is
        common among the weights of a network. The unknown coefficient of an equation, one parameter beside a network,
        is found as `solution.params["k"]`, plus or minus `solution.deviations()["k"]`.

        **Arguments:**

        - `sigma`: as for `covariance`.

        ```python
        solution.params["rate"], solution.deviations()["rate"]
        ```
        """
        found = self._spread(sigma).deviations(np.eye(self.theta.size, dtype=self.theta.dtype))
        params = getattr(self.D, "params", None)
        return params(jnp.asarray(found)) if callable(params) else found

    def predict(self, x: Any, std: bool = False, sigma: Any = None) -> Any:
        r"""The values of the function at points, and with `std=True` their standard deviations too.

        The deviations are those of the function, $\sqrt{J(x)\, C\, J(x)^T}$ with the matrix C of `covariance`: twice
        as much to either side is a band that covers the true function at 95 % of the points, as far as the model can
        represent it. They are infinite where the data do not decide the value.

        **Arguments:**

        - `x`: points, along a first axis.
        - `std`: whether to return deviations.
        - `sigma`: as for `covariance`.

        ```python
        values, deviations = solution.predict(x, std=True)
        ```
        """
        if self.theta.ndim != 1:
            raise ValueError("predict needs one solution, not a batch of starts: take solution.theta[i] of one.")
        x = _check.floating("x", x)
        if x.ndim == 0:
            raise ValueError("x must hold points along a first axis, but it is a single number: take x[None].")
        return predicted(self.D, self.theta, x, self._spread(sigma) if std else None)

    def _spread(self, sigma: Any) -> Spread:
        if self.problem is None or self.theta.ndim != 1:
            raise ValueError("covariance needs one solution with its loss: give riesz.load the loss, or run one start.")
        return spread(self.problem.loss, self.problem.D, self.theta, sigma)

    def __repr__(self) -> str:
        if isinstance(self.result, Result):
            return f"Solution(loss={float(self.loss):.6g}, steps={self.steps}, result={self.result.name})"
        names = [result.name for result in self.result]
        counts = ", ".join(f"{name}: {names.count(name)}" for name in dict.fromkeys(names))
        return f"Solution({len(names)} starts, best loss={np.min(np.asarray(self.loss)):.6g}, {counts})"


class SolveError(RuntimeError):
    """A run that failed; the solution so far is attached."""

    solution: Any
    """A `Solution`; of `march`, a `MarchSolution`."""

    def __init__(self, solution: Any, sentence: str | None = None):
        super().__init__(str(solution.result) if sentence is None else sentence)
        self.solution = solution
