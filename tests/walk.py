"""The walk of a step: which functions of the package are visited, in order, from `minimise` to LAPACK and back.

`python tests/walk.py` prints that of natural heavy ball as CONTRIBUTING.md shows it, `python tests/walk.py auto` that
of auto.
"""

import collections
import pathlib
import sys

import jax
import jax.numpy as jnp

import riesz

SOURCE = pathlib.Path(riesz.__file__).parent
ANONYMOUS = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
"""They are parts of the functions in which they are written."""


def visited(call):
    """(file, function) for each visit while a call is made, in order."""
    visits = []

    def note(frame, event, _):
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(str(SOURCE)) and not any(part in name for part in ANONYMOUS):
            visits.append((str(pathlib.Path(path).relative_to(SOURCE)), name.replace(".<locals>", "")))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return visits


def step(method):
    """The visits of one step of a method, traced by `minimise`: what comes before and after the step is left out."""
    x = jnp.linspace(-1.0, 1.0, 20)
    D = lambda theta: lambda x: theta[0] * jnp.sin(theta[1] * x) + theta[2]
    loss = riesz.least_squares(riesz.points(x, data=jnp.sin(2 * x)))
    theta = jnp.array([0.5, 1.0, 0.2])
    visits = visited(lambda: riesz.minimise(loss, D, theta, method, max_steps=1, progress=False))
    names = [name for _, name in visits]
    return [visits[0], *visits[names.index("Run.warm_up") : names.index("Run.advance")]]


def walk(visits):
    """The visits with repeated calls listed once, as pairs of a file and the functions visited in it, with counts."""
    counts, entries = collections.Counter(visits), []
    for file, name in dict.fromkeys(visits):
        if not entries or entries[-1][0] != file:
            entries.append((file, []))
        entries[-1][1].append(name if counts[file, name] == 1 else f"{name} ({counts[file, name]})")
    return entries


def shown(entries):
    return "\n".join(f"{file}: {', '.join(names)}" for file, names in entries)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(shown(walk(step(sys.argv[1] if len(sys.argv) > 1 else "nhb"))))
