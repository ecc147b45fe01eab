"""Every named method runs, and lowers the loss of a small regression problem.

Their steps are examined in test_exam.py, and auto's in test_auto.py; here one of each goes through `minimise`, and all
others in the slow part.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz

AT_ONCE = ("auto", "nhb")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in AT_ONCE else pytest.mark.slow) for name in sorted(riesz.METHODS)]
)
def test_every_method_lowers_the_loss(name):
    x = jnp.linspace(-1, 1, 40)
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(3 * x)))
    D, theta0 = riesz.mlp(jax.random.key(1), (1, 4, 1))
    solution = riesz.minimise(loss, D, theta0, method=name, max_steps=10)
    assert solution.steps == 10
    assert float(solution.loss) < float(loss(D(theta0)))
    # A residual of size sqrt(loss) is a difference of numbers of size one.
    rounding = 1e-15 * np.sqrt(solution.loss)
    np.testing.assert_allclose(loss(solution.function), solution.loss, rtol=1e-12, atol=rounding)
