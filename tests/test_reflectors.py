"""Householder reflectors: the products with Q, in kept blocks and by LAPACK, are those of Q itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from riesz._linalg.solvers import reflectors
from riesz._linalg.solvers.reflectors import BLOCK, Reflectors

SHAPES = [(9, 1), (61, 5), (100, 46), (3 * BLOCK, BLOCK), (2 * BLOCK, 2 * BLOCK), (20, 33), (100, 81)]


def matrix(shape):
    """Columns that differ by many orders, one that is zero and one that depends on others."""
    A = jax.random.normal(jax.random.key(0), shape) * jnp.logspace(0, -12, shape[1])[None, :]
    if shape[1] > 3:
        A = A.at[:, 1].set(0).at[:, 3].set(A[:, 0] - A[:, 2])
    return A


@pytest.mark.parametrize("most", [reflectors.MOST, 0], ids=["blocks", "LAPACK"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_Q(shape, most, monkeypatch):
    monkeypatch.setattr(reflectors, "MOST", most)
    A = matrix(shape)
    k = min(shape)
    x, y = (jax.random.normal(jax.random.key(i), (rows, 3)) for i, rows in enumerate((shape[0], k)))

    @jax.jit
    def products(A):
        Q, R = Reflectors.of(A)
        return R, Q.array(), Q.transposed(x), Q.transposed(x[:, 0]), Q @ y, Q @ y[:, 0], len(Q.blocks)

    R, Q, inside, first, outside, column, blocks = products(A)
    assert blocks == (-(-k // BLOCK) if most else 0)
    np.testing.assert_allclose(Q.T @ Q, np.eye(k), atol=1e-14)
    # Column by column, because small columns have digits of their own.
    assert (np.linalg.norm(Q @ R - A, axis=0) <= 1e-14 * np.linalg.norm(A, axis=0)).all()
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(inside, Q.T @ x, atol=1e-13)
    np.testing.assert_allclose(outside, Q @ y, atol=1e-13)
    np.testing.assert_allclose(first, inside[:, 0], atol=1e-14)
    np.testing.assert_allclose(column, outside[:, 0], atol=1e-14)
