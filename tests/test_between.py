"""A look between the points, and points that are placed anew where it asks for them."""

import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import riesz
from riesz._problem.known import Known
from riesz._running.between import Look

KEY = jax.random.key(0)
wave = lambda x: jnp.sin(20 * x)


def network(seed=0, width=10):
    return riesz.mlp(jax.random.key(seed), (1, width, 1), activation="tanh")


def loss_over(over):
    return riesz.residual(riesz.identity, wave, over)


def comb(count):
    """Functions that vanish at 0, 1/count, 2/count, ...: nothing is known of them there."""
    return lambda theta: lambda x: theta[0] * jnp.sin(jnp.pi * count * x) + theta[1]


class TestLook:
    def test_it_is_the_integral_of_the_density(self):
        """Twenty times as many points as a step has are 20,000 here, so that it is known to a few per cent."""
        D, theta = network()
        solution = riesz.minimise(loss_over(riesz.grid(0.0, 1.0, 1000)), D, theta, "ngd", max_steps=2)
        v = solution.function
        exact = quad(lambda x: 0.5 * float(v(x) - np.sin(20 * x)) ** 2, 0, 1, epsrel=1e-6)[0]
        np.testing.assert_allclose(solution.between, exact, rtol=0.03)

    def test_what_vanishes_at_the_points_alone_is_seen_and_said(self):
        over = riesz.grid(0.0, 1.0, 11)
        loss = riesz.residual(riesz.identity, 1.0, over)
        solution = riesz.minimise(loss, comb(10), jnp.array([3.0, 0.0]), "ngd", max_steps=400)
        assert float(solution.loss) < 1e-20
        np.testing.assert_allclose(solution.between, 0.5 * 9.0 / 2, rtol=0.1)
        (note,) = [note for note in solution.notes if "between them" in note]
        assert f"{solution.between:.2g}" in note and "riesz.adaptive" in note
        assert "between the points" in solution.summary()

    def test_where_points_tell_all_nothing_is_said(self):
        D, theta = network()
        solution = riesz.minimise(loss_over(riesz.gauss_legendre(0.0, 1.0, 200)), D, theta, max_steps=150)
        assert solution.between < 10 * float(solution.loss)
        assert not any("between" in note for note in solution.notes)

    def test_rounding_is_no_reason_for_a_note(self):
        first = Look(1.0, True)
        assert Look(1e-6, True).note(1e-9, first) and not Look(1e-26, True).note(1e-30, first)
        assert not Look(1e-6, True).note(1e-7, first) and not Look(1e-6, False).note(1e-9, first)

    def test_the_history_has_it_now_and_then_and_at_the_end(self, tmp_path):
        D, theta = network()
        log = tmp_path / "log.jsonl"
        solution = riesz.minimise(
            loss_over(riesz.grid(0.0, 1.0, 100)), D, theta, "ngd", max_steps=70, log=log, tolerance=0.0
        )
        seen = np.flatnonzero(np.isfinite(solution.history["between"]))
        assert {0, 32, 64} <= set(seen) <= {0, 32, 64, 70}
        assert solution.history["between"].shape == solution.history["loss"].shape
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        assert rows[32]["between"] == solution.history["between"][32] and rows[33]["between"] is None

    def test_it_changes_no_step(self, monkeypatch):
        D, theta = network()
        loss = loss_over(riesz.grid(0.0, 1.0, 100))
        looked = riesz.minimise(loss, D, theta, "nhb", max_steps=40)
        plain = riesz.minimise(
            loss_over(riesz.points(loss.over.x, weights=loss.over.weights)), D, theta, "nhb", max_steps=40
        )
        assert plain.between is None and "between" not in plain.history
        np.testing.assert_array_equal(looked.theta, plain.theta)
        np.testing.assert_array_equal(looked.history["loss"], plain.history["loss"])

    def test_data_and_drawn_points_are_not_looked_at(self):
        D, theta = network()
        x = jnp.linspace(0, 1, 50)
        data = riesz.least_squares(riesz.points(x, data=wave(x)))
        assert riesz.minimise(data, D, theta, "ngd", max_steps=2).between is None
        drawn = loss_over(riesz.monte_carlo(0.0, 1.0, 50))
        assert riesz.minimise(drawn, D, theta, "ngd", max_steps=2, key=KEY).between is None

    def test_an_energy_is_looked_at_too_and_draws_its_coefficients_anew(self):
        D, theta = riesz.mlp(KEY, (1, 5, 1), activation="tanh")
        D = riesz.hard_boundary(D, riesz.box_bubble(0.0, 1.0))
        energy = riesz.ritz(1.0, lambda x: jnp.pi**2 * jnp.sin(jnp.pi * x), riesz.gauss_legendre(0.0, 1.0, 40))
        solution = riesz.minimise(energy, D, theta, max_steps=50)
        np.testing.assert_allclose(solution.between, -(np.pi**2) / 4, rtol=0.05)
        assert not any("between" in note for note in solution.notes)

    def test_several_starts_have_one_each(self):
        D, _ = network()
        thetas = jnp.stack([network(seed)[1] for seed in range(2)])
        many = riesz.minimise_many(loss_over(riesz.grid(0.0, 1.0, 100)), D, thetas, "ngd", max_steps=3)
        one = riesz.minimise(loss_over(riesz.grid(0.0, 1.0, 100)), D, thetas[1], "ngd", max_steps=3)
        assert many.between.shape == (2,) and many.between[1] == one.between

    def test_it_is_saved(self, tmp_path):
        D, theta = network()
        loss = loss_over(riesz.grid(0.0, 1.0, 100))
        solution = riesz.minimise(loss, D, theta, "ngd", max_steps=3)
        solution.save(tmp_path / "solution.npz")
        assert riesz.load(tmp_path / "solution.npz", D).between == solution.between

    def test_rows_fewer_than_parameters_are_told_before_the_first_step(self, caplog):
        D, theta = network(width=20)
        with caplog.at_level(logging.WARNING, "riesz"):
            solution = riesz.minimise(loss_over(riesz.grid(0.0, 1.0, 30)), D, theta, max_steps=0)
        (note,) = [note for note in solution.notes if "30 rows" in note]
        assert "61 parameters" in note and note in caplog.text
        enough = riesz.minimise(loss_over(riesz.grid(0.0, 1.0, 61)), D, theta, max_steps=0)
        assert not any("rows" in note for note in enough.notes)


