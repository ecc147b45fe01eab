"""Results of benchmarks in files, one for each start, so that an interrupted command goes on when it is given again."""

import functools
import hashlib
import json
import os
import pathlib
import sys
from dataclasses import dataclass

import riesz


@functools.cache
def code():
    """A short name for the code of the library as it stood when this was first called."""
    root, found = pathlib.Path(riesz.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


@dataclass
class Store:
    """Results in a folder, one file each, put in its place whole."""

    folder: pathlib.Path
    fresh: bool = False
    """Whether everything is found anew, whatever is stored."""

    def path(self, names):
        """The file of these names."""
        return self.folder / (".".join(str(name) for name in names.values()) + ".json")

    def stored(self, **names):
        """What is stored under these names, or None."""
        path = self.path(names)
        return json.loads(path.read_text()) if path.exists() else None

    def result(self, find, **names):
        """What is stored under these names; found and stored now where there is nothing."""
        held = None if self.fresh else self.stored(**names)
        if held is not None:
            return held
        found = find()
        result, path = {**names, "code": code(), **found}, self.path(names)
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.part")
        aside.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(aside, path)
        told = ", ".join(
            f"{name} {value:.2e}" if isinstance(value, float) else f"{name} {value}" for name, value in found.items()
        )
        print(f"{', '.join(f'{name} {value}' for name, value in names.items())}: {told}", file=sys.stderr, flush=True)
        return result
