"""Model classes: parametrised manifolds of functions."""

from ._linear import linear as linear
from ._mlp import mlp as mlp
