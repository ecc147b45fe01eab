"""The walk of a step, from `minimise` to LAPACK and back, is short, and is the one that CONTRIBUTING.md shows."""

import collections
import pathlib

from walk import shown, step, walk

CONTRIBUTING = pathlib.Path(__file__).parents[1] / "CONTRIBUTING.md"
MOST = 3
"""How often one file may be entered."""


def test_no_file_is_entered_more_than_three_times():
    entries = collections.Counter(file for file, _ in walk(step("nhb")))
    assert {file: count for file, count in entries.items() if count > MOST} == {}
    assert entries["_linalg/solvers/qrsvd.py"] > 0, "the walk reaches LAPACK"


def test_contributing_shows_it():
    text = CONTRIBUTING.read_text().split("<!-- walk", 1)[1].split("```\n", 2)[1]
    assert text.rstrip() == shown(walk(step("nhb")))
