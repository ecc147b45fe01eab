"""What is kept of a run: its problem, its state and its parameters as users know them."""

import dataclasses
import pickle
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from flax import nnx

import riesz
from riesz._bytes.archive import pack
from riesz._problem.models._mlp import ACTIVATIONS
from spoken import check_sentence

X = jnp.linspace(0.0, 1.0, 20)
LOSS = riesz.least_squares(riesz.points(X, data=jnp.sin(4 * X)))


def apply(params, x):
    return params["a"] * jnp.sin(params["b"] * x)


class TestParametersAndModel:
    def test_the_pytree_of_a_function_comes_back(self):
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        solution = riesz.minimise(LOSS, D, theta0, max_steps=20)
        assert solution.params["a"] == pytest.approx(1.0) and solution.params["b"] == pytest.approx(4.0)
        np.testing.assert_array_equal(solution.model(X[3]), apply(solution.params, X[3]))

    def test_a_module_of_equinox_comes_back_trained(self):
        D, theta0 = riesz.parametrise(eqx.nn.MLP("scalar", "scalar", 3, 1, jnp.tanh, key=jax.random.key(0)))
        solution = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3)
        assert isinstance(solution.model, eqx.nn.MLP)
        leaves = jax.tree.leaves(eqx.filter(solution.model, eqx.is_inexact_array))
        np.testing.assert_array_equal(jnp.concatenate([leaf.ravel() for leaf in leaves]), solution.theta)

    def test_a_module_of_flax_comes_back_trained(self):
        D, theta0 = riesz.parametrise(nnx.Linear(1, 1, rngs=nnx.Rngs(0), param_dtype=jnp.float64))
        loss = riesz.least_squares(riesz.points(X[:, None], data=2 * X[:, None] + 1))
        solution = riesz.minimise(loss, D, theta0, max_steps=5)
        assert isinstance(solution.model, nnx.Linear)
        assert solution.params["kernel"].get_value()[0, 0] == pytest.approx(2.0)

    def test_parameters_of_many_starts_are_stacked(self):
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        solution = riesz.minimise_many(LOSS, D, jnp.stack([theta0, 1.1 * theta0]), max_steps=2)
        assert solution.params["a"].shape == (2,)
        np.testing.assert_array_equal(solution.params["b"], solution.theta[:, 1])
        assert solution.model(X[0]).shape == (2,) and solution.problem is not None and solution.state is None

    def test_a_function_of_ones_own_has_no_pytree(self):
        solution = riesz.minimise(LOSS, lambda theta: lambda x: theta[0] * jnp.sin(4 * x), jnp.ones(1), max_steps=0)
        with pytest.raises(AttributeError, match=r"solution.params needs a D that has D.params"):
            _ = solution.params
        assert not hasattr(solution, "params")


def test_a_solution_knows_its_problem_and_state_also_in_a_callback():
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 3, 1))
    seen = []
    solution = riesz.minimise(
        LOSS, D, theta0, "nhb", max_steps=3, callback=lambda steps, so_far: seen.append((steps, so_far))
    )
    for steps, so_far in [*seen, (3, solution)]:
        assert so_far.problem.D == D and isinstance(so_far.problem.loss, riesz.Loss)
        assert int(so_far.state.inner.k) == steps + 1
    assert "problem" not in repr(solution)
    assert jax.tree.map(lambda leaf: leaf, solution).steps == 3


def network(sizes=(1, 4, 1)):
    return riesz.mlp(jax.random.key(0), sizes)


def same_bits(one, other):
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


class TestPickle:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_networks_can_be_pickled(self, activation):
        D, theta0 = riesz.mlp(jax.random.key(0), (1, 3, 1), activation=activation)
        copy = pickle.loads(pickle.dumps(D))
        assert copy == D and hash(copy) == hash(D)
        same_bits(copy(theta0)(0.3), D(theta0)(0.3))

    @pytest.mark.parametrize("method", ["auto", "nhb"])
    def test_solutions_can_be_pickled(self, method):
        solution = riesz.minimise(LOSS, *network(), method, max_steps=2)
        copy = pickle.loads(pickle.dumps(solution))
        assert repr(copy) == repr(solution) and copy.result is solution.result
        same_bits(copy.function(0.3), solution.function(0.3))
        jax.tree.map(same_bits, copy.state, solution.state)
        assert riesz.minimise(LOSS, copy.D, start=copy, max_steps=1).steps == 1


