"""docs/paper.md, from the paper to the code: every item of the paper is there, and every name, file and test exists."""

import ast
import functools
import pathlib
import re
from typing import NamedTuple

import pytest

import riesz

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/paper.md"
TEXT = PAGE.read_text()

NUMBERED = [
    # Section 2
    *[("Example", "2.1"), ("Equation", "(1)"), ("Equation", "(2)"), ("Example", "2.2"), ("Equation", "(3)")],
    ("Equation", "(4)"),
    # Section 3
    *[("Equation", f"({n})") for n in range(5, 12)],
    *[("Remark", "3.1"), ("Equation", "(12)"), ("Equation", "(13)"), ("Equation", "(14)"), ("Example", "3.1")],
    *[("Equation", "(15)"), ("Figure", "1"), ("Remark", "3.2"), ("Lemma", "3.1"), ("Remark", "3.3")],
    *[("Remark", "3.4"), ("Remark", "3.5"), ("Figure", "2"), ("Equation", "(16)"), ("Proposition", "3.1")],
    # Section 4
    *[("Equation", f"({n})") for n in range(17, 28)],
    *[("Definition", "4.1"), ("Equation", "(28)"), ("Remark", "4.1"), ("Equation", "(29)"), ("Definition", "4.2")],
    *[("Equation", "(30)"), ("Proposition", "4.1")],
    *[("Equation", "(31)"), ("Equation", "(32)"), ("Equation", "(33)"), ("Definition", "4.3"), ("Equation", "(34)")],
    *[("Proposition", "4.2"), ("Equation", "(35)"), ("Equation", "(36)"), ("Definition", "4.4")],
    *[("Definition", "4.5"), ("Remark", "4.2"), ("Remark", "4.3"), ("Remark", "4.4")],
    # Section 5
    *[("Equation", "(37)"), ("Figure", "3"), ("Figure", "4"), ("Figure", "5"), ("Figure", "6"), ("Equation", "(38)")],
    *[("Figure", "7"), ("Figure", "8")],
    # Appendices
    *[("Equation", "(39)"), ("Figure", "9"), ("Figure", "10"), ("Figure", "11")],
]
"""The numbered items of the paper, in its order."""

PARTS = {
    ("Example", "2.1"): ["linear space", "shallow network"],
    ("Example", "2.2"): ["(i)", "(ii)", "(iii)", "(iv)", "(v)", "(vi)"],
    ("Example", "3.1"): ["(i)", "(ii)", "(iii)", "(iv)", "(v)"],
}
"""The items that have a row for each of their parts."""

NAMES = {
    ("Lemma", "3.1"): "projection",
    ("Proposition", "3.1"): "natural gradient dynamics",
    ("Definition", "4.1"): "NHB",
    ("Definition", "4.2"): "QNHB",
    ("Proposition", "4.1"): "QNHB",
    ("Definition", "4.3"): "NHB-FD",
    ("Proposition", "4.2"): "NHB-FD",
    ("Definition", "4.4"): "NN-I and NN-I-FD",
    ("Definition", "4.5"): "NN-II and NN-II-FD",
}
"""The items that are known by a name too."""

ERRATA = {
    "Example 2.2 (iv)",
    "Example 3.1 (iv)",
    "Figure 2",
    "Equation (20)",
    "Equation (23)",
    "Section 5, starts",
    "Section 5.2, Mackey-Glass",
    "Section 5.3, classification",
    "Figure 6",
    "Equation (38)",
    "Section 5.4.1, advection-diffusion",
    "Section 5.4.2, reaction-diffusion",
    "Figure 8",
    "Appendix A, proof of Proposition 4.1",
    "Appendix B, proof of Proposition 4.2",
    "Appendix C, Nesterov I and II",
}
"""The rows that say what is wrong in the paper."""


class Row(NamedTuple):
    item: str
    says: str
    code: str
    tests: str


class Link(NamedTuple):
    text: str
    target: str


HEADER = Row("paper", "what it says", "code", "tests")
LINES = [line for line in TEXT.splitlines() if line.startswith("|") and set(line) != set("|-")]
TABLE = [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in LINES]
ROWS = [row for row in TABLE if row != HEADER]
LINKS = [Link(*pair) for pair in re.findall(r"\[([^\]]*)\]\(([^)]*)\)", TEXT)]
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", TEXT)))
PUBLIC = sorted({name for span in re.findall(r"`([^`]+)`", TEXT) for name in re.findall(r"\briesz((?:\.\w+)+)", span)})
NUMBER = re.compile(r"(Example|Definition|Remark|Lemma|Proposition|Equation|Figure) (\d+\.\d+|\(\d+\)|\d+)(.*)")
IDS = [row.item for row in ROWS]