class TestAdaptive:
    D, theta = network(width=5)

    def at(self, source=wave):
        loss = riesz.residual(riesz.identity, source, riesz.grid(0.0, 1.0, 2))
        return loss.known(self.D, self.theta)

    def test_what_is_known_at_theta(self):
        at, x = self.at(), jnp.linspace(0, 1, 7)
        v = self.D(self.theta)
        np.testing.assert_allclose(at.residual(x), jnp.abs(jax.vmap(v)(x) - wave(x)), rtol=1e-12)
        rows = jax.vmap(jax.grad(lambda theta, x: self.D(theta)(x)), (None, 0))(self.theta, x)
        np.testing.assert_allclose(at.features(x)[:, 0], rows, rtol=1e-12)

    def test_the_residual_of_data_is_not_known(self):
        x = jnp.linspace(0, 1, 5)
        with pytest.raises(ValueError, match="needs no data"):
            riesz.least_squares(riesz.points(x, data=x)).known(self.D, self.theta).residual(x)

    @pytest.mark.parametrize(
        "by", ("residual", "christoffel", "uniform", {"residual": 0.5, "christoffel": 0.3, "uniform": 0.2})
    )
    def test_integrals_stay_unbiased(self, by):
        """The mean over draws of an integral is the integral, within four standard errors of it."""
        measure = riesz.adaptive(riesz.grid(0.0, 2.0, 50), by)
        place = jax.jit(lambda step: (lambda over: over.weights @ jnp.exp(over.x))(measure.replaced(step, self.at())))
        found = np.array([place(step) for step in range(300)])
        error = found.std() / np.sqrt(found.size)
        assert abs(found.mean() - (np.e**2 - 1)) < 4 * error
        assert error < 0.05 * np.e**2

    def test_half_of_the_points_go_where_the_residual_is(self):
        spike = lambda x: self.D(self.theta)(x) + jnp.where(jnp.abs(x - 0.5) < 0.01, 1.0, 0.0)
        over = riesz.adaptive(riesz.grid(0.0, 1.0, 400)).replaced(0, self.at(spike))
        inside = jnp.abs(over.x - 0.5) < 0.01
        assert 195 <= int(inside.sum()) <= 215
        np.testing.assert_allclose(over.weights[inside].sum(), 0.02, rtol=0.25)
        assert float(over.weights.max()) <= 2.0 / 400 * (1 + 1e-9)

    def test_leverage_is_that_of_an_orthonormal_basis(self):
        """By Christoffel's law of polynomials on [-1, 1] points crowd at the ends, as 1/sqrt(1 - x^2)."""
        legendre = [np.polynomial.legendre.leg2poly(row)[::-1] for row in np.eye(8)]
        basis = lambda x: jnp.stack([jnp.polyval(jnp.asarray(row), x) for row in legendre])
        at = Known(lambda theta: lambda x: theta @ basis(x), jnp.ones(8), riesz.identity, None)
        over = riesz.adaptive(riesz.gauss_legendre(-1.0, 1.0, 400), {"christoffel": 1.0}).replaced(3, at)
        law = lambda x: (
            sum((2 * k + 1) / 2 * float(np.polynomial.legendre.Legendre.basis(k)(x)) ** 2 for k in range(8)) / 8
        )
        share = quad(law, 0.9, 1.0)[0]
        assert abs(np.mean(over.x > 0.9) - share) < 0.02

    def test_points_stay_until_a_look_asks_for_others(self):
        """The functions of the comb are found out: the run goes on with points that see them."""
        loss = riesz.residual(riesz.identity, 1.0, riesz.adaptive(riesz.grid(0.0, 1.0, 11)))
        solution = riesz.minimise(loss, comb(10), jnp.array([3.0, 0.0]))
        np.testing.assert_allclose(solution.theta, [0.0, 1.0], atol=1e-7)
        assert solution.result.converged and solution.between < 1e-12
        assert solution.history["redrawn"].sum() >= 1
        assert any("placed anew" in note for note in solution.notes)
        placed = solution.problem.loss.terms[0].over.current
        assert placed.x.shape == (11,) and not np.array_equal(placed.x, np.linspace(0, 1, 11))

    def test_on_enough_points_they_are_placed_once(self):
        D, theta = network()
        fixed = riesz.gauss_legendre(0.0, 1.0, 200)
        plain = riesz.minimise(loss_over(fixed), D, theta, riesz.ngd(filter=riesz.Floor(1e-3)), max_steps=32)
        adaptive = riesz.minimise(
            loss_over(riesz.adaptive(fixed)), D, theta, riesz.ngd(filter=riesz.Floor(1e-3)), max_steps=200
        )
        assert np.flatnonzero(adaptive.history["redrawn"]).tolist() == [33]
        np.testing.assert_allclose(adaptive.history["loss"][:33], plain.history["loss"], rtol=1e-6)

    def test_a_run_goes_on_from_its_checkpoint_with_the_points_that_it_had(self, tmp_path):
        loss = riesz.residual(riesz.identity, 1.0, riesz.adaptive(riesz.grid(0.0, 1.0, 11)))
        run = lambda steps, folder: riesz.minimise(
            loss, comb(10), jnp.array([3.0, 0.0]), "ngd", max_steps=steps, checkpoint=folder, tolerance=1e-9
        )
        whole = run(400, None)
        assert whole.history["redrawn"].any()
        first = int(np.flatnonzero(whole.history["redrawn"])[0]) - 1
        run(first + 3, tmp_path / "run")
        resumed = run(400, tmp_path / "run")
        np.testing.assert_array_equal(resumed.theta, whole.theta)
        np.testing.assert_array_equal(resumed.history["loss"], whole.history["loss"])

    def test_wrong_calls(self):
        for wrong, error, words in (
            (lambda: riesz.adaptive(riesz.points(jnp.linspace(0, 1, 5))), ValueError, "measure on a domain"),
            (lambda: riesz.adaptive(3), TypeError, "over"),
            (lambda: riesz.adaptive(riesz.grid(0.0, 1.0, 5), by="gradient"), ValueError, "gradient"),
            (lambda: riesz.adaptive(riesz.grid(0.0, 1.0, 5), by={"residual": 0.7}), ValueError, "sum to 1"),
        ):
            with pytest.raises(error, match=words):
                wrong()
