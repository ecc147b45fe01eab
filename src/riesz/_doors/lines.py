"""Progress as a bar, or as lines where output is redirected into a file."""

import sys
from typing import Any, TextIO

from tqdm.auto import tqdm

from .._running import hosts

SELDOM = 10.0
"""Where output is redirected, progress is told every so many seconds."""


class Lines:
    """A stream that ends lines where a progress bar would go back to their beginning."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        """The text, each of its returns a new line; what only clears a line is left out."""
        line = text.replace("\r", "").rstrip()
        if line:
            self.stream.write(line + "\n")
        return len(text)

    def flush(self) -> None:
        """Let the text be seen."""
        self.stream.flush()


def bar_of(progress: Any, total: int, unit: str) -> Any:
    """The progress bar that is asked for, by True, False or "auto"."""
    if not hosts.is_first() or progress is False:
        return tqdm(total=total, unit=unit, disable=True)
    if progress == "auto" and not sys.stderr.isatty():
        # A line now and then, none at all in short runs, and no cursor to move.
        slow = {"mininterval": SELDOM, "maxinterval": SELDOM, "delay": SELDOM, "leave": False, "ncols": 100}
        return tqdm(total=total, unit=unit, file=Lines(sys.stderr), **slow)
    return tqdm(total=total, unit=unit, dynamic_ncols=True)
