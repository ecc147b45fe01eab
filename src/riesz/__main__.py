"""`python -m riesz`, and the `riesz` command: without its extra it says what to install."""

import importlib.util
import sys

from . import __version__

NEEDED = ("matplotlib", "optax", "plotly", "rich", "tyro")
"""What the extra `cli` brings."""


def main() -> None:
    """Tell the version, or run the command."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"riesz {__version__}")
        return
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f'riesz: this command needs {", ".join(missing)}; install them by: pip install "riesz[cli]".',
            file=sys.stderr,
        )
        sys.exit(2)
    from .experiments.cli import main as command

    command()


if __name__ == "__main__":
    main()
