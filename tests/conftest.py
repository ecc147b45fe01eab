"""Every test runs in float64, with rank promotion an error, programs traced and compiled fast, and hears Ctrl-C."""

import gc
import os
import signal
import threading

# Before JAX reads it: the command keeps compiled programs in the home of who calls it, the tests do not.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax

import compiling

# Most programs of the tests run once, so that tracing and compiling them is what takes time.
compiling.compile_fast()
jax.config.update("jax_traceback_in_locations_limit", 0)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# A shell's background job, and all its children, would be deaf to the signal that some tests send.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Let the search for cyclic garbage pass over what was imported, and take place less often.

    Traced programs are many small objects that live on: walking through all of them after every 700 new ones takes a
    good part of the time.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
