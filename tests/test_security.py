"""The source runs no code that it reads: no pickles, no eval, no shells; and every package is pinned.

The rules, on the syntax tree of every file of src/, examples/ and benchmarks/, with imported names followed through
their aliases:

- no import of pickle, cloudpickle, dill, jsonpickle, joblib, shelve or marshal, by a statement or by name;
- no mention of the built-in eval, exec or compile (methods of that name, such as re.compile, are others);
- numpy.load and jax.numpy.load only with allow_pickle=False written out, and allow_pickle= nothing else anywhere;
- no os.system, os.popen, os.exec* or os.spawn*; subprocess only without shell= (or with shell=False written out),
  without keywords that are not written out, and without its two functions that always start a shell;
- of yaml only safe_load and the dumpers; no tempfile.mktemp; no read_pickle.
"""

import ast
import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FILES = sorted(path for folder in ("src", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "jsonpickle", "joblib", "shelve", "marshal"}
BUILTINS = {"eval", "exec", "compile"}
LOADERS = {"numpy.load", "jax.numpy.load"}
FORBIDDEN = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "tempfile.mktemp"}
FORBIDDEN |= {"asyncio.create_subprocess_shell", "pandas.read_pickle"}
FORBIDDEN |= {f"builtins.{name}" for name in BUILTINS}
SAFE_YAML = {"yaml.safe_load", "yaml.safe_load_all", "yaml.dump", "yaml.safe_dump", "yaml.YAMLError"}


def imports(tree):
    """What every imported name stands for, wherever in the file it is imported."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def dotted(node, names):
    """The full name of a name or attribute; None for attributes of values."""
    if isinstance(node, ast.Attribute):
        whole = dotted(node.value, names)
        return None if whole is None else f"{whole}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else None


def is_false(node):
    return isinstance(node, ast.Constant) and node.value is False


def call_faults(node, name):
    """What is wrong with one call."""
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in LOADERS and not is_false(keywords.get("allow_pickle")):
        yield f"{name} without allow_pickle=False"
    if "allow_pickle" in keywords and not is_false(keywords["allow_pickle"]):
        yield "allow_pickle= that is not False"
    if name.startswith("subprocess.") and (
        None in keywords or not is_false(keywords.get("shell", ast.Constant(False)))
    ):
        yield f"{name} with a shell, or with keywords that are not written out"
    if name in ("__import__", "importlib.import_module") and node.args:
        module = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if module is None or str(module).split(".")[0] in PICKLES:
            yield f"an import by name of {module or 'what is not written out'}"


def faults(source):
    """Every breach of the rules in a file, as (line, what)."""
    tree = ast.parse(source)
    names = imports(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [] if node.level else [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            modules = []
        found += [(node.lineno, f"import of {module}") for module in modules if module.split(".")[0] in PICKLES]
        # A function that is forbidden is so from its import on, and a star hides what is imported.
        found += [(node.lineno, f"import of {m}") for m in modules if m in FORBIDDEN or m.endswith(".*")]
        if isinstance(node, ast.Name | ast.Attribute):
            name = dotted(node, names)
            if isinstance(node, ast.Name) and name in BUILTINS:
                found.append((node.lineno, name))
            elif name is not None and (name in FORBIDDEN or re.match(r"os\.(exec|spawn|posix_spawn)", name)):
                found.append((node.lineno, name))
            elif name is not None and re.match(r"yaml\.\w", name) and name not in SAFE_YAML:
                found.append((node.lineno, name))
            elif isinstance(node, ast.Attribute) and node.attr == "read_pickle":
                found.append((node.lineno, "read_pickle"))
        if isinstance(node, ast.Call):
            found += [(node.lineno, fault) for fault in call_faults(node, dotted(node.func, names) or "")]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_source_runs_nothing_that_it_reads(path):
    assert faults(path.read_text()) == []


def test_all_source_is_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == {"src", "examples", "benchmarks"}
    assert ROOT / "src" / "riesz" / "experiments" / "_store.py" in FILES


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import numpy, dill as safe",
        "from cloudpickle import loads",
        "def f():\n    from joblib import load",
        "import xml.dom, marshal",
        "__import__('pickle')",
        "from importlib import import_module as get\nget('shelve')",
        "from importlib import import_module\nimport_module(name)",
        "eval('1')",
        "f = exec",
        "compile('1', '', 'eval')",
        "import builtins\nbuiltins.eval('1')",
        "import numpy as np\nnp.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "import numpy as np\nnp.load(path, None, True)",
        "from numpy import load as get\nget(path)",
        "import jax.numpy as jnp\njnp.load(path)",
        "file.read(allow_pickle=1)",
        "file.read(allow_pickle=flag)",
        "import os\nos.system('ls')",
        "import os as o\nrun = o.popen",
        "from os import system",
        "import os\nos.execv(path, [])",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import subprocess\nsubprocess.run('ls', shell=flag)",
        "from subprocess import Popen as P\nP('ls', **options)",
        "import subprocess\nsubprocess.getoutput('ls')",
        "import yaml\nyaml.load(text)",
        "from yaml import unsafe_load\nunsafe_load(text)",
        "import tempfile\ntempfile.mktemp()",
        "from tempfile import mktemp",
        "import pandas\nframe = pandas.read_pickle(path)",
        "from os import *",
    ],
)
def test_the_rules_find(source):
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import re\nre.compile('a')",
        "import jax\njax.jit(f).lower(x).compile()",
        "import jax\njax.eval_shape(f, x)",
        "store.load(name)",
        "import subprocess\nsubprocess.run(['ls'], check=True)",
        "import subprocess\nsubprocess.run(['ls'], shell=False)",
        "import yaml\nyaml.safe_load(text)",
        "import tempfile\ntempfile.mkstemp()",
        "text = 'eval(pickle)'  # exec",
        "from . import compile_all",
    ],
)
def test_the_rules_permit(source):
    assert faults(source) == []


def canonical(name):
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.strip()]


def test_every_package_is_pinned_exactly_and_once():
    """One name==version a line: no ranges, wildcards, index addresses, links, options or markers."""
    exact = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)?)")
    matches = [exact.fullmatch(line) for line in pins()]
    assert [line for line, match in zip(pins(), matches, strict=True) if match is None] == []
    names = [canonical(match[1]) for match in matches]
    assert len(names) == len(set(names)) > 0


def test_every_dependency_is_among_the_pins():
    """What pyproject.toml asks for, extras and the build's own included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = project["build-system"]["requires"] + project["project"]["dependencies"] + sum(extras.values(), [])
    names = {canonical(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in wanted} - {"riesz"}
    assert names <= {canonical(line.split("==")[0]) for line in pins()}


def test_nothing_names_another_index():
    """Neither the Makefile nor pyproject.toml sends pip elsewhere."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        assert not re.search(r"index-url|find-links|trusted-host|://", (ROOT / name).read_text()), name


def test_the_security_page_is_found():
    assert "(SECURITY.md)" in (ROOT / "CONTRIBUTING.md").read_text()
    page = (ROOT / "SECURITY.md").read_text()
    assert "private security advisory" in page
    assert "@" not in page


def test_an_audit_that_could_ask_nothing_fails():
    """Without --strict, packages that the service did not answer for count as no fault found."""
    target = (ROOT / "Makefile").read_text().split("\naudit:", 1)[1].split("\n\n", 1)[0]
    assert "pip-audit --strict" in target and "exit 1" in target
