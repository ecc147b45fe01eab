"""The certified digits of auto on NIST's nonlinear regression problems: 27 data sets, two starts each.

    python benchmarks/nist.py [--method auto] [--max-steps 5000] [--only Hahn1,MGH10]
    python benchmarks/nist.py --curve-fit [--only Hahn1,MGH10]

Runs the checker that stands beside the data in ../shared; where that is missing, it says so. With --curve-fit the same
problems go through `riesz.curve_fit`, its covariances beside SciPy's at the same parameters, and ten of them with
bounds that cut the solution off, beside SciPy's `least_squares`.
"""

import argparse
import pathlib
import runpy
import sys
import warnings

CHECKER = pathlib.Path(__file__).parents[2] / "shared" / "bench" / "nist.py"
BOUNDED = {
    "Chwirut2": (0,), "DanWood": (1,), "Eckerle4": (1,), "Gauss1": (1, 3), "Kirby2": (4,), "MGH09": (0, 2),
    "Misra1a": (0,), "Misra1d": (1,), "Rat42": (1,), "Thurber": (2, 6),
}  # fmt: skip
"""Problems with the parameters that bounds keep a tenth of their size away from the solution."""
SOLVED = 4
"""So many certified digits are a solution."""
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "max_nfev": 5000}


def covariance_error(f, x, y, popt, pcov) -> float:
    """How far a covariance is from the one that SciPy gives at the same parameters, in units of the deviations."""
    import jax
    import numpy as np
    from scipy.optimize import curve_fit

    J = jax.jit(jax.jacfwd(lambda p: f(x, *p)))
    # One evaluation: SciPy stays where it is, and says what the covariance is there.
    values, slopes = (lambda x, *p: np.asarray(f(x, *p))), (lambda x, *p: np.asarray(J(np.array(p))))
    _, expected = curve_fit(values, x, y, popt, jac=slopes, method="trf", ftol=1.0, xtol=1.0, gtol=1.0)
    sizes = np.sqrt(np.diag(expected))
    return float(np.max(np.abs(pcov - expected) / np.outer(sizes, sizes)))


def through_curve_fit(nist, names) -> bool:
    """The certified digits of `curve_fit` from both starts, and its covariances."""
    import numpy as np

    import riesz

    solved, runs, worst = 0, 0, 0.0
    for name in names:
        x, y, starts, certified = nist["load"](name)
        x = x.T if x.ndim == 2 else x
        f = lambda x, *p, model=nist["MODELS"][name]: model(p, x)
        for number, start in enumerate(starts, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a run that stagnates at rounding says so
                popt, pcov = riesz.curve_fit(f, x, y, start, max_steps=5000, progress=False, throw=False)
            digits, runs = nist["digits"](popt, certified), runs + 1
            solved += digits >= SOLVED
            error = covariance_error(f, x, y, popt, pcov) if np.isfinite(pcov).all() else np.inf
            worst = max(worst, error)
            print(
                f"{name:9s} start {number}: {digits:5.1f} digits, covariance within {error:.0e} of SciPy's", flush=True
            )
    print(f"curve_fit: {solved} of {runs} solved, covariances within {worst:.0e} of SciPy's")
    return solved == runs and worst <= 1e-6


def within_bounds(nist, names) -> bool:
    """The cost of `fit` beside that of SciPy's method "trf", with bounds that cut the solution off."""
    import jax
    import numpy as np
    from scipy.optimize import least_squares

    import riesz

    good = 0
    for name in names:
        x, y, (_, start), certified = nist["load"](name)
        low, high = np.full(start.size, -np.inf), np.full(start.size, np.inf)
        for i in BOUNDED[name]:
            # The start is kept; the solution is beyond the bound, by a tenth of its distance to it, or of its size.
            edge = certified[i] + 0.1 * (start[i] - certified[i] or abs(certified[i]))
            (high if edge < certified[i] else low)[i] = edge
        start = np.clip(start, low, high)
        residual = lambda p, x, y, model=nist["MODELS"][name]: model(p, x) - y
        found = riesz.fit(residual, start, (x, y), bounds=(low, high), max_steps=5000, progress=False, throw=False)
        r = jax.jit(lambda p, x=x, y=y, residual=residual: residual(p, x, y))
        J = jax.jit(jax.jacfwd(r))
        expected = least_squares(lambda p, r=r: np.asarray(r(p)), start, lambda p, J=J: np.asarray(J(p)), (low, high),
                                 method="trf", x_scale="jac", **TIGHT)  # fmt: skip
        excess = float(found.loss) / expected.cost - 1
        good += excess <= 1e-9
        print(
            f"{name:9s} bounded: cost {float(found.loss):.10g}, {excess:+.0e} beside SciPy's; {found.steps} steps "
            f"({expected.nfev}), {found.result.name}",
            flush=True,
        )
    print(f"bounds: {good} of {len(names)} as low as SciPy's least_squares, or lower")
    return good == len(names)


if __name__ == "__main__":
    if not CHECKER.exists():
        sys.exit(f"{CHECKER} is missing: it reads the data sets of NIST's Statistical Reference Datasets.")
    if "--curve-fit" not in sys.argv:
        runpy.run_path(str(CHECKER), run_name="__main__")
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve-fit", action="store_true")
    parser.add_argument("--only", default="")
    wanted = parser.parse_args().only.split(",")
    nist = runpy.run_path(str(CHECKER))
    chosen = [name for name in sorted(nist["MODELS"]) if wanted == [""] or name in wanted]
    passed = [through_curve_fit(nist, chosen), within_bounds(nist, [name for name in BOUNDED if name in chosen])]
    sys.exit(0 if all(passed) else 1)
