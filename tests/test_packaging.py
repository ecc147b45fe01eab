"""What is installed: the wheel alone, its oldest companions, the command with and without its extra; who to cite."""

import importlib.util
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tomllib

import pytest
import yaml

import riesz
from spoken import blocks

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def called(monkeypatch, *arguments):
    """The command, in this process, as `python -m riesz` runs it; its exit code."""
    monkeypatch.setattr(sys, "argv", ["riesz", *arguments])
    monkeypatch.delitem(sys.modules, "riesz.__main__", raising=False)
    try:
        runpy.run_module("riesz", run_name="__main__")
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_command_tells_its_version(option, monkeypatch, capsys):
    assert called(monkeypatch, option) == 0
    assert capsys.readouterr().out == f"riesz {riesz.__version__}\n"


@pytest.mark.parametrize("hidden", [("tyro",), ("matplotlib", "plotly", "optax")], ids="-".join)
def test_without_its_extra_the_command_says_what_to_install(hidden, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in hidden else find(name, *rest))
    assert called(monkeypatch, "methods") == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    assert all(name in said.err for name in hidden) and 'pip install "riesz[cli]"' in said.err


def test_the_extra_brings_what_the_command_needs():
    from riesz.__main__ import NEEDED

    extras = PROJECT["optional-dependencies"]
    brought = {*extras["cli"], *extras["plot"], *extras["report"]}
    assert set(NEEDED) == {name for name in brought if not name.startswith("riesz[")}
    assert all(importlib.util.find_spec(name) for name in NEEDED)


def test_one_version_everywhere():
    assert PROJECT["version"] == riesz.__version__ == CITATION["version"]
    assert f"## {riesz.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_citation_names_the_developers_and_the_paper():
    assert CITATION["cff-version"] == "1.2.0" and CITATION["message"] and CITATION["title"] == PROJECT["name"]
    assert CITATION["authors"] == [{"name": "The riesz developers"}] and CITATION["license"] == PROJECT["license"]
    paper = CITATION["preferred-citation"]
    assert paper["title"] == "Natural gradient descent with momentum" and paper["type"] == "article"
    assert [author["family-names"] for author in paper["authors"]] == ["Nouy", "Somacal"]


def floors():
    """The oldest versions that pyproject.toml allows of what riesz needs."""
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement) for requirement in PROJECT["dependencies"]]
    assert all(matches)
    return [f"{match[1]}=={match[2]}" for match in matches]


def test_floors_lie_below_the_pins():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    numbers = lambda version: [int(part) for part in version.split(".")]
    for floor in floors():
        name, version = floor.split("==")
        assert numbers(version) <= numbers(pins[name]), name


def run(*command, cwd, **environment):
    """A command that must succeed, away from this checkout; what it prints."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JAX_", "XLA_"))}
    found = subprocess.run(
        list(map(str, command)), cwd=cwd, env=plain | environment, capture_output=True, text=True, timeout=1200
    )
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
    return found.stdout


def pip(python, *arguments, cwd, **environment):
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, cwd=cwd, **environment)


@pytest.fixture
def empty(tmp_path):
    """The Python of an environment with nothing in it."""
    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    return tmp_path / "empty/bin/python"


@pytest.mark.slow
def test_the_wheel_alone_runs_the_quick_starts(empty, tmp_path):
    pinned = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}  # a variable, which the build of the wheel sees too
    pip(empty, "wheel", ROOT, "--no-deps", "--wheel-dir", tmp_path, cwd=tmp_path, **pinned)
    (wheel,) = tmp_path.glob("riesz-*.whl")
    pip(empty, "install", wheel, cwd=tmp_path, **pinned)
    for program in blocks("README.md"):
        assert run(empty, "-W", "error", "-c", program, cwd=tmp_path).strip()
    typed = "import riesz, pathlib; print((pathlib.Path(riesz.__file__).parent / 'py.typed').exists())"
    assert run(empty, "-c", typed, cwd=tmp_path).strip() == "True"
    command = empty.with_name("riesz")
    assert run(command, "--version", cwd=tmp_path) == run(empty, "-m", "riesz", "--version", cwd=tmp_path)
    refused = subprocess.run([command, "methods"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (
        refused.returncode == 2 and 'pip install "riesz[cli]"' in refused.stderr and "Traceback" not in refused.stderr
    )


CORE = ["smoke", "retraction", "residual_vector", "conjugate_gradients", "step_sizes", "momentum"]
"""The tests that the oldest versions must pass; those of the solvers need lineax, whose own floor may be higher."""


@pytest.mark.slow
def test_the_oldest_versions_pass_the_core_of_the_tests(empty, tmp_path):
    pip(empty, "install", *floors(), "pytest", "hypothesis", "optax", "--only-binary", ":all:", cwd=tmp_path)
    files = [ROOT / f"tests/test_{name}.py" for name in CORE]
    found = run(
        empty, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--rootdir", ROOT, *files,
        cwd=tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    )  # fmt: skip
    assert re.search(r"\b\d{2,} passed", found) and "failed" not in found
