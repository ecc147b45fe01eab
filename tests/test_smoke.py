"""Every named method runs, and lowers the loss of a small regression problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz


@pytest.mark.parametrize("name", sorted(riesz.METHODS))
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
