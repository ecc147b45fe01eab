"""The methods of the paper's figures, with the colours and line styles they have there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._inner_product import GaussNewton
from .._methods import METHODS
from .._momentum import NesterovMomentum
from .._scheme import AbstractMethod

RED, ORANGE, GREEN, BLUE, CYAN, PURPLE = "#D55E00", "#E69F00", "#009E73", "#0072B2", "#56B4E9", "#CC79A7"


@dataclass(frozen=True)
class Competitor:
    """A method as a figure shows it."""

    label: str
    colour: str
    line: str
    make: Callable[[], AbstractMethod]

    @property
    def name(self) -> str:
        """The label as it is typed and as files are called."""
        return self.label.lower().replace(" ", "-")


def _competitor(
    label: str, method: str, colour: str, scale: float | None = None, gauss_newton: bool = False
) -> Competitor:
    line = "dashed" if method.endswith("_fd") else "dotted" if method.startswith("q") else "solid"

    def make() -> AbstractMethod:
        # Rules and metrics are made here, after float64 has been switched on.
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
    return [_competitor(label, method, colour, scale, gauss_newton) for label, method, colour, scale in rows]


COMPETITORS = {competitor.label: competitor for competitor in _family(False) + _family(True)}
"""Every method of section 5 and the appendix, by label."""

_SHARED = ["NGD", "NHB", "NHB-FD", "QNHB", "NN-II", "NN-II-FD"]
_NESTEROV = ["NN-I", "NN-I-FD", "QNN-I", "QNN-II"]
MAIN = {
    "mackey-glass": _SHARED,
    "extended-xor": [*_SHARED, "NN-II-FD 0.5", *(f"GN-{label}" for label in [*_SHARED, "NN-II-FD 0.5"])],
    "advection-diffusion": _SHARED,
    "reaction-diffusion": [*_SHARED, "NN-II 0.75", "NN-II-FD 0.75"],
}
"""The methods of each problem's figures in section 5."""
APPENDIX = dict.fromkeys(MAIN, _NESTEROV) | {"extended-xor": [*_NESTEROV, *(f"GN-{label}" for label in _NESTEROV)]}
"""The methods that the appendix adds."""
