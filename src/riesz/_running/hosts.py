"""Many hosts: one process on each runs the same call, and all of them agree on what is not in the program.

After `jax.distributed.initialize()` every process has the same numbers, because values are whole on every device. What
comes from outside, the clock, Ctrl-C, files, may differ: it is told to all by JAX's own collectives.
"""

from collections.abc import Callable

import jax
import numpy as np
from jax.experimental import multihost_utils


class OtherProcessError(RuntimeError):
    """The first process could not begin, in its own words."""


def is_first() -> bool:
    """Whether this process is the one that writes files and shows progress."""
    return jax.process_index() == 0


def are_many() -> bool:
    """Whether there are other processes."""
    return jax.process_count() > 1


def any_of(flag: bool) -> bool:
    """Whether the flag is set on any process."""
    if not are_many():
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def from_first(find: Callable[[], bytes]) -> bytes:
    """What a function finds on the first process, on all of them; where it fails there, all fail."""
    if not are_many():
        return find()
    failure: BaseException | None = None
    content, good = b"", True
    if is_first():
        try:
            content = find()
        except Exception as error:  # raised below, once the others know
            failure, content, good = error, str(error).encode(), False
    head = multihost_utils.broadcast_one_to_all(np.array([len(content), good]))
    whole = np.zeros(int(head[0]), np.uint8)
    whole[: len(content)] = np.frombuffer(content, np.uint8)
    content = np.asarray(multihost_utils.broadcast_one_to_all(whole), np.uint8).tobytes()
    if failure is not None:
        raise failure
    if not head[1]:
        raise OtherProcessError(f"The first process could not begin: {content.decode()}")
    return content
