"""What a solution is, in a few lines of text or a small table of HTML."""

import html
from typing import Any

import jax
import numpy as np

from .._methods.auto import Auto
from .._methods.names import METHODS
from .._methods.result import Result
from .._methods.schemes import AbstractScheme
from .._problem.features import Whole, traced
from .._problem.measures import Points
from .fingerprint import text
from .problem import Problem


def facts(solution: Any) -> dict[str, str]:
    """What there is to say, by what it is about."""
    many, theta = solution.theta.ndim > 1, solution.theta
    found = _of_many(solution) if many else _of_one(solution)
    found["parameters"] = f"{theta.shape[-1]} ({theta.dtype})"
    problem = solution.problem
    if problem is not None:
        found["points"] = _points(problem, theta[0] if many else theta)
    if problem is not None and problem.method is not None:
        method = problem.method.method
        found["method"] = _name(method)
        if method.solver is not None:
            found["solver"] = str(method.solver)
    elif solution.origin is not None:
        found["method"] = solution.origin.method.partition("(")[0]
    return found


def _of_one(solution: Any) -> dict[str, str]:
    best = "" if np.array_equal(solution.theta, solution.last) else f"; {solution.history['loss'][-1]:.6g} at the last"
    found = {
        "result": f"{solution.result.name}: {solution.result}",
        "loss": f"{float(solution.loss):.6g}{best}",
        **({} if solution.between is None else {"between the points": f"{float(solution.between):.6g}"}),
        "steps": f"{solution.steps}{_rejected(solution.history, solution.steps)}",
        "seconds": f"{solution.history['seconds'][-1]:.3g}, compilation aside",
    }
    return found | ({"starts": str(len(solution.starts))} if solution.starts else {})


def _rejected(history: dict[str, np.ndarray], steps: int) -> str:
    undone = int(np.sum(~history["accepted"][:steps])) if "accepted" in history else 0
    return f", {undone} of them rejected" if undone else ""


def _of_many(solution: Any) -> dict[str, str]:
    results, loss = list(solution.result), np.asarray(solution.loss)
    counts = {result: results.count(result) for result in Result if result in results}
    return {
        "starts": str(len(results)),
        "result": "; ".join(f"{count} {result.name}" for result, count in counts.items()),
        "loss": f"{loss.min():.6g} (the best), {np.median(loss):.6g} (median), {loss.max():.6g} (the worst)",
        "steps": f"{min(solution.steps)} to {max(solution.steps)}",
    }


def _points(problem: Problem, theta: jax.Array) -> str:
    """How many points every term has: those of weight zero are none."""
    draw = lambda key: problem.loss.draw(key if problem.loss.drawn else None, problem.D, theta)
    shapes = jax.eval_shape(draw, jax.random.key(0))
    told = []
    for term, over in zip(problem.loss.terms, shapes, strict=True):
        if isinstance(term.operator, Whole):
            told.append(f"{traced(problem.D, term.operator, theta, over.x)[1].size} residuals")
        elif isinstance(term.over, Points):
            told.append(str(np.count_nonzero(term.over.weights)))
        else:
            told.append(f"{over.weights.shape[0]}{' drawn each step' if problem.drawn else ''}")
    return " + ".join(told)


def _name(method: Any) -> str:
    """The name of a method of riesz, or what it is made of."""
    if isinstance(method, Auto):
        return "auto"
    if not isinstance(method, AbstractScheme):
        return type(method).__name__
    for name, make in METHODS.items():
        if text(make().solving(method.choices.solver)) == text(method):
            return name
    choices = method.choices
    parts = (choices.transport, choices.momentum, choices.step_size, choices.W, choices.filter)
    return f"{type(method).__name__} with {', '.join(type(part).__name__ for part in parts)}"


def summary(solution: Any) -> str:
    """A line for every fact, and one for every note."""
    found = facts(solution)
    width = max(map(len, found)) + 2
    return "\n".join(
        [f"{name:<{width}}{fact}" for name, fact in found.items()] + [f"- {note}" for note in solution.notes]
    )


def page(solution: Any) -> str:
    """The same as a table for notebooks."""
    cell = '<td style="text-align: left; vertical-align: top">'
    row = lambda name, fact: f"<tr>{cell}<b>{html.escape(name)}</b></td>{cell}{html.escape(fact)}</td></tr>"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in solution.notes)
    rows = "".join(row(name, fact) for name, fact in facts(solution).items())
    return f"<table>{rows}</table>{f'<ul>{notes}</ul>' if notes else ''}"
