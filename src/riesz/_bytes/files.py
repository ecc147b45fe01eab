"""Files that are replaced as a whole, on file systems that do not all keep the same promises."""

import contextlib
import errno
import functools
import logging
import os
import pathlib
from collections.abc import Iterator
from typing import IO

logger = logging.getLogger("riesz")

UNFINISHED = ".writing-"
"""How the names of files begin that are being written, or whose writer was killed."""
CANNOT_SYNCHRONISE = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that do not know how to synchronise; other errors mean that something was lost."""


def reason(error: OSError) -> str:
    """Why the file system refused, in its own words."""
    return error.strerror or str(error) or type(error).__name__


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when it is whole and on the disk, and else leaves nothing.

    It is written under another name, synchronised and renamed, and the folder is synchronised too. A kill leaves either
    the old file or the new one, and perhaps a file whose name begins with `UNFINISHED`.
    """
    unfinished = path.with_name(f"{UNFINISHED}{os.getpid()}-{path.name}")
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            synchronise(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    _synchronise_folder(path.parent)


def synchronise(descriptor: int) -> None:
    """Wait until a file is on the disk, as far as its file system can tell."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_SYNCHRONISE:
            raise


def _synchronise_folder(folder: pathlib.Path) -> None:
    """Wait until the names in a folder are on the disk; the files are in their places whether that works or not."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        _warn_of_folder(folder, reason(error))


@functools.cache
def _warn_of_folder(folder: pathlib.Path, why: str) -> None:
    """Say once for a folder what its file system does not promise."""
    logger.warning("%s cannot be synchronised (%s); if the machine fails, its newest file may be lost.", folder, why)
