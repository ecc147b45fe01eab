"""The README and the docs tell the truth: their tables match the package, their examples run."""

import pathlib
import re

import jax
import pytest

import riesz
from riesz.experiments.claims import CLAIMS
from spoken import code, run_page

ROOT = pathlib.Path(__file__).parents[1]


def method_table():
    """The rows that the README must show."""
    return [f"| `{name}` | {method.__doc__.splitlines()[0]} |" for name, method in riesz.METHODS.items()]


def test_the_method_table_is_the_packages():
    text = (ROOT / "README.md").read_text().split("<!-- methods", 1)[1].split("\n\n", 1)[0]
    assert text.splitlines()[3:] == method_table()


def test_the_readme_example_is_short_and_solves_its_equation(tmp_path):
    program = code("README.md")
    assert sum(bool(line.strip()) for line in program.splitlines()) <= 12
    names = run_page("README.md", tmp_path)
    assert names["solution"].result.converged
    x = 0.5
    exact = x - float(jax.numpy.expm1(x / 0.2) / jax.numpy.expm1(1 / 0.2))
    assert float(names["solution"].function(x)) == pytest.approx(exact, abs=1e-11)


def test_every_result_is_on_the_reliability_page():
    text = (ROOT / "docs/reliability.md").read_text().split("<!-- results", 1)[1].split("\n\n", 1)[0]
    assert text.splitlines()[3:] == [f"| `{result.name}` | {result} |" for result in riesz.Result]


@pytest.mark.slow
def test_the_example_of_the_reliability_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/reliability.md", tmp_path)
    first, best = names["solution"], names["best"]
    assert best.result is riesz.Result.TARGET_REACHED and len(names["ends"]) == len(best.starts)
    assert (tmp_path / "run/log.jsonl").read_text().count("\n") == first.steps + 1
    assert run_page("docs/reliability.md", tmp_path)["solution"].steps == first.steps


@pytest.mark.slow
def test_the_example_of_the_page_on_solutions_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/solutions.md", tmp_path)
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert float(names["further"].loss) <= float(names["again"].loss) == float(names["solution"].loss)
    assert len(names["columns"]["loss"]) == names["solution"].steps + 1


@pytest.mark.slow
def test_the_example_of_the_scale_page_runs(tmp_path):
    names = run_page("docs/scale.md", tmp_path)
    assert names["mesh"].size == 8 and names["solution"].steps == 20
    assert float(names["solution"].loss) < 1e-3 * names["solution"].history["loss"][0]


@pytest.mark.slow
def test_the_examples_of_the_extension_page_run(tmp_path):
    names = run_page("docs/extending.md", tmp_path)
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 4, 1))
    solution = riesz.minimise(names["loss"], D, theta0, names["method"], max_steps=5)
    assert float(solution.loss) < float(names["loss"](D(theta0)))
    value = names["burgers"](lambda x: x[0] * x[1])(jax.numpy.array([2.0, 3.0]))
    assert float(value) == pytest.approx(2.0 + 6.0 * 3.0)


@pytest.mark.slow
def test_the_examples_of_the_adapters_page_run(tmp_path):
    names = run_page("docs/adapters.md", tmp_path)
    assert float(names["found"]) == pytest.approx(0.5, rel=1e-8)
    assert float(names["slope"]) == pytest.approx(1.0, rel=1e-6)
    assert float(names["params"]["rate"]) == pytest.approx(0.5, rel=1e-12)
    assert float(names["drawn"]["rate"]) == pytest.approx(0.5, rel=1e-6)


def test_the_readme_shows_the_commands_that_ci_runs():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    commands = re.search(r"```\n(.*?)```", readme, re.DOTALL).group(1).splitlines()
    assert [command.split("#")[0].strip() for command in commands] == ["make reproduce", "make test"]
    assert "make test" in ci
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}: .venv/installed" in makefile for target in ("test", "reproduce"))


def test_the_claims_in_the_docs_are_those_that_are_checked():
    """In the README those that `make reproduce` can judge, in docs/claims.md all, in the words of the package."""
    expected = [(claim.text, claim.place) for claim in CLAIMS]
    row = re.compile(r"^\| (.*?) \| (.*?) \| (reproduced|not reproduced|depends \(on .*?\)) \| (.*) \|$", re.MULTILINE)
    pages = {name: (ROOT / name).read_text() for name in ("README.md", "docs/claims.md")}
    found = {name: [match[:2] for match in row.findall(text)] for name, text in pages.items()}
    assert found["docs/claims.md"] == expected
    assert found["README.md"] == [pair for pair in expected if pair in found["README.md"]]
    assert len(found["README.md"]) >= 24


def test_every_public_name_has_a_docstring():
    names = [name for name in vars(riesz) if not name.startswith("_") and name != "METHODS"]
    missing = [name for name in names if not (getattr(riesz, name).__doc__ or "").strip()]
    assert not missing
