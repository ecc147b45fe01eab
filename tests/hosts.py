"""What one of several processes runs: a fit on all their devices, its numbers and how it ended as one line of JSON.

python hosts.py PORT PROCESSES NUMBER STEPS FOLDER [--slow] [--interrupt]
"""

import json
import pathlib
import sys
import time

import jax
import jax.numpy as jnp

import riesz

port, processes, number, steps, folder = *map(int, sys.argv[1:5]), pathlib.Path(sys.argv[5])
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 2)
if processes > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, number, heartbeat_timeout_seconds=30)

x = jnp.linspace(-1.0, 1.0, 101)
loss = riesz.least_squares(riesz.minibatch(riesz.points(x, data=jnp.sin(3 * x)), 50))
D, theta = riesz.mlp(jax.random.key(0), (1, 8, 1))


def callback(made, so_far):
    """Leave a mark of every chunk, and time to kill a process."""
    if number == 0:
        (folder / "made").write_text(str(made))
    if "--slow" in sys.argv:
        time.sleep(0.5)
    return "--interrupt" in sys.argv and number == 1 and made >= 5  # one process is enough to stop them all


solution = riesz.minimise(
    loss, D, theta, riesz.nhb(filter=riesz.Shift(1e-3)), max_steps=steps, key=jax.random.key(1), progress=False,
    mesh=jax.make_mesh((len(jax.devices()),), ("points",)), callback=callback,
    checkpoint=riesz.Checkpoint(folder / "run", steps=1), log=folder / "run.jsonl",
)  # fmt: skip
told = {"theta": solution.theta.tolist(), "result": solution.result.name, "steps": solution.steps}
(folder / f"process-{number}.json").write_text(json.dumps({**told, "notes": solution.notes}))
