"""Every test runs in float64, with rank promotion an error, and hears Ctrl-C."""

import signal
import threading

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# A shell's background job, and all its children, would be deaf to the signal that some tests send.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
