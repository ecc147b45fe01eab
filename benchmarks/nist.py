"""The certified digits of auto on NIST's nonlinear regression problems: 27 data sets, two starts each.

    python benchmarks/nist.py [--method auto] [--max-steps 5000] [--only Hahn1,MGH10]

Runs the checker that stands beside the data in ../shared; where that is missing, it says so.
"""

import pathlib
import runpy
import sys

CHECKER = pathlib.Path(__file__).parents[2] / "shared" / "bench" / "nist.py"

if __name__ == "__main__":
    if not CHECKER.exists():
        sys.exit(f"{CHECKER} is missing: it reads the data sets of NIST's Statistical Reference Datasets.")
    runpy.run_path(str(CHECKER), run_name="__main__")
