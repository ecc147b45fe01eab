"""riesz.optax: against closed forms and riesz's own loop; in optax's own common test of optimisers."""

import inspect
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import riesz
from spoken import check_sentence

X = jnp.linspace(0.0, 2.0, 30)
A = jax.random.normal(jax.random.key(0), (12, 3))
B = jnp.arange(12.0)
MINIMISER = jnp.linalg.pinv(A) @ B
WHOLE = riesz.ngd(step_size=riesz.Constant(1.0))


def linear(params, b=B):
    return A @ jnp.concatenate([params["one"], params["two"]]) - b


PARAMS = {"one": jnp.array([3.0]), "two": jnp.array([-1.0, 2.0])}


def joined(params):
    return jnp.concatenate([params["one"], params["two"]])


def loop(transform, params, steps, **extra):
    """The parameters after every step, in one compiled loop, and the last state."""

    def step(carry, _):
        params, state = carry
        updates, state = transform.update(None, state, params, **extra)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    run = jax.jit(lambda params: jax.lax.scan(step, (params, transform.init(params)), length=steps))
    (_, state), path = run(params)
    return path, state


def test_a_step_is_the_pseudoinverse_and_gradients_are_ignored():
    transform = riesz.optax.natural(linear, method=WHOLE)
    state = transform.init(PARAMS)
    updates, after = transform.update(None, state, PARAMS, args=(2 * B,))
    np.testing.assert_allclose(joined(PARAMS) + joined(updates), 2 * MINIMISER, rtol=1e-10)
    np.testing.assert_allclose(after.loss, 0.5 * jnp.sum(linear(PARAMS, 2 * B) ** 2), rtol=1e-14)
    np.testing.assert_allclose(after.gradient_norm, jnp.linalg.norm(A.T @ linear(PARAMS, 2 * B)), rtol=1e-12)
    nonsense = jax.tree.map(lambda leaf: leaf * jnp.nan, PARAMS)
    again, _ = transform.update(nonsense, state, PARAMS, args=2 * B, value=1.0)
    assert eqx.tree_equal(updates, again)


@pytest.mark.parametrize("method", [WHOLE, None], ids=["ngd", "auto"])
def test_a_chain_that_halves_the_steps_halves_the_error(method):
    """Of a linear problem; auto, which looks back at its losses, knows that it is not where it wanted to be."""
    transform = optax.chain(riesz.optax.natural(linear, method=method), optax.scale(0.5))
    path, state = loop(transform, PARAMS, 30)
    errors = jax.vmap(lambda params: jnp.linalg.norm(joined(params) - MINIMISER))(path)
    np.testing.assert_allclose(errors[1:] / errors[:-1], 0.5, rtol=1e-4)
    assert float(optax.tree.get(state, "loss")) > 0


def test_the_loop_of_a_user_is_the_loop_of_minimise():
    """With a loss and a model, point by point, by a method with momentum."""
    apply = lambda p, x: p["a"] * jnp.exp(-p["b"] * x)
    params = {"a": jnp.array(1.0), "b": jnp.array(1.0)}
    loss = riesz.least_squares(riesz.points(X, data=3 * jnp.exp(-0.5 * X)))
    path, _ = loop(riesz.optax.natural(loss, apply, "nhb"), params, 6)
    D, theta0 = riesz.parametrise(apply, params)
    expected = riesz.minimise(loss, D, theta0, "nhb", max_steps=6, progress=False)
    np.testing.assert_allclose([path["a"][-1], path["b"][-1]], expected.last, rtol=1e-12)


def test_auto_finds_the_parameters_of_a_module_and_stays_there():
    class Decay(eqx.Module):
        scale: jax.Array
        rate: jax.Array
        count: int = 1

        def __call__(self, x):
            return self.scale * jnp.exp(-self.rate * x)

    model = Decay(jnp.array(1.0), jnp.array(1.0))
    loss = riesz.least_squares(riesz.points(X, data=3 * jnp.exp(-0.5 * X)))
    path, state = loop(riesz.optax.natural(loss, model), eqx.filter(model, eqx.is_inexact_array), 12)
    np.testing.assert_allclose([path.scale[-1], path.rate[-1]], [3.0, 0.5], rtol=1e-13)
    assert list(riesz.Result)[int(state.end)].converged
    np.testing.assert_allclose([path.scale[-1], path.rate[-1]], [path.scale[-4], path.rate[-4]], rtol=1e-14)


def test_points_are_drawn_from_the_key_and_integers_stay():
    apply = lambda p, x: p["a"] * x ** p["power"]
    params = {"a": jnp.array(1.0), "power": jnp.array(2)}
    loss = riesz.residual(riesz.identity, lambda x: 3 * x**2 + 0.1 * jnp.sin(9 * x), riesz.monte_carlo(0.0, 1.0, 8))
    first, again, other = (
        loop(riesz.optax.natural(loss, apply, WHOLE, key=jax.random.key(seed)), params, 5)[0] for seed in (0, 0, 1)
    )
    assert eqx.tree_equal(first, again)
    assert len({float(a) for a in jnp.concatenate([first["a"], other["a"]])}) == 10
    np.testing.assert_allclose(first["a"], 3.0, atol=0.3)
    np.testing.assert_array_equal(first["power"], 2)


