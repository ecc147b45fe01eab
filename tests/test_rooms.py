"""The rooms of the package: nobody imports from a room that comes later, and users need no private one."""

import ast
import pathlib

import pytest

import riesz

SOURCE = pathlib.Path(riesz.__file__).parent
ROOMS = (
    "_types",
    "_check",
    "_bytes",
    "_linalg",
    "_problem",
    "_geometry",
    "_methods",
    "_running",
    "_records",
    "_doors",
    "optimistix",
    "optax",
    "sklearn",
    "experiments",
    "__main__",
)
"""In the order in which they can be read."""
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(path):
    """The rooms, by their first name below `riesz`, that a file imports from."""
    package = ("riesz", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                full = (*base, *name.split("."))
                if len(full) > 1:
                    yield full[1]


def room(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_from_earlier_rooms_only(path):
    assert room(path) in ROOMS
    later = [other for other in imported(path) if ROOMS.index(other) > ROOMS.index(room(path))]
    assert not later


def test_imports_are_seen():
    """The test above would promise nothing if it saw no imports."""
    assert set(imported(SOURCE / "_doors" / "minimise.py")) >= {"_running", "_records", "_methods"}


SUBCLASSED = "Factors Filter InnerProduct Inverse Log Measure Method Momentum Retraction Rows Solver StepSize Transport"


def test_every_abstract_class_that_users_subclass_is_exported():
    assert all(hasattr(riesz, f"Abstract{name}") for name in SUBCLASSED.split())
