"""What the scripts with pictures share: `python examples/heat.py [--short] [--out heat.png]`.

Each has `solve(short)`, which returns its figures and what a picture needs, and `draw(found)`, which returns it.
"""

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import jax
from matplotlib.figure import Figure

jax.config.update("jax_enable_x64", True)


def main(file: str, solve: Callable[[bool], dict[str, Any]], draw: Callable[[dict[str, Any]], Figure]) -> None:
    """Solve, print every number that was found, and save the picture."""
    name = pathlib.Path(file).stem
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="fewer steps, to see that it runs")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(f"{name}.png"), help="the picture")
    options = parser.parse_args()
    found = solve(options.short)
    for key, value in found.items():
        if isinstance(value, (int, float, str)):
            print(f"{key}: {value:.3g}" if isinstance(value, float) else f"{key}: {value}")
    draw(found).savefig(options.out, dpi=130)
    print(f"The picture is {options.out}.")
