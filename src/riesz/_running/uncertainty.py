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
from .._problem.losses import Departure
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


def all_points(term: AbstractTerm, D: Parametrisation, theta: Vector) -> Points:
    """The data of a term: fixed points, or all those from which mini-batches are drawn, of positive weight."""
    over = term.over.points if isinstance(term.over, Minibatch) else term.over
    if over is not None and over.drawn:
        raise ValueError(
            "covariance needs data at fixed points, or mini-batches of them: points that are drawn from a domain "
            "carry no data, and no noise."
        )
    whole = eqx.tree_at(lambda term: term.over, term, over, is_leaf=lambda leaf: leaf is None)
    drawn = whole.draw_points(None, D, theta)
    return drawn if over is None else drawn.take(np.flatnonzero(np.asarray(drawn.weights) > 0))


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
    had been data with the noise of the others.
    """
    points = tuple(all_points(term, D, theta) for term in loss.terms)
    at = linearise(loss, D, theta, Sample(points))
    data = [part for part in at.parts if not is_prior(part.term)]
    priors = [_rows(part).reshape(-1, theta.size) for part in at.parts if is_prior(part.term)]
    if not data:
        raise ValueError("covariance needs data, but the loss holds only priors.")
    known = np.concatenate([np.zeros((0, theta.size), theta.dtype), *priors])
    quadratic = all(part.term.curvature(part.features.values, part.over) is Curvature.IDENTITY for part in data)
    if quadratic:
        return _of_least_squares(data, known, sigma)
    if sigma is not None:
        raise ValueError("sigma must be None unless the loss is one of least squares: its density says what noise is.")
    return _of_densities(data, known)


def _of_least_squares(data: list[Part], known: np.ndarray, sigma: Any) -> Spread:
    rows = np.concatenate([_rows(part).reshape(-1, known.shape[1]) for part in data])
    # Of the triangular factor, which is small, all right singular vectors are wanted.
    triangle = np.asarray(np.linalg.qr(np.concatenate([rows, known]), mode="r"))
    _, s, Vt = np.linalg.svd(triangle, full_matrices=True)
    kept = s > np.finfo(s.dtype).eps * max(rows.shape) * s[0]
    V, s = Vt[: s.size][kept].T, s[kept]
    rest = np.concatenate([Vt[: kept.size][~kept], Vt[kept.size :]]).T
    if sigma is None:
        squares = sum(float(part.over.weights @ jnp.sum(part.slopes**2, axis=1)) for part in data)
        freedom = rows.shape[0] - float(np.sum((rows @ V / s) ** 2))
        if freedom < 0.5:
            raise ValueError("covariance needs more data than parameters to estimate the noise; give sigma.")
        return Spread(np.sqrt(squares / freedom) * V / s, rest)
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


def _of_densities(data: list[Part], known: np.ndarray) -> Spread:
    d, count = known.shape[1], sum(part.slopes.size for part in data)
    H, scores, weights = known.T @ known, [], []
    for part in data:
        J, w = np.asarray(part.features.jacobians), np.asarray(part.over.weights)
        second = np.asarray(jax.vmap(jnp.diag)(part.term.diagonals(part.features.values, part.over))
                            if part.term.curvature(part.features.values, part.over) is Curvature.DIAGONAL
                            else part.term.hessians(part.features.values, part.over))  # fmt: skip
        H = H + np.einsum("m,mpd,mpq,mqe->de", w, J, second, J)
        scores.append(w[:, None] * np.einsum("mpd,mp->md", J, np.asarray(part.slopes)))
        weights.append(w)
    values, V = np.linalg.eigh(H)
    kept = values > np.finfo(values.dtype).eps * d * values[-1]
    V, rest, values = V[:, kept], V[:, ~kept], values[kept]
    if count <= values.size:
        raise ValueError("covariance needs more data than parameters.")
    middle = np.concatenate([np.sqrt(count / (count - values.size)) * np.concatenate(scores),
                             np.sqrt(np.concatenate(weights).mean()) * known])  # fmt: skip
    return Spread(_triangular(middle @ (V / values), V), rest)


def predicted(D: Parametrisation, theta: Vector, x: Any, spread: Spread | None) -> Any:
    """The values of the function at points, and their standard deviations where a spread is given."""
    known = features(D, identity, theta, x)
    values = np.asarray(known.values)
    if spread is None:
        return values
    return values, spread.deviations(np.asarray(known.jacobians)).reshape(values.shape)