class TestGoingOn:
    @pytest.mark.parametrize("method, n, m", [("nhb", 7, 9), ("auto", 37, 5)])
    def test_a_run_that_goes_on_has_the_bits_of_one_run(self, method, n, m, tmp_path):
        """Whether it is at hand or was read from a file, and wherever chunks of steps end."""
        D, theta0 = network()
        whole = riesz.minimise(LOSS, D, theta0, method, max_steps=n + m)
        first = riesz.minimise(LOSS, D, theta0, method, max_steps=n)
        assert whole.steps == n + m and first.steps == n
        first.save(tmp_path / "first.npz")
        for start in (first, riesz.load(tmp_path / "first.npz", D)):
            rest = riesz.minimise(LOSS, D, method=method, start=start, max_steps=m)
            assert rest.steps == m
            for name in ("theta", "last", "loss"):
                same_bits(getattr(rest, name), getattr(whole, name))
            jax.tree.map(same_bits, rest.state, whole.state)
            for name, column in whole.history.items():
                if name != "seconds":
                    same_bits(rest.history[name], column[n:])

    def test_the_best_so_far_stays_the_best(self):
        D, theta0 = network()
        first = riesz.minimise(LOSS, D, theta0, max_steps=20)
        high = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=1)
        known = dataclasses.replace(high, theta=first.theta, loss=first.loss)
        rest = riesz.minimise(LOSS, D, start=known, max_steps=2)
        assert float(rest.loss) == float(first.loss) < rest.history["loss"].min()
        same_bits(rest.theta, first.theta)
        assert rest.history["loss"][0] == high.history["loss"][-1]

    def test_another_loss_is_evaluated_anew(self):
        D, theta0 = network()
        first = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=5)
        other = riesz.least_squares(riesz.points(X, data=jnp.cos(4 * X)))
        rest = riesz.minimise(other, D, start=first, max_steps=0)
        assert rest.history["loss"][0] == pytest.approx(float(other(D(first.last))), rel=1e-12)
        assert float(rest.loss) == pytest.approx(float(other(D(rest.theta))), rel=1e-12)

    def test_drawn_points(self):
        D, theta0 = network()
        loss = riesz.residual(riesz.identity, lambda x: jnp.sin(4 * x), riesz.monte_carlo(0.0, 1.0, 20))
        first = riesz.minimise(loss, D, theta0, "spring", max_steps=3, key=jax.random.key(1))
        rest = riesz.minimise(loss, D, start=first, max_steps=2, key=jax.random.key(2))
        assert int(rest.state.inner.k) == 6
        same_bits(rest.theta, rest.last)

    def test_checkpoints_know_the_start(self, tmp_path):
        D, theta0 = network()
        first = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3)
        how = {"start": first, "checkpoint": tmp_path}
        riesz.minimise(LOSS, D, max_steps=2, **how)
        rest = riesz.minimise(LOSS, D, max_steps=4, **how)
        same_bits(rest.last, riesz.minimise(LOSS, D, theta0, "nhb", max_steps=7).last)
        elsewhere = dataclasses.replace(first, state=jax.tree.map(lambda leaf: leaf + 1, first.state))
        with pytest.raises(riesz.CheckpointError, match="another start"):
            riesz.minimise(LOSS, D, max_steps=4, start=elsewhere, checkpoint=tmp_path)

    def test_what_does_not_fit_is_refused(self):
        D, theta0 = network()
        first = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=1)
        many = riesz.minimise_many(LOSS, D, theta0[None], "nhb", max_steps=1)
        short = dataclasses.replace(first, state=first.state.inner)
        key = jax.random.key(0)
        wrong = [
            (ValueError, "theta0 must be left out", {"theta0": theta0, "start": first}),
            (TypeError, "theta0 must be given", {}),
            (TypeError, "start must be a solution", {"start": theta0}),
            (ValueError, "restarts must be None", {"start": first, "restarts": riesz.Restarts(1), "key": key}),
            (ValueError, "the same method, but it is of another method", {"start": first, "method": "auto"}),
            (ValueError, "beta=0.9. here", {"start": first, "method": riesz.nhb(0.9)}),
            (ValueError, "which minimise_many does not keep", {"start": many}),
            (ValueError, "its state has arrays of other shapes", {"start": short}),
        ]
        for error, pattern, how in wrong:
            check_sentence(lambda how=how: riesz.minimise(LOSS, D, **how), error, pattern)


