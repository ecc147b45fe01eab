"""What a step costs, in units of the work it cannot avoid: Jacobian, QR and SVD(R).

    make bench            or            python benchmarks/step.py [--repeats 200]

Programs are timed in turns within one run and compared by their medians, with BLAS on one thread, because machines
are shared and noisy. Compilation is timed apart. Prints two tables, ready for the README.
"""

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
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


@eqx.filter_jit
def step(method, loss, D, theta, state):
    """The method's own step, and nothing round it."""

    def body(_, carry):
        theta, state, _ = method.step(loss, D, *carry, method.draw(loss, D, carry[0]))
        return theta, state

    return jax.lax.fori_loop(0, LOOP, body, (theta, state))


def medians(programs, repeats):
    """Median seconds of each program, run in turns."""
    times = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            began = time.perf_counter()
            jax.block_until_ready(program())
            times[name].append(time.perf_counter() - began)
    return {name: float(np.median(column)) for name, column in times.items()}


def step_table(problem, repeats):
    loss, D, theta = problem()
    base = "Jacobian + QR + SVD(R)"
    programs, first = {base: lambda: unavoidable(loss, D, theta)}, {}
    jax.block_until_ready(programs[base]())
    for name in ["ngd", "qnhb", "nhb", "nhb_fd", "nn2", "nn2_fd", "nn1"]:
        method = riesz.METHODS[name]()
        began = time.perf_counter()
        moved, state = jax.block_until_ready(step(method, loss, D, theta, method.init(theta)))
        first[name] = time.perf_counter() - began
        programs[name] = lambda method=method, moved=moved, state=state: step(method, loss, D, moved, state)
    safe = riesz._methods.safeguard.Safeguard(riesz.ngd())
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
    repeats = parser.parse_args().repeats
    step_table(advection_diffusion, repeats)
    step_table(poisson, max(repeats // 5, 1))
    print(f"\n16 starts of NHB, 100 steps each (20 on poisson), {os.cpu_count()} cores\n")
    print("| | one after another, s | minimise_many, s | ratio |")
    print("|---|---|---|---|")
    many_table(advection_diffusion, 16, 100, 5)
    many_table(poisson, 16, 20, 3)