def rows_of(item):
    """How the paper's column must name an item: its parts, or its number and name."""
    label = " ".join(item)
    if item in PARTS:
        return [label + (" " if part.startswith("(") else ", ") + part for part in PARTS[item]]
    return [f"{label} ({NAMES[item]})" if item in NAMES else label]


def test_every_numbered_item_has_its_row_in_the_order_of_the_paper():
    assert len(set(NUMBERED)) == len(NUMBERED)
    found = [match for match in map(NUMBER.fullmatch, IDS) if match]
    assert list(dict.fromkeys((match[1], match[2]) for match in found)) == NUMBERED
    for item in NUMBERED:
        assert [match[0] for match in found if (match[1], match[2]) == item] == rows_of(item)


def test_the_other_rows_say_where_they_stand():
    assert len(set(IDS)) == len(IDS), "one row an item"
    others = [item for item in IDS if not NUMBER.fullmatch(item)]
    assert len(others) >= 20
    assert [item for item in others if not re.fullmatch(r"(Section \d(\.\d){0,2}|Appendix [ABC]), .+", item)] == []


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in NUMBERED}))
def test_numbers_are_counted_without_a_gap(kind):
    """1, 2, 3 for equations and figures; within the section for the others: the list above is itself in order."""
    numbers = [[int(n) for n in re.findall(r"\d+", number)] for k, number in NUMBERED if k == kind]
    last = {}
    for *section, n in numbers:
        assert n == last.get(tuple(section), 0) + 1
        last[tuple(section)] = n
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_exist(name):
    found = functools.reduce(getattr, name.removeprefix(".").split("."), riesz)
    assert found is not None and not any(part.startswith("_") for part in name.split("."))


def test_links_lead_to_files():
    assert len(LINKS) > 100
    assert [link.target for link in LINKS if not (PAGE.parent / link.target).is_file()] == []


def test_links_are_what_they_are_called():
    """`src/...py` and `tests/...py::name` link to that very file."""
    shown = [link for link in LINKS if link.text.startswith("`")]
    assert len(shown) > 100
    for link in shown:
        path = link.text.strip("`").split("::")[0]
        assert (PAGE.parent / link.target).resolve() == ROOT / path, link
    assert {link.text.strip("`") for link in shown} >= set(TESTS), "every test is a link"


@functools.cache
def defined_in(path):
    """The names of a file's tests: functions, classes, and methods behind their class."""
    names = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
            names.update(f"{node.name}::{method}" for method in methods)
            names.update([node.name] if methods else [])
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names.add(node.name)
    return names


@pytest.mark.parametrize("test", TESTS)
def test_tests_exist(test):
    path, name = test.split("::", 1)
    assert name in defined_in(path)


def test_every_mention_of_a_test_is_seen():
    """Nothing that looks like a test escapes the check above."""
    assert set(re.findall(r"[\w/]+\.py::[\w:]+", TEXT)) == set(TESTS)
    assert len(TESTS) > 60


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_row_names_what_implements_and_what_tests_it(row):
    """Or says in words that there is nothing."""
    nothing = re.match("(nothing to implement|not implemented)\\b", row.code)
    assert row.says
    assert nothing or re.search(r"`riesz\.\w+|`src/riesz/[\w/]+\.py`", row.code)
    assert "`tests/" in row.tests or (nothing and row.tests == "nothing to test")
    names = re.sub(r"\[`tests/[\w/.:]+`\]\([\w/.]+\)", "", row.tests)
    assert set(names) <= set(", ") or row.tests == "nothing to test", "the last column holds tests alone"


def test_errata_are_marked():
    assert {row.item for row in ROWS if "**Erratum:**" in row.says} == ERRATA
    assert TEXT.count("**Erratum:**") == len(ERRATA)


def test_what_is_not_reproduced_is_what_the_claims_say():
    """In the words of docs/claims.md, which has the verdicts from 50 starts."""
    claims = (ROOT / "docs/claims.md").read_text().split("<!-- claims from 10 starts", 1)[0]
    failed = re.findall(r"^\| ([^|]*?) \| [^|]* \| not reproduced \|", claims, re.MULTILINE)
    said = re.findall(r'\*\*Not reproduced:\*\* "([^"]*)"', TEXT)
    assert failed
    assert sorted(said) == sorted(failed)


def test_every_method_has_its_place():
    assert {f".{name}" for name in riesz.METHODS} <= set(PUBLIC)


def test_the_tests_made_for_the_page_are_on_it():
    path = "tests/test_paper_items.py"
    assert {test for test in TESTS if test.startswith(path)} == {f"{path}::{name}" for name in defined_in(path)}