def test_a_batch_of_ones_own_is_handed_to_update():
    loss = lambda k: riesz.least_squares(riesz.points(X, data=k * X))
    transform = riesz.optax.natural(loss(1.0), lambda p, x: p * x, WHOLE)
    p, state = jnp.array(0.0), transform.init(jnp.array(0.0))
    for k in (2.0, 5.0):
        updates, state = transform.update(None, state, p, loss=loss(k))
        p = optax.apply_updates(p, updates)
        np.testing.assert_allclose(p, k, rtol=1e-12)


def test_mistakes_are_explained():
    natural, one = riesz.optax.natural, jnp.ones(2)
    loss = riesz.least_squares(riesz.points(X, data=X))
    drawn = riesz.residual(riesz.identity, 1.0, riesz.monte_carlo(0.0, 1.0, 8))
    apply = lambda p, x: p[0] * x + p[1]
    fine, residual = natural(loss, apply), natural(lambda p: p)
    state = fine.init(one)
    check_sentence(lambda: natural(loss), TypeError, "model must be given with a loss")
    check_sentence(lambda: natural(apply, apply), TypeError, "model must be None with a residual function")
    check_sentence(lambda: natural(3), TypeError, "residual_or_loss must be a function")
    check_sentence(lambda: natural(loss, apply, "nbh"), ValueError, "method must be one of")
    check_sentence(lambda: natural(drawn, apply), ValueError, "key must be given")
    check_sentence(lambda: natural(drawn, apply, key=3), TypeError, "key must be one random key")
    check_sentence(lambda: fine.update(None, state), ValueError, "params must be given to update")
    check_sentence(lambda: fine.update(None, state, one, loss=drawn), ValueError, "key must be given to natural")
    check_sentence(lambda: fine.update(None, state, one, loss=1.0), TypeError, "loss must be a loss")
    check_sentence(lambda: residual.update(None, state, one, loss=loss), TypeError, "loss must be None")
    check_sentence(lambda: residual.init(one.astype(jnp.bfloat16)), TypeError, "params must be float32 or float64")
    check_sentence(lambda: residual.update(None, state, ()), ValueError, "must hold|must leave")


IN_PLACE = '''
import jax.flatten_util
import riesz


def _natural():
    """The transformation for an objective: the test hands it to `update`, as it does for the optimiser `sophia`."""
    flat = lambda params: jax.flatten_util.ravel_pytree(params)[0]

    def update(updates, state, params, *, obj_fn, **extra):
        _, unravel = jax.flatten_util.ravel_pytree(params)
        once = riesz.points(jnp.zeros((1, 1), flat(params).dtype))
        loss = riesz.Integral(lambda z: obj_fn(unravel(z)), once)
        return riesz.optax.natural(loss, lambda params, x: flat(params)).update(updates, state, params, **extra)

    return base.GradientTransformationExtraArgs(riesz.optax.natural(flat).init, update)


contrib.sophia = _natural
_ALL_OPTIMIZERS_UNDER_TEST = _MAIN_OPTIMIZERS_UNDER_TEST = (
    {"opt_name": "sophia", "opt_kwargs": {}, "wrapper_name": None, "wrapper_kwargs": None},
)
'''
HALF_PRECISION = {
    "test_preserve_dtype0",
    "test_gradient_accumulation0",
    "test_state_shape_dtype_shard_stability0",
    "test_state_shape_dtype_shard_stability1",
}
"""What does not apply: float16 and bfloat16, in which no matrix can be factorised. They must fail, with a sentence."""
SCHEDULES = {"test_optimizers_accept_learning_rate_schedule_if_type_annotated_as_such0"}
"""What skips itself: there is no learning rate."""


@pytest.mark.slow
def test_optaxs_common_test_passes_in_single_and_double_precision(tmp_path):
    """The common test of contributed optimisers, which optax's package contains, with this one in their place."""
    source = pathlib.Path(inspect.getfile(optax)).parent / "contrib" / "_common_test.py"
    assert source.exists(), "optax's common test is not in its package any more: find out where it has gone."
    text = source.read_text()
    assert text.count("\nclass ContribTest") == 1
    (tmp_path / "test_common.py").write_text(text.replace("\nclass ContribTest", IN_PLACE + "\n\nclass ContribTest"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=told.xml", "test_common.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=3000)
    assert (tmp_path / "told.xml").exists(), run.stdout[-3000:] + run.stderr[-1000:]
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "told.xml").iter("testcase")}
    failed = {name: case.find("failure") for name, case in cases.items() if case.find("failure") is not None}
    assert set(failed) == HALF_PRECISION, run.stdout[-3000:]
    assert all("params must be float32 or float64" in failure.get("message") for failure in failed.values())
    assert {name for name, case in cases.items() if case.find("skipped") is not None} == SCHEDULES
    assert len(cases) == 16 and not any(case.find("error") is not None for case in cases.values())