class TestFiles:
    def test_everything_comes_back(self, tmp_path):
        D, theta0 = network()
        again = {"restarts": riesz.Restarts(1), "target": 1e-30, "key": jax.random.key(1)}
        metrics = {"size": jnp.linalg.norm}
        many = riesz.minimise_many(LOSS, D, jnp.stack([theta0, 2 * theta0]), "nhb", max_steps=3)
        one = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3, metrics=metrics, **again)
        for solution in (one, many):
            solution.save(tmp_path / "solution.npz")
            copy = riesz.load(str(tmp_path / "solution.npz"), D, LOSS)
            for name in ("theta", "last", "loss", "steps", "notes"):
                same_bits(getattr(copy, name), getattr(solution, name))
            assert repr(copy) == repr(solution) and copy.problem.loss == LOSS
            assert copy.history.keys() == solution.history.keys()
            jax.tree.map(same_bits, copy.history, solution.history)
            jax.tree.map(same_bits, list(copy.state or ()), jax.tree.leaves(solution.state))
            assert [start.result for start in copy.starts] == [start.result for start in solution.starts]
        assert len(one.starts) == 1

    def test_a_file_is_read_again_after_it_was_read(self, tmp_path):
        D, theta0 = network()
        first = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3)
        first.save(tmp_path / "one.npz")
        riesz.load(tmp_path / "one.npz", D).save(tmp_path / "two.npz")
        assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()

    def test_what_is_no_solution_is_refused(self, tmp_path):
        D, theta0 = network()
        riesz.minimise(LOSS, D, theta0, "nhb", max_steps=1, checkpoint=tmp_path).save(tmp_path / "one.npz")
        content = bytearray((tmp_path / "one.npz").read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / "flipped.npz").write_bytes(content)
        (tmp_path / "empty.npz").write_bytes(b"")
        (tmp_path / "strange.npz").write_bytes(pack({"kind": "solution", "format": 1}, {"theta": np.zeros(3)}))
        (tmp_path / "later.npz").write_bytes(pack({"kind": "solution", "format": 2}, {}))
        wrong = [
            ("flipped", ValueError, "does not match its checksum"),
            ("empty", ValueError, "does not match its checksum"),
            ("strange", ValueError, "no solution that riesz has saved"),
            ("later", ValueError, "has format 2"),
            ("step-000000000001", ValueError, "no solution that riesz has saved"),
            ("missing", FileNotFoundError, "there is no"),
        ]
        for name, error, pattern in wrong:
            with pytest.raises(error, match=pattern):
                riesz.load(tmp_path / f"{name}.npz", D)
        with pytest.raises(ValueError, match=r"theta must have shape \(7,\) for this model, but it is \(13,\)"):
            riesz.load(tmp_path / "one.npz", riesz.mlp(jax.random.key(0), (1, 2, 1))[0])
        with pytest.raises(TypeError, match="loss must be a loss"):
            riesz.load(tmp_path / "one.npz", D, 3)
        with pytest.raises(OSError, match="path must be a file that can be written"):
            riesz.load(tmp_path / "one.npz", D).save(tmp_path / "no folder" / "one.npz")


class TestTable:
    def test_a_row_has_an_iterate_and_the_step_from_it(self):
        D, theta0 = network()
        solution = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=3, metrics={"size": jnp.linalg.norm})
        table = solution.table()
        assert list(table)[:2] == ["step", "loss"] and {"size", "seconds", "rank"} <= set(table)
        assert {column.shape for column in table.values()} == {(4,)}
        same_bits(table["loss"], solution.history["loss"])
        same_bits(table["step_norm"], [*solution.history["step_norm"], np.nan])
        assert table["accepted"].dtype.kind == "f" and np.isnan(table["rank"][-1])

    def test_the_starts_of_a_batch_are_one_below_the_other(self):
        D, theta0 = network()
        target = 1.001 * float(LOSS(D(0 * theta0)))
        solution = riesz.minimise_many(LOSS, D, jnp.stack([theta0, 0 * theta0]), "nhb", max_steps=3, target=target)
        assert solution.steps[1] == 0 < solution.steps[0]
        table = solution.table()
        same_bits(table["start"], [0] * (solution.steps[0] + 1) + [1])
        same_bits(table["step"], [*range(solution.steps[0] + 1), 0])
        assert {column.size for column in table.values()} == {solution.steps[0] + 2}
        same_bits(np.flatnonzero(np.isnan(table["alpha"])), [solution.steps[0], solution.steps[0] + 1])

    def test_a_metric_cannot_be_named_as_a_column_of_the_table(self):
        with pytest.raises(ValueError, match="metrics must not be named step"):
            riesz.minimise(LOSS, *network(), metrics={"step": jnp.linalg.norm})


