"""The type annotations hold while every scheme and metric runs, checked by beartype and jaxtyping."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import jax
    jax.config.update("jax_enable_x64", True)
    from jaxtyping import install_import_hook
    with install_import_hook("riesz", "beartype.beartype"):
        import riesz
    import jax.numpy as jnp

    x = jnp.linspace(-1.0, 1.0, 9)
    over = riesz.points(x, data=jnp.sin(x))
    loss = riesz.least_squares(over) + 0.1 * riesz.residual(riesz.derivative, jnp.cos, riesz.monte_carlo(-1.0, 1.0, 5))
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 3, 1))
    methods = [
        riesz.nhb(W=riesz.GaussNewton(), filter=riesz.Cutoff(1e-8), step_size=riesz.GridSearch()),
        riesz.nn1_fd(W=riesz.InnerProduct(riesz.derivative), filter=riesz.Shift(1e-8), step_size=riesz.Armijo()),
        riesz.qnn2(factorisation=riesz.Gram(), beta=lambda k: 0.1),
        riesz.newton(),
        riesz.nesterov(step_size=riesz.Constant(0.1)),
    ]
    for method in methods:
        solution = riesz.minimise(loss, D, theta0, method, max_steps=2, key=jax.random.key(1))
        print(solution.steps)
"""


@pytest.mark.slow
def test_annotations_hold_at_run_time():
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["2"] * 5
