"""Ctrl-C as a wish to stop: noted at once, honoured between chunks of steps, so that nothing is half done."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class _Note:
    """A handler of signals that notes the first Ctrl-C; the second one raises KeyboardInterrupt, as it always does."""

    def __init__(self) -> None:
        self.wish = threading.Event()

    def __call__(self, number: int, frame: Any) -> None:
        if self.wish.is_set():
            signal.default_int_handler(number, frame)
        self.wish.set()


@contextlib.contextmanager
def wish_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one raises KeyboardInterrupt.

    Within another `wish_to_stop` it is the outer one's event, so that a wish noted while the last chunk of a run
    ends is still there for those who run many. Only the main thread can listen to signals; elsewhere, and where
    signals are handled by someone else's own handler, the event is never set and Ctrl-C keeps its meaning.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
    elif isinstance(handler, _Note):
        yield handler.wish
    elif handler is not signal.default_int_handler:
        yield threading.Event()
    else:
        note = _Note()
        signal.signal(signal.SIGINT, note)
        try:
            yield note.wish
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
