"""Whether an operator leaves anything of the parameters, read off a traced program before anything is compiled.

The Laplacian of a network with activation relu is zero, whatever its parameters are. In the traced program it is a
product of weights with zeros, so zeros are followed through products and sums. An answer "no" is certain. An answer
"yes" is not: zeros are not followed into loops, branches and functions with derivative rules of their own.
"""

import enum
from typing import Any

import numpy as np

from .forward_laplacian import LINEAR, LINEAR_IN, LINEAR_IN_ONE
from .programs import walk


class Known(enum.Enum):
    """What is known of an array in a traced program."""

    ZERO = "All its entries are zero."
    FIXED = "It is the same for all parameters."
    FREE = "It may depend on the parameters."


def _known(array: Any) -> Known:
    """What is known of an array, or of a number that is written into the program."""
    if isinstance(array, Known):
        return array
    return Known.ZERO if isinstance(array, np.ndarray) and not array.any() else Known.FIXED


def _is_zero(equation: Any, zeros: list[bool]) -> bool:
    """Whether the outputs of an equation are zero, where it is known which of its arguments are."""
    name = equation.primitive.name
    if name in LINEAR:
        return all(zeros)
    if name in LINEAR_IN_ONE:
        return any(zeros)
    if name == "select_n":
        return all(zeros[1:])
    return name in LINEAR_IN and all(zeros[i] for i in LINEAR_IN[name])


def _advance(equation: Any, arguments: list[Any]) -> list[Known]:
    """What is known of the outputs of one equation."""
    known = [_known(u) for u in arguments]
    if _is_zero(equation, [u is Known.ZERO for u in known]):
        found = Known.ZERO
    else:
        found = Known.FREE if Known.FREE in known else Known.FIXED
    return [found] * len(equation.outvars)


def known_outputs(closed: Any, free: int) -> list[Known]:
    """What is known of the outputs of a traced program where one argument, by its number, stands for the parameters."""
    arguments = [Known.FREE if i == free else Known.FIXED for i in range(len(closed.jaxpr.invars))]
    consts = [Known.FIXED] * len(closed.consts)
    return [_known(output) for output in walk(closed.jaxpr, consts, arguments, _advance)]


def may_depend_on_first(closed: Any) -> bool:
    """Whether an output of a traced program may depend on its first argument, as far as the program shows."""
    return Known.FREE in known_outputs(closed, 0)
