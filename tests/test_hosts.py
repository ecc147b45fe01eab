"""Many hosts: processes under `jax.distributed` on this machine end with the numbers of one, and stop together."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

CHILD = pathlib.Path(__file__).with_name("hosts.py")
pytestmark = pytest.mark.slow


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(folder, processes, steps, *flags):
    folder.mkdir(exist_ok=True)
    port = free_port()
    command = lambda number: [sys.executable, str(CHILD), *map(str, (port, processes, number, steps, folder)), *flags]
    # Their own compilation, and no number of devices but the one they ask for.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
    return [subprocess.Popen(command(number), **streams) for number in range(processes)]


def finish(children, folder):
    said = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children), said
    return [json.loads((folder / f"process-{number}.json").read_text()) for number in range(len(children))]


def test_two_processes_give_the_numbers_of_one(tmp_path):
    (one,) = finish(start(tmp_path / "one", 1, 20), tmp_path / "one")
    first, second = finish(start(tmp_path / "two", 2, 20), tmp_path / "two")
    assert first == second
    assert first["steps"] == one["steps"] == 20 and first["result"] == one["result"]
    np.testing.assert_allclose(first["theta"], one["theta"], rtol=1e-9)
    lines = (tmp_path / "two" / "run.jsonl").read_text().splitlines()
    assert len(lines) == len((tmp_path / "one" / "run.jsonl").read_text().splitlines())


def test_one_process_stops_them_all(tmp_path):
    first, second = finish(start(tmp_path, 2, 500, "--interrupt"), tmp_path)
    assert first == second and first["result"] == "STOPPED_BY_CALLBACK"


def test_a_kill_ends_all_and_both_go_on(tmp_path):
    children = start(tmp_path, 2, 100_000, "--slow")
    made, end = tmp_path / "made", time.monotonic() + 200
    while not (made.exists() and made.read_text().strip() and int(made.read_text()) >= 40):
        assert time.monotonic() < end and all(child.poll() is None for child in children)
        time.sleep(0.1)
    children[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    children[1].communicate()
    children[0].communicate(timeout=90)
    waited = time.monotonic() - killed
    assert children[0].returncode != 0 and waited < 60, waited
    saved = max(int(path.stem.partition("-")[2]) for path in (tmp_path / "run").glob("step-*.npz"))
    assert saved >= 30
    first, second = finish(start(tmp_path, 2, saved + 20), tmp_path)
    assert first == second and first["steps"] == saved + 20
    (alone,) = finish(start(tmp_path / "alone", 1, saved + 20), tmp_path / "alone")
    np.testing.assert_allclose(first["theta"], alone["theta"], rtol=1e-6)
