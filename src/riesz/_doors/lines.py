"""Progress as lines, for output that is redirected into a file."""

from typing import TextIO


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
