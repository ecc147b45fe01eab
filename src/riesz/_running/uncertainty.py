r"""Uncertainty: how far noise in the data moves the parameters, in the tangent space at the solution."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._geometry.linearise import Part, Sample, linearise
from .._problem.curvature import Curvature
from .._problem.features import features
from .._problem.integral import AbstractLoss, AbstractTerm
from .._problem.losses import Departure, Residual
from .._problem.measures import Minibatch, Points
from .._problem.operators import identity
from .._problem.ridge import Displacement
from .._types import Parametrisation, Vector


class Spread(eqx.Module):
    r"""The covariance $C = F F^T$ of the parameters, and what the data leave open."""

    factor: np.ndarray
    """F, with one column per direction that is decided."""
    open: np.ndarray
    """An orthonormal basis of the directions that neither data nor priors decide, as columns."""

    @property
    def covariance(self) -> np.ndarray:
        """C; directions that nothing decides have no part in it."""
        return self.factor @ self.factor.T

    def deviations(self, rows: np.ndarray) -> np.ndarray:
        """The standard deviations of linear functions of the parameters, infinite where one of them is not decided."""
        lengths = np.linalg.norm(rows, axis=-1)
        left = np.linalg.norm(rows @ self.open, axis=-1) > np.sqrt(np.finfo(rows.dtype).eps) * lengths
        return np.where(left, np.inf, np.linalg.norm(rows @ self.factor, axis=-1))


def is_prior(term: AbstractTerm) -> bool:
    """Whether a term is no data: a prior on functions, or a ridge on parameters."""
    return isinstance(term.operator, Departure) or isinstance(getattr(term.operator, "residual", None), Displacement)


def is_equation(term: AbstractTerm) -> bool:
    """Whether a term, made by `residual`, says what holds without noise."""
    return isinstance(term.operator, Residual)


def all_points(term: AbstractTerm, D: Parametrisation, theta: Vector) -> Points:
    """The data of a term: fixed points, or all those from which mini-batches are drawn, of positive weight."""
    over = term.over.points if isinstance(term.over, Minibatch) else term.over
    if over is not None and over.drawn:
        if is_equation(term):
            return _many(term, D, theta)
        raise ValueError(
            "covariance needs data at fixed points, or mini-batches of them: points that are drawn from a domain "
            "carry no data, and no noise."
        )
    whole = eqx.tree_at(lambda term: term.over, term, over, is_leaf=lambda leaf: leaf is None)
    drawn = whole.draw_points(None, D, theta)
    return drawn if over is None else drawn.take(np.flatnonzero(np.asarray(drawn.weights) > 0))


def _many(term: AbstractTerm, D: Parametrisation, theta: Vector) -> Points:
    """As many draws of an equation's points as see every direction: four points for each parameter."""
    draw = lambda number: term.draw_points(jax.random.fold_in(jax.random.key(0), number), D, theta)
    draws = [first := draw(0), *map(draw, range(1, -(-4 * theta.size // first.weights.size)))]
    weights = jnp.concatenate([each.weights for each in draws]) / len(draws)
    return Points(jnp.concatenate([each.x for each in draws]), weights, None)


def _rows(part: Part) -> np.ndarray:
    """The rows sqrt(w_j) dz_j/dtheta of a term, of shape (m, p, d)."""
    return np.sqrt(np.asarray(part.over.weights))[:, None, None] * np.asarray(part.features.jacobians)


def spread(loss: AbstractLoss, D: Parametrisation, theta: Vector, sigma: Any = None) -> Spread:
    r"""The covariance of the parameters at a minimiser.

    For least squares $C = s^2 G^{-1}$ with $G = \sum_j w_j J_j^T J_j$ and the mean square
    $s^2 = \sum_j w_j |r_j|^2 / (N - k)$, where k is the number of parameters that the data decide: noise is taken to be
    independent, with a variance that goes like $1/w_j$. With a known `sigma`,
    $C = G^{-1} \big(\sum_j w_j^2 \sigma_j^2 J_j^T J_j\big) G^{-1}$. For other densities, robust ones and likelihoods,
    $C = H^{-1} \big(\frac{N}{N - k} \sum_j w_j^2 J_j^T \ell'_j \ell_j'^T J_j\big) H^{-1}$ with
    $H = \sum_j w_j J_j^T \ell''_j J_j$, which assumes no distribution. Priors and ridges add to G and H, as if they
    had been data with the noise of the others. Equations add to G and H alone, and not to the noise between their
    inverses: $C = s^2 G^{-1} (G - G_E) G^{-1}$ with the $G_E$ of the equations.
    """
    points = tuple(all_points(term, D, theta) for term in loss.terms)
    at = linearise(loss, D, theta, Sample(points))
    data, priors, equations = [], [], []
    for part in at.parts:
        (priors if is_prior(part.term) else equations if is_equation(part.term) else data).append(part)
    if not data:
        raise ValueError("covariance needs data, but the loss holds only priors and equations.")
    known, exact = _stacked(priors, theta), _stacked(equations, theta)
    quadratic = all(part.term.curvature(part.features.values, part.over) is Curvature.IDENTITY for part in data)
    if quadratic:
        return _of_least_squares(data, known, exact, sigma)
    if sigma is not None:
        raise ValueError("sigma must be None unless the loss is one of least squares: its density says what noise is.")
    return _of_densities(data, known, exact)


def _stacked(parts: list[Part], theta: Vector) -> np.ndarray:
    """The rows of several terms, one below the other."""
    none = np.zeros((0, theta.size), theta.dtype)
    return np.concatenate([none, *(_rows(part).reshape(-1, theta.size) for part in parts)])


def _of_least_squares(data: list[Part], known: np.ndarray, exact: np.ndarray, sigma: Any) -> Spread:
    rows = np.concatenate([_rows(part).reshape(-1, known.shape[1]) for part in data])
    noisy = np.concatenate([rows, known])
    # Of the triangular factor, which is small, all right singular vectors are wanted.
    triangle = np.asarray(np.linalg.qr(np.concatenate([noisy, exact]), mode="r"))
    _, s, Vt = np.linalg.svd(triangle, full_matrices=True)
    kept = s > np.finfo(s.dtype).eps * max(len(rows), rows.shape[1]) * s[0]
    V, s = Vt[: s.size][kept].T, s[kept]
    rest = np.concatenate([Vt[: kept.size][~kept], Vt[kept.size :]]).T
    if sigma is None:
        squares = sum(float(part.over.weights @ jnp.sum(part.slopes**2, axis=1)) for part in data)
        # The residuals are (I - F F^T) times the noise, which without equations is a projection.
        F = noisy @ V / s
        own = F[: len(rows)].T @ F[: len(rows)]
        freedom = len(rows) - 2 * np.trace(own) + np.sum(own * (F.T @ F))
        if freedom < 0.5:
            raise ValueError("covariance needs more data than parameters to estimate the noise; give sigma.")
        factor = _triangular(F / s, V) if len(exact) else V / s
        return Spread(np.sqrt(squares / freedom) * factor, rest)
    weights = np.concatenate([np.repeat(part.over.weights, part.slopes.shape[1]) for part in data])
    deviations = np.asarray(_check.floating("sigma", _check.number("sigma", sigma, above=0.0))).ravel()
    if deviations.size not in (1, weights.size):
        raise ValueError(f"sigma must be one number or one per datum ({weights.size}), not {deviations.size}.")
    noise = weights * deviations**2
    middle = np.concatenate([np.sqrt(noise)[:, None] * rows, np.sqrt(noise.mean()) * known])
    # (Psi^T Psi)^-1 Psi^T diag(noise) Psi (Psi^T Psi)^-1 as a factor times its transpose.
    return Spread(_triangular(middle @ (V / s**2), V), rest)


def _triangular(middle: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A factor F with as many columns as there are directions, F F^T = V M^T M V^T."""
    return V @ np.asarray(np.linalg.qr(middle, mode="r")).T


def _of_densities(data: list[Part], known: np.ndarray, exact: np.ndarray) -> Spread:
    d, count = known.shape[1], 0
    told, scores, weights = np.zeros((d, d), known.dtype), [], []
    for part in data:
        J, w, slopes = (np.asarray(array) for array in (part.features.jacobians, part.over.weights, part.slopes))
        second = np.asarray(jax.vmap(jnp.diag)(part.term.diagonals(part.features.values, part.over))
                            if part.term.curvature(part.features.values, part.over) is Curvature.DIAGONAL
                            else part.term.hessians(part.features.values, part.over))  # fmt: skip
        told = told + np.einsum("m,mpd,mpq,mqe->de", w, J, second, J)
        scores.append(w[:, None] * np.einsum("mpd,mp->md", J, slopes))
        weights.append(w)
        # Components of z that the density does not look at are no data.
        count += np.count_nonzero((slopes != 0) | np.any(second != 0, axis=2))
    values, V = np.linalg.eigh(told + known.T @ known + exact.T @ exact)
    kept = values > np.finfo(values.dtype).eps * d * values[-1]
    V, rest, values = V[:, kept], V[:, ~kept], values[kept]
    decided = np.einsum("de,dk,ek,k->", told, V, V, 1 / values)
    if count - decided < 0.5:
        raise ValueError("covariance needs more data than parameters.")
    middle = np.concatenate([np.sqrt(count / (count - decided)) * np.concatenate(scores),
                             np.sqrt(np.concatenate(weights).mean()) * known])  # fmt: skip
    return Spread(_triangular(middle @ (V / values), V), rest)


def predicted(D: Parametrisation, theta: Vector, x: Any, spread: Spread | None) -> Any:
    """The values of the function at points, and their standard deviations where a spread is given."""
    known = features(D, identity, theta, x)
    values = np.asarray(known.values)
    if spread is None:
        return values
    return values, spread.deviations(np.asarray(known.jacobians)).reshape(values.shape)
