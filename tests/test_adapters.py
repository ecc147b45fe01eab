"""The adapters are imported when somebody asks for them, and say what they need where it is missing."""

import subprocess
import sys

import pytest

import riesz
from spoken import check_sentence

ADAPTERS = ("optax", "optimistix")


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_without_its_package_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"riesz.{name}", raising=False)
    monkeypatch.delitem(vars(riesz), name, raising=False)
    check_sentence(lambda: getattr(riesz, name), ImportError, rf'needs {name}.*pip install "riesz\[{name}\]"')


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_the_room_of_its_name(name):
    assert getattr(riesz, name).__name__ == f"riesz.{name}"


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="no attribute 'optix'"):
        _ = riesz.optix


def test_riesz_alone_imports_no_adapter():
    program = "import sys, riesz; print([name for name in ('optax', 'optimistix', 'sklearn') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert run.stdout.strip() == "[]", run.stderr
