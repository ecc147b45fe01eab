"""Measures mu_m = sum_j w_j delta_{x_j}: points, weights and per-point data, fixed or drawn anew each step."""

from ._base import AbstractMeasure as AbstractMeasure
from ._box import MonteCarlo as MonteCarlo
from ._box import grid as grid
from ._box import monte_carlo as monte_carlo
from ._minibatch import Minibatch as Minibatch
from ._minibatch import minibatch as minibatch
from ._points import Points as Points
from ._points import points as points
