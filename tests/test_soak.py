"""A long run in small: fresh points every step, and neither memory nor the number of programs grows."""

import os

import jax
import jax.numpy as jnp
import pytest

import riesz

MIB = 1 << 20
HISTORY = 16 * 8
"""Bytes of history a step, generously."""


def resident():
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(steps, method):
    """A run on points drawn each step: how much memory grew from a tenth of it to its end, and what was compiled."""
    D, theta0 = riesz.mlp(jax.random.key(0), (2, 8, 1))
    inside, walls = (
        riesz.monte_carlo((0.0, 0.0), (1.0, 1.0), 60),
        riesz.monte_carlo_boundary((0.0, 0.0), (1.0, 1.0), 20),
    )
    loss = riesz.residual(riesz.laplacian, 1.0, inside) + riesz.residual(riesz.identity, 0.0, walls)
    compiled, seen = [], {}

    def count(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    def look(made, solution):
        if made >= steps // 10 and "memory" not in seen:
            jax.jit(lambda x: x + made)(1.0)  # the counter counts
            assert compiled
            compiled.clear()
            seen.update(memory=resident(), arrays=len(jax.live_arrays()))
        if made == steps:  # while the run still holds whatever it holds
            seen.update(grown=resident() - seen["memory"], more=len(jax.live_arrays()) - seen["arrays"])

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        solution = riesz.minimise(
            loss, D, theta0, method, max_steps=steps, key=jax.random.key(1), callback=look, progress=False
        )
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert solution.steps == steps and jnp.all(jnp.isfinite(solution.theta))
    return seen["grown"], seen["more"], len(compiled)


@pytest.mark.at_once(1)
@pytest.mark.parametrize("method", ["nhb", "auto"])
def test_two_thousand_steps(method):
    grown, arrays, compiled = soak(2_000, method)
    assert grown <= 8 * MIB + 2_000 * HISTORY
    assert arrays <= 16 and compiled == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nhb", "auto"])
def test_twenty_thousand_steps(method, capsys):
    grown, arrays, compiled = soak(20_000, method)
    with capsys.disabled():
        print(f"\nSoak, {method}: 20,000 steps, memory grew by {grown / MIB:.1f} MiB, {compiled} programs compiled.")
    assert grown <= 8 * MIB + 20_000 * HISTORY
    assert arrays <= 16 and compiled == 0
