"""The methods of the paper's figures, with the colours and line styles they have there, and baselines for context."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optax

from .._geometry.inner_products import GaussNewton
from .._methods.momentum import NesterovMomentum
from .._methods.names import METHODS
from .._methods.schemes import AbstractMethod
from .._methods.step_sizes import GridSearch
from ._baselines import Optax

# The paper's colours by name, in the shades of Okabe and Ito, which colour-blind readers can tell apart.
RED, ORANGE, GREEN, BLUE, CYAN, PURPLE = "#D55E00", "#E69F00", "#009E73", "#0072B2", "#56B4E9", "#CC79A7"
BLACK, GREY = "#000000", "#888888"


@dataclass(frozen=True)
class Competitor:
    """A method as a figure shows it."""

    label: str
    colour: str
    line: str
    """As matplotlib calls it: solid, dashed, dotted or dashdot."""
    make: Callable[[], AbstractMethod]
    """Called after float64 has been switched on."""
    patience: int = 1
    """So many times the problem's step limit: steps without a Jacobian are cheap."""


def _natural(
    label: str, method: str, colour: str, scale: float | None = None, gauss_newton: bool = False
) -> Competitor:
    line = "dashed" if method.endswith("_fd") else "dotted" if method.startswith("q") else "solid"

    def make() -> AbstractMethod:
        choices: dict[str, Any] = {} if scale is None else {"beta": NesterovMomentum(scale=scale)}
        if gauss_newton:
            choices["W"] = GaussNewton()
        return METHODS[method](**choices)

    return Competitor(("GN-" if gauss_newton else "") + label, colour, line, make)


def _family(gauss_newton: bool) -> list[Competitor]:
    rows = [
        ("NGD", "ngd", ORANGE if gauss_newton else RED, None),
        ("NHB", "nhb", GREEN, None),
        ("NHB-FD", "nhb_fd", GREEN, None),
        ("QNHB", "qnhb", GREEN, None),
        ("NN-II", "nn2", BLUE, None),
        ("NN-II-FD", "nn2_fd", BLUE, None),
        ("NN-II 0.75", "nn2", CYAN, 0.75),
        ("NN-II-FD 0.75", "nn2_fd", CYAN, 0.75),
        ("NN-II-FD 0.5", "nn2_fd", CYAN, 0.5),
        ("NN-I", "nn1", PURPLE, None),
        ("NN-I-FD", "nn1_fd", PURPLE, None),
        ("QNN-I", "qnn1", PURPLE, None),
        ("QNN-II", "qnn2", BLUE, None),
    ]
    return [_natural(label, method, colour, scale, gauss_newton) for label, method, colour, scale in rows]


_BASELINES = [
    Competitor("LS-NGD", ORANGE, "dashdot", lambda: METHODS["ngd"](step_size=GridSearch())),
    Competitor("L-BFGS", BLACK, "solid", lambda: Optax(optax.lbfgs()), patience=4),
    Competitor("Adam", BLACK, "dashed", lambda: Optax(optax.adam(1e-2)), patience=4),
    Competitor("GD", GREY, "solid", METHODS["gd"], patience=4),
    Competitor("HB", GREY, "dashed", METHODS["heavy_ball"], patience=4),
    Competitor("Nesterov", GREY, "dotted", METHODS["nesterov"], patience=4),
]
COMPETITORS = {competitor.label: competitor for competitor in [*_family(False), *_family(True), *_BASELINES]}
"""Every method of section 5 and the appendix, and the baselines, by label."""


@dataclass(frozen=True)
class Figure:
    """One of the paper's figures: which methods it compares on which problem."""

    name: str
    problem: str
    title: str
    part: str
    """"main" for the figures of section 5, "appendix" for what else the paper speaks of, or "baselines"."""
    labels: tuple[str, ...]


_HEAVY, _NESTEROV = ("NHB", "NHB-FD", "QNHB"), ("NN-II", "NN-II-FD")
_BOTH = ("NN-I", "NN-I-FD", "QNN-I", "NN-II", "NN-II-FD", "QNN-II")
_GN = lambda labels: tuple(f"GN-{label}" for label in labels)
_HALF = "NN-II-FD 0.5"
FIGURES = tuple(
    Figure(f"{problem}{suffix}", problem, title, part, labels)
    for problem, suffix, title, part, labels in [
        ("mackey-glass", "", "Mackey-Glass", "main", ("NGD", *_HEAVY, *_NESTEROV)),
        ("extended-xor", "", "Extended exclusive or: W = X = L2", "main",
         ("NGD", "GN-NGD", *_HEAVY, *_NESTEROV, _HALF)),
        ("extended-xor", "-gauss-newton", "Extended exclusive or: W = Gauss-Newton", "main",
         ("NGD", "GN-NGD", *_GN((*_HEAVY, *_NESTEROV, _HALF)))),
        ("advection-diffusion", "", "Advection-diffusion", "main", ("NGD", *_HEAVY, *_NESTEROV)),
        ("reaction-diffusion", "", "Reaction-diffusion", "main",
         ("NGD", *_HEAVY, *_NESTEROV, "NN-II 0.75", "NN-II-FD 0.75")),
        ("mackey-glass", "-nesterov", "Mackey-Glass: Nesterov I and II", "appendix", ("NGD", *_BOTH)),
        ("extended-xor", "-nesterov", "Extended exclusive or: Nesterov I and II", "appendix",
         ("NGD", "GN-NGD", *_BOTH)),
        ("extended-xor", "-gauss-newton-nesterov", "Extended exclusive or: Gauss-Newton Nesterov I and II", "appendix",
         ("NGD", "GN-NGD", *_GN(_BOTH))),
        ("extended-xor", "-line-search", "Extended exclusive or: line search", "appendix", ("NGD", "NHB", "LS-NGD")),
        ("advection-diffusion", "-nesterov", "Advection-diffusion: Nesterov I and II", "appendix", ("NGD", *_BOTH)),
        ("reaction-diffusion", "-nesterov", "Reaction-diffusion: Nesterov I and II", "appendix", ("NGD", *_BOTH)),
        *((problem, "-baselines", f"{title}: baselines", "baselines",
           ("NGD", "NHB", *(baseline.label for baseline in _BASELINES)))
          for problem, title in [("mackey-glass", "Mackey-Glass"), ("extended-xor", "Extended exclusive or"),
                                 ("advection-diffusion", "Advection-diffusion"),
                                 ("reaction-diffusion", "Reaction-diffusion")]),
    ]
)  # fmt: skip
"""The paper's figures, the Nesterov comparison on the PDEs too, and one with baselines for every problem."""


def labels_of(problem: str, parts: tuple[str, ...]) -> list[str]:
    """The methods of a problem's figures in these parts, each once."""
    figures = [figure for figure in FIGURES if figure.problem == problem and figure.part in parts]
    return list(dict.fromkeys(itertools.chain.from_iterable(figure.labels for figure in figures)))
