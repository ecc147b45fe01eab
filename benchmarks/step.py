"""What a step costs, in units of the work it cannot avoid: Jacobian, QR and SVD(R); and beside another commit.

    make bench            or            python benchmarks/step.py [--repeats 200] [--parts] [--against COMMIT]

Programs are timed in turns within one run and compared by their medians, with BLAS on one thread, because machines
are shared and noisy. Compilation is timed apart. Prints tables ready for the README, the last ones with the parts of a
step of `auto` in CPU time beside a step of `ngd` (with --parts, these alone); with a commit, its code beside this one,
each in a process of its own, in turns.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import riesz

jax.config.update("jax_enable_x64", True)


def advection_diffusion():
    """m = 1000 points, d = 46 parameters, a second-order operator."""
    network, theta = riesz.mlp(jax.random.key(0), (1, 5, 5, 1))

    def D(theta):
        v = network(theta)
        return lambda x: x * (1 - x) * v(x)

    def operator(v):
        slope = riesz.derivative(v)
        return lambda x: -0.2 * riesz.derivative(slope)(x) + slope(x)

    return riesz.residual(operator, 1.0, riesz.grid(0.0, 1.0, 1000)), D, theta


def poisson():
    """m = 900 + 120 points, d = 257 parameters: -Laplace u = f on the unit square, soft boundary."""
    D, theta = riesz.mlp(jax.random.key(0), (2, 64, 1))
    inside = np.linspace(0, 1, 32)[1:-1]
    interior = riesz.points(jnp.asarray(np.stack(np.meshgrid(inside, inside), -1).reshape(-1, 2)))
    side = np.linspace(0, 1, 30, endpoint=False)
    zero, one = np.zeros(30), np.ones(30)
    edges = [(side, zero), (one, side), (1 - side, one), (zero, 1 - side)]
    boundary = riesz.points(jnp.asarray(np.concatenate([np.stack(edge, -1) for edge in edges])))

    def source(x):
        return -2 * jnp.pi**2 * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    return riesz.residual(riesz.laplacian, source, interior) + riesz.residual(riesz.identity, 0.0, boundary), D, theta


LOOP = 10
"""Steps in one compiled loop, as `minimise` makes them: no host between them."""


@eqx.filter_jit
def unavoidable(loss, D, theta):
    """Weighted per-point Jacobian of every term, QR of it, SVD of R: written out, without the library."""

    def body(_, theta):
        blocks = []
        for term in loss.terms:
            rows = jax.vmap(lambda x, term=term: jax.grad(lambda theta: term.operator(D(theta))(x))(theta))(term.over.x)
            blocks.append(jnp.sqrt(term.over.weights)[:, None] * rows)
        Q, R = jnp.linalg.qr(jnp.concatenate(blocks))
        U, s, Vt = jnp.linalg.svd(R)
        # Every factor is used, so that none is optimised away, and the next round waits for this one.
        return theta + 1e-200 * (Q[0, 0] + U[0] + s + Vt[0])

    return jax.lax.fori_loop(0, LOOP, body, theta)


def steps(method, loss, D, theta, state):
    """The method's own steps, and nothing round them."""

    def body(_, carry):
        theta, state, _ = method.step(loss, D, *carry, method.draw(loss, D, carry[0]))
        return theta, state

    return jax.lax.fori_loop(0, LOOP, body, (theta, state))


step = eqx.filter_jit(steps)


def medians(programs, repeats, clock=time.perf_counter):
    """Median seconds of each program, run in turns."""
    times = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            began = clock()
            jax.block_until_ready(program())
            times[name].append(clock() - began)
    return {name: float(np.median(column)) for name, column in times.items()}


METHODS = ["ngd", "qnhb", "nhb", "nhb_fd", "nn2", "nn2_fd", "nn1", "auto"]
CHOLESKY = "ngd(filter=Shift(1e-8)), Cholesky"


