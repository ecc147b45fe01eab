"""A run that others kill: `python killed.py FOLDER` makes it, or goes on with it, and leaves FOLDER/end.npz.

`python killed.py FOLDER restarted` does so with a run of several starts, and `marched` with the slabs of a march.
Importing it gives the same problems, to compare with.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

import riesz

STEPS = 3000


def run(folder=None, log=None, max_steps=STEPS, **changes):
    """Natural heavy ball on fresh points each step: every part of a run's state matters to what follows."""
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 6, 1))
    over = riesz.monte_carlo(0.0, 1.0, 40)
    loss = riesz.residual(riesz.derivative, jnp.cos, over) + riesz.residual(riesz.identity, 0.0, riesz.points([0.0]))
    choices = {"method": riesz.nhb(), "key": jax.random.key(1), "metrics": {"size": jnp.linalg.norm}}
    checkpoint = None if folder is None else riesz.Checkpoint(folder, steps=32, keep=3)
    return riesz.minimise(
        loss, D, theta0, **(choices | changes), max_steps=max_steps, checkpoint=checkpoint, log=log, progress=False
    )


def restarted(folder=None, log=None):
    """Three starts of some thousand small steps, none of which reaches the target."""
    D, theta0 = riesz.mlp(jax.random.key(0), (1, 3, 1))
    x = jnp.linspace(0.0, 1.0, 20)
    return riesz.minimise(
        riesz.least_squares(riesz.points(x, data=jnp.sin(20 * x))),
        D,
        theta0,
        riesz.gd(step_size=riesz.Clipped(0.02)),
        max_steps=100_000,
        target=0.0,
        tolerance={"gradient": 0.01},
        key=jax.random.key(1),
        restarts=riesz.Restarts(2),
        checkpoint=None if folder is None else riesz.Checkpoint(folder, steps=32, keep=3),
        log=log,
        progress=False,
    )


def decay(v):
    """u' + u."""
    return lambda t: riesz.derivative(v)(t) + v(t)


def marched(folder=None, log=None):
    """Three slabs of a thousand small steps each."""
    network, theta0 = riesz.mlp(jax.random.key(0), (1, 4, 1))

    def slab(t0, t1, before):
        D = riesz.hard_initial(network, 1.0 if before is None else before, t0)
        return riesz.residual(decay, 0.0, riesz.monte_carlo(t0, t1, 20)), D

    checkpoint = None if folder is None else riesz.Checkpoint(folder, steps=32)
    choices = {"key": jax.random.key(1), "max_steps": 1000, "checkpoint": checkpoint, "log": log, "progress": False}
    return riesz.march(slab, [0.0, 1.0, 2.0, 3.0], theta0, method=riesz.nhb(), **choices)


def arrays(solution):
    """What must agree bit by bit: everything but the time it took."""
    if isinstance(solution, riesz.MarchSolution):
        found = [arrays(slab) for slab in solution.slabs]
        return {f"{k}_{name}": array for k, slab in enumerate(found) for name, array in slab.items()}
    history = {f"history_{name}": column for name, column in solution.history.items() if name != "seconds"}
    return {"theta": np.asarray(solution.theta), "last": np.asarray(solution.last), **history}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    folder = pathlib.Path(sys.argv[1])
    make = {"run": run, "restarted": restarted, "marched": marched}[sys.argv[2] if len(sys.argv) > 2 else "run"]
    np.savez(folder / "end.npz", **arrays(make(folder, folder / "log.jsonl")))
