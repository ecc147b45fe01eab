"""The walk of a step: which functions of the package are visited, in order, from `minimise` to LAPACK and back."""

import pathlib
import sys
import threading

import riesz

SOURCE = pathlib.Path(riesz.__file__).parent
ANONYMOUS = ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")


def visited(call):
    """(file, function) for each visit while a call is made, in order."""
    visits = []

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)) and "__check_init__" not in frame.f_code.co_qualname:
            visits.append((str(pathlib.Path(path).relative_to(SOURCE)), frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return visits


def walk(visits):
    """The visits with repeated calls listed once, as (file, function, count)."""
    steps = []
    for file, name in visits:
        name = name.replace(".<locals>", "")
        if any(part in name for part in ANONYMOUS):
            name = name.split(".<")[0]
        if steps and steps[-1][:2] == (file, name):
            steps[-1] = (file, name, steps[-1][2] + 1)
        else:
            steps.append((file, name, 1))
    return steps


def entries(steps):
    """How often each file is entered, and how many switches between files there are."""
    files = [file for i, (file, _, _) in enumerate(steps) if i == 0 or steps[i - 1][0] != file]
    return {file: files.count(file) for file in dict.fromkeys(files)}, len(files) - 1
