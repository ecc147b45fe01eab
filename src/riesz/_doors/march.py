"""march: an equation in time, solved slab by slab."""

import inspect
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._records.checkpoint import Checkpoint, as_checkpoint
from .._records.logs import as_logs
from .._running.interrupt import wish_to_stop
from .._running.prepare import Options
from .._running.slabs import MarchSolution
from .._running.solution import SolveError
from .._types import Key
from .lines import bar_of
from .marching import Marching, Slab
from .minimise import minimise

REFUSED = {
    "start": "start must be left out of march: its first slab starts from theta0, each other from the one before.",
    "restarts": "restarts must be left out of march: minimise the first slab with them, and march from what they find.",
    "validation": "validation must be left out of march, where it would judge every slab by the same data.",
}
"""Options of minimise that a march does not take, with what to do."""


def march(
    slab: Slab,
    times: Any,
    theta0: Any = None,
    *,
    max_seconds: float | None = None,
    key: Key | None = None,
    callback: Callable[[int, MarchSolution], Any] | None = None,
    progress: bool | str = "auto",
    checkpoint: Checkpoint | str | pathlib.Path | None = None,
    log: Any = None,
    throw: bool = True,
    **options: Any,
) -> MarchSolution:
    r"""Solve an equation in time slab by slab: a run of `minimise` for each, which goes on from the one before.

    One network for a long time has to be large, and often fails. Small ones, each for the time between two instants,
    take less to fit, and each begins close to its solution. Time is the last coordinate of points (x, t).

    **Arguments:**

    - `slab`: a function `slab(t0, t1, before)` that returns the pair (loss, D) of the slab from t0 to t1. `before` is
      the function of the slab before, to be taken at t0; in the first slab it is None. The condition at t0 is built
      into D by `riesz.hard_initial`, or is a term of the loss, `riesz.initial`.
    - `times`: increasing numbers, one more than there are slabs.
    - `theta0`: the start of the first slab, as for `minimise`. Every other slab starts from the parameters of the one
      before.
    - `max_seconds`: the time limit of all slabs together.
    - `key`: slab k has the key `jax.random.fold_in(key, k)`.
    - `callback`: called as `callback(steps, solution_so_far)` with the steps of all slabs and a `MarchSolution` whose
      last slab is under way; returning True stops the march.
    - `progress`: one progress bar for all slabs, as for `minimise`.
    - `checkpoint`: a folder, or a `riesz.Checkpoint`, in which slab k has the folder `slab-k`. The same call goes on in
      the slab where it was, and reads those that have ended.
    - `log`: as for `minimise`; a file `run.jsonl` stands for `run.slab-0.jsonl` and so on, and rows for functions have
      the entry `slab`.
    - `throw`: raise `riesz.SolveError` where a slab fails, with the `MarchSolution` so far as its `solution`.
    - `options`: those of `minimise` for every slab: `method`, `max_steps` (of each slab), `target`, `tolerance`,
      `metrics`, `memory`, `mesh`, `ridge`.

    **Returns:** a `MarchSolution`: its `function` of (x, t), the `slabs` with the solution of each, `times`, `result`,
    `results` and `notes`. A march that is stopped, by Ctrl-C, the time limit or the callback, returns the slabs that
    were made.

    Slabs whose losses and models differ in arrays alone, such as points, data and `before`, share one compiled program.
    Functions are told apart by identity: make operators and sources outside of `slab`.

    ```python
    network, theta0 = riesz.mlp(jax.random.key(0), (3, 10, 1))
    network = riesz.periodic(network, (2.0, None))

    def transport(v):  # u_t + u_x
        return lambda x: riesz.time_derivative(v)(x) + riesz.partial(0)(v)(x)

    def wave(x):
        return jnp.sin(jnp.pi * x[0])

    def slab(t0, t1, before):
        D = riesz.hard_initial(network, before or wave, t0)
        return riesz.residual(transport, 0.0, riesz.gauss_legendre((-1, t0), (1, t1), 12)), D

    solution = riesz.march(slab, [0.0, 0.5, 1.0], theta0)
    ```
    """
    _check.function("slab", slab)
    _check_names(options)
    times = _checked_times(times, theta0)
    if callback is not None:
        _check.function("callback", callback)
    if key is not None:
        _check.key("key", key)
    max_steps = options.get("max_steps", inspect.signature(minimise).parameters["max_steps"].default)
    limits = Options.checked(
        jnp.zeros(1), max_steps, target=None, tolerance=None, max_seconds=max_seconds, metrics=None, progress=progress
    )
    saved, logs = as_checkpoint(checkpoint), as_logs(log)
    count = times.size - 1
    with bar_of(progress, count * limits.max_steps, "step") as bar, wish_to_stop() as wish:
        marching = Marching(slab, times, theta0, options, limits, key, callback, saved, logs, bar, wish)
        marching.run()
    solution = marching.solution
    if throw and solution.result.failed:
        raise SolveError(solution, f"{marching.where(len(solution.slabs) - 1)}: {solution.result}")
    return solution


def _check_names(options: dict[str, Any]) -> None:
    """Refuse what is no option of every slab."""
    for name in options:
        if name in REFUSED:
            raise TypeError(REFUSED[name])
        if name in ("loss", "D") or name not in inspect.signature(minimise).parameters:
            raise TypeError(f"{name} must be left out of march, whose options are those of riesz.minimise.")


def _checked_times(times: Any, theta0: Any) -> jax.Array:
    """Increasing times; plain numbers are in the precision of theta0."""
    dtype = None if hasattr(times, "dtype") else getattr(theta0, "dtype", None)
    times = _check.floating("times", times)
    if times.ndim != 1 or times.size < 2:
        raise ValueError(f"times must be a sequence of at least two numbers, but its shape is {times.shape}.")
    _check.finite_rows("times", times)
    falls = np.diff(times) <= 0
    if falls.any():
        at = int(np.argmax(falls))
        raise ValueError(f"times must increase, but times[{at}] is {times[at]} and times[{at + 1}] is {times[at + 1]}.")
    return times if dtype is None or not jnp.issubdtype(dtype, jnp.floating) else times.astype(dtype)
