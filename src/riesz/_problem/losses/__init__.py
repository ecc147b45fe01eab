"""The named losses, each of them an `Integral` or a sum of two."""

from ._data import huber as huber
from ._data import least_squares as least_squares
from ._data import logistic as logistic
from ._data import poisson as poisson
from ._data import pseudo_huber as pseudo_huber
from ._data import sobolev as sobolev
from ._data import softmax as softmax
from ._density import density_kl as density_kl
from ._density import density_l2 as density_l2
from ._entries import density_by_name as density_by_name
from ._equation import Departure as Departure
from ._equation import Residual as Residual
from ._equation import prior as prior
from ._equation import residual as residual
from ._equation import ritz as ritz
from ._initial import initial as initial
