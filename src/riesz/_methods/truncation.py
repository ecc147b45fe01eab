"""The retraction of tensor trains: add the tangent vector exactly, then truncate back to the ranks."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .. import _check
from .._geometry.linearise import Linearisation
from .._problem.models import TensorTrain
from .._problem.parametrise import ravel
from .._types import Vector
from .retractions import AbstractRetraction, Retracted

Cores = tuple[jax.Array, ...]


def moved(cores: Cores, steps: Cores) -> Cores:
    """The train v + sum_i C_1 ... dC_i ... C_n, exactly, with all ranks doubled.

    Its row after i cores is (a, b): b is the product of the cores so far, a the tangent vector so far; the last core
    adds the two.
    """
    if len(cores) == 1:
        return (cores[0] + steps[0],)
    beside = lambda *parts: jnp.concatenate(parts, axis=2)
    middle = [
        jnp.concatenate([beside(core, jnp.zeros_like(core)), beside(step, core)])
        for core, step in zip(cores[1:-1], steps[1:-1], strict=True)
    ]
    return (beside(steps[0], cores[0]), *middle, jnp.concatenate([cores[-1], cores[-1] + steps[-1]]))


def right_orthogonal(cores: Cores) -> Cores:
    """The same train with orthonormal rows in every core but the first: truncating the first is then optimal."""
    done: list[jax.Array] = []
    carry = cores[-1]
    for before in reversed(cores[:-1]):
        left, size, right = carry.shape
        Q, R = jnp.linalg.qr(carry.reshape(left, size * right).T)
        done.append(Q.T.reshape(-1, size, right))
        carry = jnp.tensordot(before, R.T, 1)
    return (carry, *reversed(done))


def truncated(cores: Cores, ranks: tuple[int, ...]) -> Cores:
    """The train cut to given ranks by one SVD a bond, left to right; orthonormal columns in every core but the last."""
    carry, *rest = right_orthogonal(cores)
    done = []
    for rank, after in zip(ranks, rest, strict=True):
        left, size, right = carry.shape
        U, s, Vt = jnp.linalg.svd(carry.reshape(left * size, right), full_matrices=False)
        done.append(U[:, :rank].reshape(left, size, rank))
        carry = jnp.tensordot(s[:rank, None] * Vt[:rank], after, 1)
    return (*done, carry)


def aligned(cores: Cores, old: Cores) -> Cores:
    """The same train, turned at every bond by the rotation that brings its cores closest to the old ones.

    Without it an SVD's free signs and rotations would show as a step in parameters where the function hardly moves.
    """
    overlap = turn = jnp.ones((1, 1), cores[0].dtype)
    done = []
    for core, other in zip(cores[:-1], old[:-1], strict=True):
        overlap = jnp.einsum("ac,akb,ckd->bd", overlap, core, other)
        U, _, Vt = jnp.linalg.svd(overlap)
        done.append(jnp.einsum("ac,akb,bd->ckd", turn, core, U @ Vt))
        turn = U @ Vt
    return (*done, jnp.einsum("ac,akb->ckb", turn, cores[-1]))


class Truncation(AbstractRetraction):
    r"""The retraction of tensor trains: $R(v + \psi^T \delta)$ is $v + \psi^T \delta$, truncated to the ranks of D.

    The tangent vector is added exactly, as a train of twice the ranks, which singular value decompositions cut back to
    within a factor $\sqrt{n - 1}$ of the best train of these ranks in $L^2$ of the box; in two dimensions it is the
    best one. It depends on the functions alone, not on the cores that represent them. The new cores have
    orthonormal columns, all but the last.

    It costs n QR and n SVD decompositions of matrices with at most twice the ranks as columns.

    **Arguments:**

    - `D`: the tensor train; also where a wrapper of it is minimised over.

    ```python
    D, theta0 = riesz.tensor_train(jax.random.key(0), (3, 3), riesz.Legendre(-1.0, 1.0, 8))
    method = riesz.nhb(filter=riesz.Cutoff(1e-10), retraction=riesz.Truncation(D))
    ```
    """

    D: TensorTrain
    changes_gauge: ClassVar[bool] = True

    def __check_init__(self):
        _check.kind("D", self.D, TensorTrain, "a tensor train, the D of riesz.tensor_train")

    def __call__(self, at: Linearisation, space: Any, delta: Vector) -> Retracted:
        cores = self.D.params(at.theta)
        landed = aligned(truncated(moved(cores, self.D.params(delta)), self.D.ranks), cores)
        one = jnp.ones((), delta.dtype)
        return Retracted(ravel("cores", landed)[1], delta, one, 0 * one)
