"""Model classes: parametrised manifolds of functions, and wrappers that change them."""

from ._basis import Fourier as Fourier
from ._basis import Legendre as Legendre
from ._boundary import box_bubble as box_bubble
from ._boundary import hard_boundary as hard_boundary
from ._initial import hard_initial as hard_initial
from ._inputs import fourier_features as fourier_features
from ._inputs import local_time as local_time
from ._inputs import periodic as periodic
from ._linear import linear as linear
from ._mlp import mlp as mlp
from ._normalised import normalised as normalised
from ._sine import sine_mlp as sine_mlp
from ._stage import stage as stage
from ._tensor_train import TensorTrain as TensorTrain
from ._tensor_train import tensor_train as tensor_train
