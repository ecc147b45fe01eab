"""What a step takes: predicted, by the compiler, and per factorisation.

    python benchmarks/memory.py

Natural gradient descent and auto on a 2-30-30-1 network, 1051 parameters, in float64. "predicted" counts the workspace
of LAPACK, which the compiler does not know of.
"""

import equinox as eqx
import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp

import riesz
from riesz._running.memory import predicted

FACTORISATIONS = [kind(chunk) for kind in (riesz.QRSVD, riesz.Gram, riesz.Cholesky) for chunk in (None, 256)]


def compiled(method, loss, D, theta):
    """The bytes of the compiled step's arguments, results and temporaries."""
    sample = method.draw(loss, D, theta)
    program = eqx.filter_jit(method.step).lower(loss, D, theta, method.init(theta), sample).compile()
    found = program.compiled.memory_analysis()
    return found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes


def main():
    D, theta = riesz.mlp(jax.random.key(0), (2, 30, 30, 1))
    print("| method | points | one copy of the rows | factorisation | predicted | by the compiler |")
    print("|---|---|---|---|---|---|")
    for name, method in (("ngd", riesz.ngd(filter=riesz.Shift(1e-8))), ("auto", riesz.auto())):
        for m in (20000, 500):
            x = jnp.stack([jnp.linspace(-1.0, 1.0, m), jnp.cos(jnp.arange(1.0 * m))], axis=1)
            loss = riesz.least_squares(riesz.points(x, data=jnp.sin(x[:, 0])))
            for factorisation in FACTORISATIONS:
                changed = method.solving(factorisation)
                figures = (predicted(loss, D, theta, changed), compiled(changed, loss, D, theta))
                shown = " | ".join(f"{figure / 1e6:.0f} MB" for figure in figures)
                print(f"| {name} | {m} | {m * theta.size * 8 / 1e6:.0f} MB | `{factorisation}` | {shown} |", flush=True)


if __name__ == "__main__":
    main()