class TestSummary:
    def test_it_says_what_was_run(self, tmp_path):
        D, theta0 = network()
        solution = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=2)
        lines = dict(line.split(maxsplit=1) for line in solution.summary().splitlines())
        assert lines["result"] == f"STEP_LIMIT: {riesz.Result.STEP_LIMIT}"
        facts = {"steps": "2", "points": "20", "method": "nhb", "solver": "QRSVD()", "parameters": "13 (float64)"}
        assert lines.items() >= facts.items()
        assert float(lines["loss"].split(";")[0]) == pytest.approx(float(solution.loss), rel=1e-5)
        solution.save(tmp_path / "solution.npz")
        assert "HeavyBall" in riesz.load(tmp_path / "solution.npz", D).summary()

    def test_it_counts_starts_and_residuals(self):
        loss = riesz.ResidualVector(lambda v: jax.vmap(v)(X) - X)
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        text = riesz.minimise_many(loss, D, theta0[None], riesz.nhb(0.1), max_steps=1).summary()
        assert "1 STEP_LIMIT" in text and "20 residuals" in text and "HeavyBall with Projected" in text

    def test_notebooks_show_it_escaped(self):
        solution = riesz.minimise(LOSS, *network(), "nhb", max_steps=0)
        page = dataclasses.replace(solution, notes=("1 < 2 & <script>alert(1)</script>",))._repr_html_()
        assert "<script" not in page and "<li>1 &lt; 2 &amp; &lt;script&gt;" in page
        assert "<b>result</b>" in page and "STEP_LIMIT" in page


class TestPicture:
    @pytest.fixture
    def plt(self):
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        yield plt
        plt.close("all")

    def test_a_run(self, plt):
        D, theta0 = network()
        solution = riesz.minimise(LOSS, D, theta0, "nhb", max_steps=4, metrics={"size": jnp.linalg.norm})
        undone = {"accepted": np.array([True, False, True, True]), "phase": np.array([0, 1, 1, 2])}
        solution = dataclasses.replace(solution, history=solution.history | undone)
        figure = solution.plot()
        above, gradient, size = figure.axes
        same_bits(above.lines[0].get_ydata(), solution.history["loss"])
        same_bits(gradient.lines[0].get_ydata(), solution.history["gradient_norm"])
        same_bits(size.lines[0].get_ydata(), solution.history["size"])
        assert above.get_yscale() == "log" and "STEP_LIMIT after 4 steps" in above.get_title()
        labels = [label.get_text() for label in above.get_legend().get_texts()]
        assert labels[:3] == ["walk", "dive", "rejected (1)"]
        figure.canvas.draw()

    def test_many_starts_and_losses_of_both_signs(self, plt):
        D, theta0 = riesz.parametrise(apply, {"a": 0.9, "b": 3.9})
        many = riesz.minimise_many(LOSS, D, jnp.stack([theta0, 2 * theta0]), max_steps=2)
        figure = many.plot()
        assert len(figure.axes[0].lines) == 2 and "2 starts" in figure.axes[0].get_title()
        signed = dataclasses.replace(many, history=many.history | {"loss": many.history["loss"] - 1.0})
        signed = signed.plot()
        assert signed.axes[0].get_yscale() in ("linear", "symlog")
        signed.canvas.draw()

    def test_without_matplotlib_there_is_a_sentence(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"pip install riesz\[plot\]"):
            riesz.minimise(LOSS, *network(), "nhb", max_steps=0).plot()
