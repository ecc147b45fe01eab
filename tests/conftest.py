"""Every test runs in float64, with rank promotion an error, programs traced and compiled fast, and hears Ctrl-C."""

import gc
import os
import signal
import threading

# Before JAX reads it: the command keeps compiled programs in the home of who calls it, the tests do not.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax
import pytest

import compiling

# Most programs of the tests run once, so that tracing and compiling them is what takes time.
compiling.compile_fast()
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 8)  # one machine stands for many; what names no mesh uses the first alone
jax.config.update("jax_numpy_rank_promotion", "raise")

# A shell's background job, and all its children, would be deaf to the signal that some tests send.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a test that is marked `at_once(n)`, all are slow but n that lie evenly among them."""
    cases = {}
    for item in items:
        if item.get_closest_marker("at_once"):
            cases.setdefault((item.path, item.cls, item.originalname), []).append(item)
    for found in cases.values():
        wanted = min(found[0].get_closest_marker("at_once").args[0], len(found))
        chosen = {i * len(found) // wanted for i in range(wanted)}
        for i, item in enumerate(found):
            if i not in chosen:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Let the search for cyclic garbage pass over what was imported, and take place less often.

    Traced programs are many small objects that live on: walking through all of them after every 700 new ones takes a
    good part of the time.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
