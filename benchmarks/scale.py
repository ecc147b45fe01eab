"""How large a problem may be: CPU seconds and peak memory of a step, by the shape of its rows.

    python benchmarks/scale.py [--only 2000x33537 ...] [--methods kernels ngd spring auto] [--steps 3] [--src PATH ...]
                               [--problem fit] [--limit 20] [--seconds 300] [--communication]

Every figure comes from a child process of its own, with BLAS on one thread: a run of one step compiles, the mean of the
next ones is told, and the peak is that of the process. A child that needs more memory than `--limit` GiB, or more CPU
seconds than `--seconds`, is ended. Every `--src` puts another source tree first on the path, and adds a line.
The loss is least squares over a network of two inputs; `--problem poisson` takes Poisson's residual in place of it. The
shapes 150x118145 and 150x1325057 are Poisson's equation in 10 and 100 dimensions, with 100 points inside and 50 on the
boundary, drawn anew each step. In place of a method, `kernels` are what a step cannot do without: the rows (or what
stands for them), their Gram matrix or, where that is smaller, their kernel matrix, and its Cholesky factor; `matrix` is
the Gram matrix alone, of rows that are there. With --communication, a model of what devices send each other, on paper.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import resource
import subprocess
import sys
import time

SHAPES = {
    "1000x4965": (1000, (2, 68, 68, 1)),
    "2000x33537": (2000, (2, 128, 128, 128, 1)),
    "2000x291081": (2000, (2, 380, 380, 380, 1)),
    "1000x984201": (1000, (2, 700, 700, 700, 1)),
    "20000x1051": (20_000, (2, 30, 30, 1)),
    "100000x501": (100_000, (2, 20, 20, 1)),
    "20000x33537": (20_000, (2, 128, 128, 128, 1)),
    "150x118145": (150, (10, 256, 256, 128, 128, 1)),
    "150x1325057": (150, (100, 768, 768, 512, 512, 1)),
}
"""Points and networks, by the shape of the rows."""
SHIFT = 1e-4


def child(shape, problem, name, steps):
    """Make the steps of one case and print what they took, as JSON."""
    import jax
    import jax.numpy as jnp

    import riesz

    jax.config.update("jax_enable_x64", True)
    points, sizes = SHAPES[shape]
    x = jax.random.uniform(jax.random.key(1), (points, sizes[0]))
    D, theta = riesz.mlp(jax.random.key(0), sizes, init="glorot")
    over, key = riesz.points(x, data=jnp.sin(3 * x[:, 0]) * x[:, 1]), None
    loss = riesz.least_squares(over) if problem == "fit" else riesz.residual(riesz.laplacian, 1.0, riesz.points(x))
    if sizes[0] > 2:
        low, high, key = (0.0,) * sizes[0], (1.0,) * sizes[0], jax.random.key(2)
        # u is a sum of products of neighbours in 10 dimensions, and |x|^2 in 100; with means in place of integrals.
        u = (lambda x: jnp.sum(x[::2] * x[1::2])) if sizes[0] == 10 else (lambda x: jnp.sum(x**2))
        inside = riesz.monte_carlo(low, high, 100)
        edge = riesz.residual(lambda v: v, u, riesz.monte_carlo_boundary(low, high, 50))
        loss = riesz.residual(riesz.laplacian, 0.0 if sizes[0] == 10 else 2.0 * sizes[0], inside)
        loss = loss + 1 / (2 * sizes[0]) * edge
    if name in ("kernels", "matrix"):
        print(json.dumps(kernels(loss, D, theta, key, name == "matrix", steps)))
        return
    method = riesz.auto() if name == "auto" else riesz.METHODS[name](filter=riesz.Shift(SHIFT))
    run = lambda count: riesz.minimise(loss, D, theta, method, max_steps=count, key=key, progress=False)
    run(1)
    began = time.process_time()
    one = run(1)
    once = time.process_time() - began
    began = time.process_time()
    many = run(steps + 1)
    each = (time.process_time() - began - once) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    fall = float(many.loss / one.history["loss"][0])
    print(json.dumps({"seconds": each, "GiB": peak, "loss": fall, "notes": many.notes}))


def kernels(loss, D, theta, key, alone, steps):
    """What a step cannot do without, or the Gram matrix alone."""
    import jax
    import jax.numpy as jnp

    import riesz
    from riesz._geometry.assembly import rows_of
    from riesz._geometry.inner_products import L2
    from riesz._running.compiled import Compiled

    method = riesz.ngd(filter=riesz.Shift(SHIFT))
    sample = method.draw(loss, D, theta, key)
    rows = sum(over.x.shape[0] for over in sample.terms)
    chunk = 1024 if rows < theta.size else None

    def psi(loss, D, theta, sample):
        at = riesz.linearise(loss, D, theta, sample, chunk=chunk)
        return rows_of(D, theta, L2().blocks(at, None), chunk)

    def whole(loss, D, theta, sample):
        found = psi(loss, D, theta, sample)
        matrix = found.gram() if chunk is None else found.kernel()
        return jnp.linalg.cholesky(matrix + SHIFT * jnp.eye(matrix.shape[0]))

    program, arguments = Compiled(whole), (loss, D, theta, sample)
    if alone:
        stored = Compiled(psi)(loss, D, theta, sample).array()
        program, arguments = Compiled(lambda columns: columns @ columns.T), (jnp.array(stored.T),)
    jax.block_until_ready(program(*arguments))
    began = time.process_time()
    for _ in range(steps):
        jax.block_until_ready(program(*arguments))
    each = (time.process_time() - began) / steps
    return {
        "seconds": each,
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "loss": None,
        "notes": (),
    }


def measured(options, shape, name, source):
    """What a child printed; why there is nothing where it was ended."""
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, __file__, "--child", shape, options.problem, name, "--steps", str(options.steps)]
    bounds = (
        (resource.RLIMIT_AS, int(options.limit * 2**30)),
        (resource.RLIMIT_CPU, int(options.seconds)),
    )

    def limited():
        for kind, most in bounds:
            resource.setrlimit(kind, (most, most))

    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, preexec_fn=limited
    )
    if done.returncode:
        slow = done.returncode < 0 and "memory" not in done.stderr.lower()
        return {"ended": f"> {options.seconds} s" if slow else f"> {options.limit} GiB, or refused"}
    return json.loads(done.stdout.splitlines()[-1])


def communication():
    """The seconds of the all-reduces of a step, by the ring's formula, for some lengths of the smaller side."""
    bandwidth, latency = 12.5e9, 5e-6
    print("| devices | " + " | ".join(f"side {side}" for side in (500, 2000, 10_000)) + " |\n" + "|---" * 4 + "|")
    for n in (2, 8, 64, 1000):
        seconds = (2 * (n - 1) * (8 * side**2 / (n * bandwidth) + latency) for side in (500, 2000, 10_000))
        print(f"| {n} | " + " | ".join(f"{1e3 * each:.3g} ms" for each in seconds) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SHAPES, default=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--methods", nargs="*", default=["kernels", "ngd", "spring"])
    parser.add_argument("--problem", choices=["fit", "poisson"], default="fit")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--src", nargs="*", default=[""])
    parser.add_argument("--limit", type=float, default=20.0, help="GiB of a child")
    parser.add_argument("--seconds", type=float, default=300.0, help="CPU seconds of a child")
    parser.add_argument("--communication", action="store_true", help="a model of what devices send, on paper")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.steps)
        return
    if options.communication:
        communication()
        return
    print("| rows x parameters | method | code | CPU s a step | peak GiB | loss / first | notes |\n" + "|---" * 7 + "|")
    for shape in options.only:
        for name in options.methods:
            for source in options.src:
                found = measured(options, shape, name, source)
                if "ended" in found:
                    known = f"{found['ended']} | | |"
                else:
                    fall = "" if found["loss"] is None else f"{found['loss']:.1e}"
                    figures = f"{found['seconds']:.2f} | {found['GiB']:.2f} | {fall}"
                    known = f"{figures} | {' '.join(found['notes'])}"
                print(f"| {shape} | {name} | {source or 'this'} | {known} |", flush=True)


if __name__ == "__main__":
    main()
