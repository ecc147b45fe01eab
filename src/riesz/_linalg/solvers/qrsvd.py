"""QR of the rows without ever forming Q, then the SVD of R."""

import equinox as eqx
import jax.numpy as jnp

from ..rows import AbstractRows
from .base import ChunkedSolver
from .reflectors import reflectors
from .singular_values import SingularValues


class QRSVD(ChunkedSolver):
    """QR of the rows (of their transpose where rows are fewer than parameters), then the SVD of R.

    The default: it keeps the small singular values, on which the last digits of a solution depend.

    **Arguments:**

    - `chunk`: assemble the rows for `chunk` points at a time, which takes less memory and more time: the weighted rows
      are stored while they are factorised, but not the rows before weighting, nor what assembling them needs.

    ```python
    riesz.nhb(factorisation=riesz.QRSVD(chunk=1024))
    ```
    """

    has_spectrum = True
    chunk: int | None = eqx.field(static=True, default=None)

    def __call__(self, psi: AbstractRows) -> SingularValues:
        rows, d = psi.shape
        if rows >= d:
            Q, R = reflectors(psi.array(), psi.mesh)
            U, s, Vt = jnp.linalg.svd(R)
            return SingularValues(psi, Q, U, s, Vt.T, tall=True)
        Q, R = reflectors(psi.array().T, psi.mesh)
        V, s, Ut = jnp.linalg.svd(R)
        return SingularValues(psi, Q, Ut.T, s, V, tall=False)
