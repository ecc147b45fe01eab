"""The short examples run as they stand, fit their data, and stay short."""

import ast
import pathlib
import runpy
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import riesz

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
SHORT = ["fit_equinox", "fit_flax", "fit_function"]
GALLERY = {
    "noisy_fit": lambda found: (
        abs(found["noise found (0.15 was put in)"] - 0.15) < 0.03
        and found["share of the truth inside the 95 % band"] > 0.9
    ),
    "heat": lambda found: (
        found["relative L2 error"] < found["bound of it"] < 1e-9
        and found["loss between the points"] < 3 * found["loss at the points"]
        and found["result"] != "STEP_LIMIT"
    ),
    "inverse_problem": lambda found: (
        abs(found["a"] - 0.3) < 3 * found["its standard deviation"]
        and abs(found["its standard deviation"] - 6e-5) < 6e-6
    ),
    "sobolev_regression": lambda found: (
        found["H1: relative L2 error of the values"] < 1e-3
        and found["H1: relative L2 error of the values"] < 1e-2 * found["L2: relative L2 error of the values"]
    ),
    "density": lambda found: (
        max(found[f"{name}: total variation"] for name in ("cross-entropy", "least squares")) <= 0.03
    ),
    "poisson": lambda found: (
        found["residual: relative L2 error"] <= 1e-6
        and found["Ritz energy: relative L2 error"] <= 1e-4
        and all(
            0.99 * found[f"{name}: relative L2 error"]  # which is taken on a grid
            < found[f"{name}: bound of it"]
            < 1.5 * found[f"{name}: relative L2 error"]
            for name in ("residual", "Ritz energy")
        )
    ),
    "burgers": lambda found: (
        np.linalg.norm(found["v"] - found["u"]) <= 5e-5 * np.linalg.norm(found["u"])
        and np.all(found["error"][1:] < found["bound"][np.searchsorted(found["ends"], found["t"][1:] - 1e-9)])
        and found["bound of it"] < 1e-3
        and found["loss between the points"] < 3 * found["loss at the points"]
        and "STEP_LIMIT" in found["notes"]
    ),
    "digits": lambda found: found["held-out images read correctly, per cent"] >= 97 and found["steps"] <= 30,
    "six_dimensions": lambda found: (
        found["train: relative L2 error"] < 1e-10
        and found["network: relative L2 error"] < 1e-3
        and abs(
            np.log(found["network: the same from the loss between the points"] / found["network: relative L2 error"])
        )
        < 0.7
        and "between them" in found["network: notes"]
    ),
    "many_dimensions": lambda found: (
        found["10 dimensions: relative L2 error"] < 1e-12
        and found["100 dimensions: relative L2 error"] < 1e-10
        and found["10 dimensions: relative L2 error"] <= found["10 dimensions: bound of it"] < 1e-8
        and all(
            found[f"{n} dimensions: loss between the points"]
            < max(10 * found[f"{n} dimensions: loss at the points"], 1e-20)
            for n in (10, 100)
        )
    ),
}
"""The examples with pictures, and what the gallery says of them."""


