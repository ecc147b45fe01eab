"""The README and the docs tell the truth: their tables match the package, their examples run."""

import ast
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riesz
from riesz.experiments._reproduce import PROBLEMS
from riesz.experiments.claims import CLAIMS
from spoken import blocks, run_code, run_page

ROOT = pathlib.Path(__file__).parents[1]


def method_table():
    """The rows that the README must show."""
    return [f"| `{name}` | {method.__doc__.splitlines()[0]} |" for name, method in riesz.METHODS.items()]


def test_the_method_table_is_the_packages():
    text = (ROOT / "README.md").read_text().split("<!-- methods", 1)[1].split("\n\n", 1)[0]
    assert text.splitlines()[3:] == method_table()


def quick_starts():
    """The programs of the README: data, a differential equation, classes."""
    return blocks("README.md")


def test_the_quick_starts_of_the_readme_are_short():
    programs = quick_starts()
    assert len(programs) == 3
    assert all(sum(bool(line.strip()) for line in program.splitlines()) <= 12 for program in programs)


def test_the_first_quick_start_finds_parameters_and_errors():
    names = run_code(quick_starts()[0])
    deviations = np.sqrt(np.diag(names["covariance"]))
    assert np.all(np.abs(names["best"] - np.array([2.5, 1.3, 0.5])) < 3 * deviations) and np.all(deviations < 0.1)


def test_the_second_quick_start_solves_its_equation():
    names = run_code(quick_starts()[1])
    assert names["solution"].result.converged
    x = 0.5
    exact = x - float(jax.numpy.expm1(x / 0.2) / jax.numpy.expm1(1 / 0.2))
    assert float(names["solution"].function(x)) == pytest.approx(exact, abs=1e-11)


@pytest.mark.slow
def test_the_third_quick_start_reads_most_labels():
    names = run_code(quick_starts()[2])
    read = jax.numpy.argmax(jax.vmap(names["solution"].function)(names["x"]), axis=1)
    assert float(jax.numpy.mean(read == names["ring"])) > 0.8


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
def test_the_example_of_the_page_on_time_ends_where_it_says(tmp_path):
    """The vibration is known; as many digits of it as the page promises, at the end of six periods."""
    names = run_page("docs/time.md", tmp_path)
    x = jax.numpy.linspace(0.0, 1.0, 50)
    points = jax.numpy.stack([x, jax.numpy.full_like(x, 6.0)], axis=1)
    np.testing.assert_allclose(jax.vmap(names["solution"].function)(points), np.sin(np.pi * x), atol=1e-7)
    assert not any("anew" in note for note in names["solution"].notes)


@pytest.mark.slow
def test_the_example_of_the_page_on_solutions_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/solutions.md", tmp_path)
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    assert float(names["further"].loss) <= float(names["again"].loss) == float(names["solution"].loss)
    assert len(names["columns"]["loss"]) == names["solution"].steps + 1


@pytest.mark.slow
def test_the_examples_of_the_page_on_fitting_run(tmp_path):
    names = run_page("docs/fitting.md", tmp_path)
    assert np.all(np.abs(names["best"] - np.array([2.5, 1.3, 0.5])) < 4 * np.sqrt(np.diag(names["covariance"])))
    assert names["solution"].result is riesz.Result.VALIDATED
    assert np.isfinite(names["deviations"]).all()


@pytest.mark.slow
def test_the_examples_of_the_page_on_errors_run(tmp_path):
    names = run_page("docs/errors.md", tmp_path)
    x = riesz.gauss_legendre((0.0, 0.0), (1.0, 1.0), 50)
    solution, f, bound = names["solution"], names["f"], names["bound"]
    e = jax.vmap(lambda x: solution.function(x).reshape(()) - f(x) / (2 * np.pi**2))(x.x)
    assert 0.999 < bound.l2 / float(jax.numpy.sqrt(x.weights @ e**2)) < 1.1 and bound.sup > float(abs(e).max())
    assert names["on_a_disc"].sup == pytest.approx(0.01, rel=1e-6)
    k, deviation = names["found"].params["k"], names["found"].deviations()["k"]
    assert abs(k - 5.0) < 3 * deviation < 1.5


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


def table(page, marker):
    """The rows of the table after a comment that begins with the marker, each a list of its cells."""
    text = (ROOT / page).read_text().split(f"<!-- {marker}: checked by", 1)[1].split("-->\n", 1)[1]
    lines = text.lstrip("\n").split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")][2:]


def test_the_claims_in_the_docs_are_those_that_are_checked():
    """From 50 starts all, from 10 those that `make reproduce` can judge, in the words of the package."""
    expected = [(claim.text, claim.place) for claim in CLAIMS]
    verdict = re.compile(r"reproduced|not reproduced|depends \(on .*?\)")
    many, few = (table("docs/claims.md", f"claims from {starts} starts") for starts in (50, 10))
    assert all(len(row) == 4 and verdict.fullmatch(row[2]) and row[3] for row in [*many, *few])
    assert [(row[0], row[1]) for row in many] == expected
    found = [(row[0], row[1]) for row in few]
    assert found == [pair for pair in expected if pair in found]
    assert len(found) >= 24


