"""Points placed by the residual against fixed ones, on equations whose solutions have thin layers, as Markdown.

    python benchmarks/adaptive.py [--seconds 100] [--starts 1] [--only burgers allen-cahn] [--points 2000]

Burgers' equation (nu = 0.01/pi, an odd tanh network 3-14-14-1) and Allen-Cahn's (an even one, 2-20-20-1) on Sobol's
points, as they are, and as `riesz.adaptive` places them. Relative L2 errors against frontier_reference.py, after
equal CPU seconds, compilation aside; "between" is `solution.between`, the loss at points that no step has seen.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from equations import PI, T, X, along, glorot, network
from frontier_problem import Clock, relative_error
from frontier_reference import reference
from frontier_time import kink_rounded

import riesz

jax.config.update("jax_enable_x64", True)


def burgers():
    """The equation's operator, the model and its starts, and the reference."""
    layers = [(3, 14), (14, 14), (14, 1)]
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            s, c, t = jnp.sin(PI * p[0]), jnp.cos(PI * p[0]), 2 * p[1] - 1
            return -s + p[1] * (N(jnp.stack([s, c, t])) - N(jnp.stack([-s, c, t])))

        return u

    A = lambda v: lambda p: along(v, T)(p) + v(p) * along(v, X)(p) - 0.01 / PI * along(v, X, X)(p)
    return A, D, glorot(layers), reference("burgers")


def allen_cahn():
    """The same for the other equation."""
    layers = [(2, 20), (20, 20), (20, 1)]
    plain = network(layers)

    def D(theta):
        N = plain(theta)

        def u(p):
            x, t = p
            start = x**2 * jnp.cos(PI * x) + kink_rounded(1e-4, x, t)
            return start + t * N(jnp.stack([jnp.cos(PI * x), 2 * t - 1]))

        return u

    A = lambda v: lambda p: along(v, T)(p) - 1e-4 * along(v, X, X)(p) - 5 * (v(p) - v(p) ** 3)
    return A, D, glorot(layers), reference("allen-cahn")


PROBLEMS = {"burgers": burgers, "allen-cahn": allen_cahn}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100.0, help="CPU seconds of a run")
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--only", nargs="*", default=list(PROBLEMS), choices=PROBLEMS)
    options = parser.parse_args()
    print("| problem | start | points | error | loss | between | steps | placed anew | result |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.only:
        A, D, start, ref = PROBLEMS[name]()
        t, x = np.meshgrid(ref.t, ref.x, indexing="ij")
        grid, truth = jnp.asarray(np.stack([x.ravel(), t.ravel()], -1)), jnp.asarray(ref.u.ravel())
        fixed = riesz.sobol((0.0, 0.0), (1.0, 1.0), options.points)
        measures = {"Sobol": fixed} | {
            f"adaptive, {by}": riesz.adaptive(fixed, by) for by in ("residual", "christoffel", "uniform")
        }
        for seed in range(options.starts):
            for told, over in measures.items():
                found = Clock(options.seconds).minimise(riesz.residual(A, 0.0, over), D, start(seed))
                error = relative_error(D, truth, grid)(found.theta)
                anew = int(np.sum(found.history.get("redrawn", 0)))
                losses = f"{float(found.loss):.1e} | {float(found.between):.1e}"
                print(
                    f"| {name} | {seed} | {told} | {float(error):.1e} | {losses} | {found.steps} | {anew} | "
                    f"{found.result.name} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