def methods():
    """The methods that are timed; Cholesky where there is one."""
    found = {name: riesz.METHODS[name]() for name in METHODS}
    if hasattr(riesz, "Cholesky"):
        found[CHOLESKY] = riesz.ngd(filter=riesz.Shift(1e-8), factorisation=riesz.Cholesky())
    return found


def prepared(problem):
    """The programs of a problem, compiled, and the seconds that this took."""
    loss, D, theta = problem()
    programs, first = {}, {}
    for name, method in methods().items():
        began = time.perf_counter()
        moved, state = jax.block_until_ready(step(method, loss, D, theta, method.init(theta)))
        first[name] = time.perf_counter() - began
        programs[name] = lambda method=method, moved=moved, state=state: step(method, loss, D, moved, state)
    return programs, first


def step_table(problem, repeats):
    loss, D, theta = problem()
    base = "Jacobian + QR + SVD(R)"
    programs = {base: lambda: unavoidable(loss, D, theta)}
    jax.block_until_ready(programs[base]())
    more, first = prepared(problem)
    programs |= more
    safe = riesz.Safeguard(riesz.ngd())
    programs["ngd as in minimise"] = lambda: step(safe, loss, D, theta, safe.init(theta))
    jax.block_until_ready(programs["ngd as in minimise"]())
    seconds = {name: value / LOOP for name, value in medians(programs, repeats).items()}
    rows = sum(term.over.x.shape[0] for term in loss.terms)
    print(f"\n**{problem.__name__}**: m = {rows}, d = {theta.size} (median of {repeats} times {LOOP} steps)\n")
    print("| | ms | / (Jacobian + QR + SVD(R)) | / NGD step | first steps with compilation, s |")
    print("|---|---|---|---|---|")
    for name, value in seconds.items():
        compiled = f"{first[name]:.1f}" if name in first else ""
        print(
            f"| {name} | {1e3 * value:.2f} | {value / seconds[base]:.2f} | {value / seconds['ngd']:.2f} | {compiled} |"
        )


QUICK, WALK = 0, 1
"""The phases of auto that are timed; a step of a dive costs what one of the walk does."""


def parts():
    """Auto whole, and with one part of a quick step changed or left out; and the phase in which each is timed."""
    quick = lambda **fields: (riesz.auto(quick=riesz.QuickSteps(**fields)), QUICK)
    return {
        "auto, quick step": quick(),
        "... with one try at most": quick(tries=1),
        "... that measures speeds": quick(seldom=0.0),
        "... that measures none": quick(seldom=1e300),
        "... that measures none, path without corrections": quick(
            seldom=1e300, retraction=riesz.SecondOrder(0.75, 0, lowest=True)
        ),
        "... that measures none, straight path": quick(seldom=1e300, retraction=riesz.Straight()),
        "auto, step of the walk": (riesz.auto(), WALK),
    }


def parts_table(problem, repeats):
    """CPU time of the parts of a step of auto beside a step of ngd, all from where auto stands after a few steps."""
    from riesz._running.compiled import Compiled  # here, because other commits may have none

    step = Compiled(steps)  # with the compiler's settings that `minimise` has
    loss, D, theta = problem()
    auto, ngd = riesz.auto(), riesz.ngd()
    moved, state = step(auto, loss, D, theta, auto.init(theta))
    programs = {"ngd": lambda: step(ngd, loss, D, moved, ngd.init(moved))}
    for name, (method, phase) in parts().items():
        there = dataclasses.replace(state, phase=jnp.full_like(state.phase, phase))
        programs[name] = lambda method=method, there=there: step(method, loss, D, moved, there)
    for program in programs.values():
        jax.block_until_ready(program())
    seconds = {name: value / LOOP for name, value in medians(programs, repeats, time.process_time).items()}
    print(f"\n**{problem.__name__}**: CPU time of a step of auto (median of {repeats} times {LOOP} steps)\n")
    print("| | CPU ms | / NGD step |\n|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {1e3 * value:.2f} | {value / seconds['ngd']:.2f} |", flush=True)


