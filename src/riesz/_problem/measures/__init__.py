"""Measures mu_m = sum_j w_j delta_{x_j}: points with weights and data, fixed or drawn anew each step."""

from ._boundary import boundary as boundary
from ._boundary import monte_carlo_boundary as monte_carlo_boundary
from ._box import Box as Box
from ._box import box as box
from ._box import monte_carlo as monte_carlo
from ._box import quasi_monte_carlo as quasi_monte_carlo
from ._box import sobol as sobol
from ._importance import importance as importance
from ._points import AbstractMeasure as AbstractMeasure
from ._points import Points as Points
from ._points import points as points
from ._pool import Christoffel as Christoffel
from ._pool import Minibatch as Minibatch
from ._pool import christoffel as christoffel
from ._pool import minibatch as minibatch
from ._product import product as product
from ._simplex import monte_carlo_simplex as monte_carlo_simplex
from ._simplex import simplex as simplex
from ._tensor import gauss as gauss
from ._tensor import gauss_legendre as gauss_legendre
from ._tensor import grid as grid