def run(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def code_lines(source):
    """The lines that any statement but a docstring covers."""
    docstring = lambda node: isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    body = [node for node in ast.parse(source).body if not docstring(node)]
    return {line for node in body for line in range(node.lineno, node.end_lineno + 1)}


def example(name, monkeypatch):
    """The names of an example with a picture, without running it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


@pytest.mark.parametrize(
    "name", ["noisy_fit", *(pytest.param(name, marks=pytest.mark.slow) for name in GALLERY if name != "noisy_fit")]
)
def test_an_example_with_a_picture_in_short(name, monkeypatch, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    monkeypatch.setattr("sys.argv", [name, "--short", "--out", str(picture)])
    found = example(name, monkeypatch)
    sys.modules["_gallery"].main(str(EXAMPLES / f"{name}.py"), found["solve"], found["draw"])
    assert picture.stat().st_size > 10_000
    assert f"The picture is {picture}." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY)
def test_an_example_with_a_picture_keeps_what_the_gallery_says(name, monkeypatch):
    assert GALLERY[name](example(name, monkeypatch)["solve"](False))


@pytest.mark.parametrize("x, t", [(0.3, 0.2), (-0.02, 0.5), (0.7, 1.0), (0.004, 1.0)])
def test_the_reference_of_burgers_equation_is_its_solution(x, t, monkeypatch):
    """Cole and Hopf: u = -2 nu (log phi)_x with phi a solution of the heat equation, here by adaptive quadrature."""
    nu = 0.01 / np.pi
    initial = lambda y: np.exp(-(1 + np.cos(np.pi * y)) / (2 * np.pi * nu))
    phi = lambda y: initial(y) * np.exp(-((x - y) ** 2) / (4 * nu * t))
    integral = lambda f: scipy.integrate.quad(f, x - 2, x + 2, points=[x, -1, 1], limit=2000, epsabs=0, epsrel=1e-10)[0]
    expected = integral(lambda y: (x - y) / t * phi(y)) / integral(phi)
    reference = example("burgers", monkeypatch)["reference"]
    np.testing.assert_allclose(reference(np.array(x), np.array(t)), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "e",
    [
        lambda x, t: 1.0,
        lambda x, t: x,
        lambda x, t: jnp.cos(np.pi * x) * jnp.exp(-(np.pi**2) * t),
        lambda x, t: jnp.sin(np.pi * x),
        lambda x, t: jnp.sin(np.pi * x) * jnp.exp(-(np.pi**2) * t),
        lambda x, t: jnp.sinh(3 * x) * jnp.cos(20 * t),
    ],
)
def test_the_bound_of_the_heat_equation_holds(e, monkeypatch):
    """For errors of every kind: in the residual, at the walls, at the start; 1 has a ratio of 0.6."""
    names = example("heat", monkeypatch)
    bound = names["bound"](names["problem"]()(lambda z: names["exact"](z) + e(*z)))
    over = riesz.gauss_legendre((0.0, 0.0), (1.0, names["END"]), 40)
    norm = jnp.sqrt(over.weights @ jax.vmap(lambda z: jnp.asarray(e(*z)) ** 2)(over.x))
    assert norm <= bound < 100 * norm


def test_the_gallery_shows_every_example_with_a_picture():
    page = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - set(SHORT) - {"_gallery"}
    assert scripts == set(GALLERY)
    for name in GALLERY:
        assert f"(../examples/{name}.py)" in page and f"(gallery/{name}.png)" in page
        assert (EXAMPLES.parent / "docs" / "gallery" / f"{name}.png").exists()


@pytest.mark.parametrize("name", SHORT)
def test_a_fit_takes_twelve_lines(name):
    source = (EXAMPLES / f"{name}.py").read_text()
    assert len(code_lines(source)) <= 12
    assert ";" not in source


def test_equinox(capsys):
    found = run("fit_equinox")
    network, x, y = found["solution"].function, found["x"], found["y"]
    assert isinstance(network, eqx.nn.MLP)
    np.testing.assert_allclose(jax.vmap(network)(x), y, atol=1e-3)
    assert "largest error" in capsys.readouterr().out


def test_flax(capsys):
    found = run("fit_flax")
    variables = found["D"].params(found["solution"].theta)
    kernels = {name: layer["kernel"].shape for name, layer in variables["params"].items()}
    assert kernels == {"layers_0": (1, 12), "layers_2": (12, 1)}
    np.testing.assert_allclose(found["model"].apply(variables, found["x"]), found["y"], atol=1e-3)
    assert "largest error" in capsys.readouterr().out


def test_a_plain_function(capsys):
    found = run("fit_function")
    params = found["D"].params(found["solution"].theta)
    assert set(params) == {"height", "rate", "level"}
    for name, value in {"height": 2.5, "rate": 1.3, "level": 0.5}.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-8)
    assert found["solution"].result is riesz.Result.TARGET_REACHED
    assert "rate" in capsys.readouterr().out
