"""Ctrl-C as a wish to stop: noted at once, honoured between chunks of steps, so that nothing is half done."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def wish_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one raises KeyboardInterrupt, as it always does.

    Only the main thread can listen to signals; elsewhere, and where signals are handled by someone else's own
    handler, the event is never set and Ctrl-C keeps its meaning.
    """
    wish = threading.Event()
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield wish
        return

    def note(number: int, frame: Any) -> None:
        if wish.is_set():
            signal.default_int_handler(number, frame)
        wish.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield wish
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
