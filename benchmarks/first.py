"""The time to the first answer: what a call of `minimise` costs in a fresh process, imports aside.

    python benchmarks/first.py [--repeats 5] [--limit 60] [--src PATH ...] [--only NAME ...]

Every figure is the CPU time of one call in a child process of its own, because machines are shared and noisy, with
BLAS on one thread; the table holds medians. A call that takes more CPU time than the limit is ended, and `> limit` is
printed. Every `--src` puts another source tree first on the path, and adds a column, in turns with the others. Rows are
printed as they come, the table of medians at the end.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import math
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def fit(points):
    """31 parameters, least squares."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import riesz

    x = np.linspace(0, 1, points)
    D, theta = riesz.mlp(jax.random.key(0), (1, 10, 1))
    return riesz.least_squares(riesz.points(jnp.asarray(x), data=jnp.asarray(np.sin(2 * np.pi * x)))), D, theta


def residuals(form):
    """99 residuals of 3 parameters (Gulf research and development).

    As a residual vector, or as a model with 99 outputs at one point, written as one array or entry by entry.
    """
    import jax.numpy as jnp
    import numpy as np

    import riesz

    t = np.arange(1, 100) / 100
    y = 25 + (-50 * np.log(t)) ** (2 / 3)

    def residual(theta, t, y):
        return jnp.exp(-(jnp.abs(y - theta[1]) ** theta[2]) / theta[0]) - t

    def f(theta):
        if form == "entry by entry":
            return jnp.stack([residual(theta, float(a), float(b)) for a, b in zip(t, y, strict=True)])
        return residual(theta, jnp.asarray(t), jnp.asarray(y))

    start = jnp.asarray([5.0, 2.5, 0.15])
    if form == "vector":
        return riesz.ResidualVector(lambda v: f(v())), lambda theta: lambda: theta, start
    over = riesz.points(jnp.zeros(1), data=jnp.zeros((1, 99)))
    return riesz.least_squares(over), lambda theta: lambda x: f(theta), start


CASES = {
    "fit, auto": (fit, (50,), "auto"),
    "fit, nhb": (fit, (50,), "nhb"),
    "fit, ngd": (fit, (50,), "ngd"),
    "99 residuals, a residual vector, auto": (residuals, ("vector",), "auto"),
    "99 residuals at one point, one array, auto": (residuals, ("array",), "auto"),
    "99 residuals at one point, entry by entry, auto": (residuals, ("entry by entry",), "auto"),
}
CALLS = {"fit": ["first call", "one point more", "the same again"]}
CACHED = ("fit, auto", "fit, nhb")
"""The cases that are also run with a persistent compilation cache."""


def child(name, limit, folder):
    """Make the calls of one case and print the CPU seconds of each, one line of JSON per call."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    import scipy.linalg  # noqa: F401 - JAX imports it with the first call of LAPACK, and imports are not counted

    import riesz

    build, arguments, method = CASES[name]
    problems = [build(*arguments)]
    if build is fit and folder is None:
        problems += [fit(51)] * 2
    jax.block_until_ready(jax.tree.leaves([(p[0], p[2]) for p in problems]))
    for loss, D, theta in problems:
        most = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        began = time.process_time()
        solution = riesz.minimise(loss, D, theta, method, progress=False, throw=False)
        jax.block_until_ready(solution.theta)
        print(json.dumps(time.process_time() - began), flush=True)


def measured(name, limit, source, folder=None):
    """The CPU seconds of the calls of one case; infinite where the limit ended one."""
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, __file__, "--child", name, "--limit", str(limit)]
    command += [] if folder is None else ["--cache", folder]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    seconds = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode == -signal.SIGXCPU:
        return [*seconds, math.inf]
    if done.returncode:
        raise RuntimeError(done.stderr)
    return seconds


def figures(limit, source, only):
    """One turn of every case: CPU seconds by the name of the row."""
    rows = {}
    for name, (build, _, _) in CASES.items():
        if only and name not in only:
            continue
        calls = CALLS.get(build.__name__, ["first call"])
        rows |= {f"{name}: {call}": s for call, s in zip(calls, measured(name, limit, source), strict=False)}
        if name in CACHED:
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    rows[f"{name}: compilation cache, {state}"] = measured(name, limit, source, folder)[0]
    return rows


def table(turns, sources, limit):
    print("| CPU seconds |" + "".join(f" {source or 'this'} |" for source in sources))
    print("|---|" + "---|" * len(sources))
    names = dict.fromkeys(name for rows in turns.values() for turn in rows for name in turn)
    for name in names:
        cells = []
        for source in sources:
            found = [turn[name] for turn in turns[source] if name in turn]
            middle = statistics.median_high(found) if found else math.nan
            cells.append(f"> {limit:g}" if middle == math.inf else f"{middle:.2f}" if found else "")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds that one call may take")
    parser.add_argument("--src", nargs="*", default=[], help="source trees to compare; '' is the installed one")
    parser.add_argument("--only", nargs="*", default=[], choices=[[], *CASES], help="the cases to run; all by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.limit, options.cache)
        sys.exit()
    sources = [str(pathlib.Path(source).resolve()) if source else "" for source in options.src] or [""]
    turns = {source: [] for source in sources}
    for _ in range(options.repeats):
        for source in sources:
            turns[source].append(figures(options.limit, source, options.only))
            print(source or "this", json.dumps(turns[source][-1]), file=sys.stderr, flush=True)
    table(turns, sources, options.limit)
