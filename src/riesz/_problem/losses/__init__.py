"""The named losses, each of them an `Integral` or a sum of two."""

from ._classification import logistic as logistic
from ._classification import softmax as softmax
from ._density import density_kl as density_kl
from ._density import density_l2 as density_l2
from ._regression import huber as huber
from ._regression import least_squares as least_squares
from ._regression import poisson as poisson
from ._regression import pseudo_huber as pseudo_huber
from ._regression import sobolev as sobolev
from ._residual import residual as residual
from ._ritz import ritz as ritz
