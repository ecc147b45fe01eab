"""Ctrl-C as a wish to stop, noted at once and acted on between chunks of steps, so that no chunk is cut off."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class _Note:
    """A signal handler that notes the first Ctrl-C; the second one raises KeyboardInterrupt, as Python does."""

    def __init__(self) -> None:
        self.wish = threading.Event()

    def __call__(self, number: int, frame: Any) -> None:
        if self.wish.is_set():
            signal.default_int_handler(number, frame)
        self.wish.set()


@contextlib.contextmanager
def wish_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one raises KeyboardInterrupt.

    Within another `wish_to_stop` it is the outer one's event: a wish that is noted while one run ends still stops a
    loop over several runs. Only the main thread can handle signals. In other threads, and where a handler other than
    Python's own is set, the event is never set and Ctrl-C keeps its meaning.
    """
    handler, main = signal.getsignal(signal.SIGINT), threading.current_thread() is threading.main_thread()
    if main and isinstance(handler, _Note):
        yield handler.wish
    elif not main or handler is not signal.default_int_handler:
        yield threading.Event()
    else:
        note = _Note()
        signal.signal(signal.SIGINT, note)
        try:
            yield note.wish
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