def test_the_counts_of_verdicts_are_those_of_the_table():
    text = (ROOT / "docs/claims.md").read_text()
    verdicts = [row[2].split(" (")[0] for row in table("docs/claims.md", "claims from 50 starts")]
    for name in ("reproduced", "not reproduced", "depends"):
        assert re.search(rf"Claims:.*\b{verdicts.count(name)} {name}", text), name


def test_the_timings_have_the_rows_that_are_measured():
    """The problems of the package; for a step, what benchmarks/step.py times on both of its problems."""
    assert [row[0] for row in table("docs/timings.md", "solve")] == list(PROBLEMS)
    text = (ROOT / "benchmarks/step.py").read_text()
    methods = ast.literal_eval(re.search(r"^METHODS = (\[.*?\])$", text, re.MULTILINE)[1])
    cholesky = ast.literal_eval(re.search(r"^CHOLESKY = (.*)$", text, re.MULTILINE)[1])
    wanted = ["Jacobian + QR + SVD(R)", *methods, cholesky, "ngd as in minimise"]
    parts = (ROOT / "docs/timings.md").read_text().split("<!-- steps: checked by", 1)[1].split("| | ms |")[1:]
    assert len(parts) == 2
    for part in parts:
        rows = [line.split(" | ") for line in part.split("\n\n", 1)[0].splitlines()[2:]]
        assert [row[0].removeprefix("| ") for row in rows] == wanted
        base, ngd = float(rows[0][1]), float(rows[1][1])
        for row in rows:
            assert float(row[2]) == pytest.approx(float(row[1]) / base, abs=0.011)
            assert float(row[3]) == pytest.approx(float(row[1]) / ngd, abs=0.011)


def test_the_sizes_in_the_readme_are_those_of_the_scale_page():
    """Rows x parameters, memory and seconds, rounded."""
    scale = (ROOT / "docs/scale.md").read_text()
    measured = dict(re.findall(r"^\| (\d+x\d+) \| auto \| (?:[^|]*) \| (.*) \|$", scale, re.MULTILINE))
    rows = re.findall(r"^\| ([\d,]+) x ([\d,]+) \| ([\d.]+) GiB \| (\d+) s \|$", (ROOT / "README.md").read_text(), re.M)
    assert len(rows) == 4
    for n, d, memory, seconds in rows:
        step, peak = measured[f"{n}x{d}".replace(",", "")].split(" | ")
        assert float(seconds) == round(float(step)) and float(memory) == round(float(peak), 1)


def test_every_public_name_has_a_docstring():
    names = [name for name in vars(riesz) if not name.startswith("_") and name != "METHODS"]
    missing = [name for name in names if not (getattr(riesz, name).__doc__ or "").strip()]
    assert not missing


def test_the_examples_of_the_page_on_believing_run(tmp_path):
    names = run_page("docs/believe.md", tmp_path)
    few, dense = names["few"], names["dense"]
    assert few.loss < 1e-20 < 1e-13 < few.between and any("between them" in note for note in few.notes)
    assert dense.between < 1e-14 and not any("between them" in note for note in dense.notes)
    assert any("placed anew" in note for note in dense.notes)


@pytest.mark.slow
def test_points_placed_by_the_residual_are_worth_what_the_page_on_believing_says(tmp_path):
    """Medians of six starts: one of them may end anywhere within a few digits, by the rounding of its first steps."""
    A, (x, eps) = run_page("docs/believe.md", tmp_path)["A"], (jnp.linspace(0.0, 1.0, 501), 0.02)
    exact = x - (jnp.exp((x - 1) / eps) - jnp.exp(-1 / eps)) / (1 - jnp.exp(-1 / eps))
    fixed = riesz.sobol(0.0, 1.0, 200)
    errors = {"fixed": [], "placed": []}
    for start in range(6):
        network, theta0 = riesz.mlp(jax.random.key(start), (1, 8, 8, 1), activation="tanh")
        D = lambda theta, network=network: lambda x: x * (1 - x) * network(theta)(x)
        for name, over in (("fixed", fixed), ("placed", riesz.adaptive(fixed, by="residual"))):
            found = riesz.minimise(riesz.residual(A, 1.0, over), D, theta0, max_steps=400, progress=False)
            errors[name].append(float(jnp.max(jnp.abs(jax.vmap(found.function)(x) - exact))))
    assert np.median(errors["placed"]) < 5e-12 < 1e-10 < np.median(errors["fixed"]) < 1e-8
