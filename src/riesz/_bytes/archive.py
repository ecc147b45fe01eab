"""One file that is either whole or refused: an .npz without pickle, with a manifest and a checksum.

It is a zip archive of stored members, as `numpy.load` opens it: `manifest.json`, then one .npy file per array. The
archive's comment, which ends the file, is the SHA-256 of everything before it, so that a change of any byte is seen
before anything is parsed.
"""

import hashlib
import io
import json
import math
import pathlib
import zipfile
from typing import Any

import numpy as np

MARK = b"sha256:"
MANIFEST = "manifest.json"
OVERHEAD = 1 << 20
"""The manifest, and all headers together, take less than this."""
EPOCH = (1980, 1, 1, 0, 0, 0)


class Damaged(Exception):
    """A file that is not what was written, in words that follow its name."""


def pack(manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The file's bytes; the manifest is given the shape and dtype of every array."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    shapes = {name: {"shape": list(array.shape), "dtype": array.dtype.str} for name, array in arrays.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps({**manifest, "arrays": shapes}, indent=1)
        archive.writestr(zipfile.ZipInfo(MANIFEST, EPOCH), text)
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", EPOCH), member.getvalue())
        archive.comment = MARK + bytes(64)
    body = buffer.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def unpack(path: pathlib.Path, limit: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of a file that holds at most `limit` bytes of arrays; `Damaged` where it is not whole."""
    try:
        size = path.stat().st_size
        if size > limit + OVERHEAD:
            raise Damaged(f"has {size} bytes, where at most {limit + OVERHEAD} make sense")
        content = path.read_bytes()
    except OSError as error:
        raise Damaged(f"cannot be read ({error.strerror})") from error
    return parse(content)


def parse(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of a file's bytes; `Damaged` where they are not whole."""
    body, stated = content[:-64], content[-64:]
    if not body.endswith(MARK) or hashlib.sha256(body).hexdigest().encode() != stated:
        raise Damaged("does not match its checksum")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise Damaged("is compressed, which riesz's files are not")
            manifest = json.loads(archive.read(MANIFEST))
            return manifest, {name: _array(archive, name, said) for name, said in manifest["arrays"].items()}
    # What parsers raise for contents that nobody damaged: RuntimeError covers encryption, zip features that do not
    # exist here, and nesting too deep.
    except (zipfile.BadZipFile, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise Damaged("has a good checksum but is no checkpoint or solution") from error


def _array(archive: zipfile.ZipFile, name: str, said: dict[str, Any]) -> np.ndarray:
    """One array, as large as its member, and no larger: a header can promise more than there is."""
    content = archive.read(f"{name}.npy")
    member = io.BytesIO(content)
    version = np.lib.format.read_magic(member)
    shape, _, dtype = np.lib.format.read_array_header_1_0(member) if version == (1, 0) else (None, None, None)
    if dtype is None or shape is None or dtype.hasobject or dtype.str != said["dtype"] or list(shape) != said["shape"]:
        raise Damaged(f"has a member {name} that its manifest does not describe")
    if math.prod(shape) * dtype.itemsize != len(content) - member.tell():
        raise Damaged(f"has a member {name} of a wrong size")
    return np.load(io.BytesIO(content), allow_pickle=False)
