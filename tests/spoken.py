"""What tests of many files ask of words: that errors are sentences, and that the examples of a page run."""

import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def check_sentence(call, error, pattern):
    """The call fails with one sentence, short enough to be read, that has the pattern in it."""
    with pytest.raises(error, match=pattern) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".") and not message.endswith("..")
    assert len(message) <= 250


def blocks(page):
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def code(page):
    """The same as one program."""
    return "\n".join(blocks(page))


def run_code(program):
    """The names that a program leaves."""
    names = {"__name__": "__main__"}
    exec(compile(program, "<program>", "exec"), names)
    return names


def run_page(page, folder):
    """The names that the program of a page leaves."""
    path = folder / f"{pathlib.Path(page).stem.lower()}_page.py"
    path.write_text(code(page))
    return runpy.run_path(str(path))