def serve(problem):
    """Time the programs that standard input names, one at a time, for `against`."""
    programs, _ = prepared(problem)
    print(*programs, sep="\t", flush=True)
    for line in sys.stdin:
        began = time.process_time()
        jax.block_until_ready(programs[line.rstrip("\n")]())
        print(time.process_time() - began, flush=True)


class Server:
    """A process that times the programs of one source tree."""

    def __init__(self, source, problem):
        command = [sys.executable, __file__, "--serve", problem.__name__]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.names = self.process.stdout.readline().rstrip("\n").split("\t")

    def seconds(self, name):
        """CPU seconds per step of one program."""
        self.process.stdin.write(name + "\n")
        return float(self.process.stdout.readline()) / LOOP


def against_table(commit, problem, repeats):
    """CPU milliseconds per step of another commit and of this code, in turns."""
    root = pathlib.Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        subprocess.run(["git", "-C", str(root), "worktree", "add", "-q", "--detach", str(tree), commit], check=True)
        try:
            servers = {"then": Server(tree / "src", problem), "now": Server(root / "src", problem)}
            pairs = {name: ("ngd" if name == CHOLESKY else name, name) for name in servers["now"].names}
            times = {name: ([], []) for name in pairs}
            for _ in range(repeats):
                for name, (then, now) in pairs.items():
                    times[name][0].append(servers["then"].seconds(then))
                    times[name][1].append(servers["now"].seconds(now))
            for server in servers.values():
                server.process.stdin.close()
                server.process.wait()
        finally:
            subprocess.run(["git", "-C", str(root), "worktree", "remove", "--force", str(tree)], check=True)
    print(f"\n**{problem.__name__}**: CPU ms per step, medians of {repeats} times {LOOP} steps in turns\n")
    print(f"| | {commit} | now | now / {commit} |")
    print("|---|---|---|---|")
    for name, columns in times.items():
        then, now = (1e3 * float(np.median(column)) for column in columns)
        print(f"| {name}{' (against ngd)' if name == CHOLESKY else ''} | {then:.2f} | {now:.2f} | {now / then:.2f} |")


def many_table(problem, starts, steps, repeats):
    loss, D, theta = problem()
    thetas = jax.random.normal(jax.random.key(1), (starts, theta.size))
    options = {"method": riesz.nhb(), "max_steps": steps, "progress": False}
    programs = {
        "one after another": lambda: [riesz.minimise(loss, D, t, throw=False, **options).theta for t in thetas],
        "minimise_many": lambda: riesz.minimise_many(loss, D, thetas, **options).theta,
    }
    for program in programs.values():
        jax.block_until_ready(program())
    seconds = medians(programs, repeats)
    ratio = seconds["minimise_many"] / seconds["one after another"]
    print(f"| {problem.__name__} | {seconds['one after another']:.2f} | {seconds['minimise_many']:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--parts", action="store_true", help="time the parts of a step of auto only")
    parser.add_argument("--against", metavar="COMMIT", help="time this code beside that of a commit")
    parser.add_argument("--serve", choices=["advection_diffusion", "poisson"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    problems = {problem.__name__: problem for problem in (advection_diffusion, poisson)}
    repeats = {"advection_diffusion": options.repeats, "poisson": max(options.repeats // 5, 1)}
    if options.serve:
        serve(problems[options.serve])
    elif options.against:
        for name, problem in problems.items():
            against_table(options.against, problem, repeats[name])
    elif options.parts:
        for name, problem in problems.items():
            parts_table(problem, repeats[name])
    else:
        for name, problem in problems.items():
            step_table(problem, repeats[name])
        print(f"\n16 starts of NHB, 100 steps each (20 on poisson), {os.cpu_count()} cores\n")
        print("| | one after another, s | minimise_many, s | ratio |")
        print("|---|---|---|---|")
        many_table(advection_diffusion, 16, 100, 5)
        many_table(poisson, 16, 20, 3)
        for name, problem in problems.items():
            parts_table(problem, repeats[name])
