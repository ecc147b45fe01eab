"""riesz: natural gradient descent with momentum in function space, on JAX."""

import importlib as _importlib
import typing as _typing

from ._doors.elliptic_error import Bound as Bound
from ._doors.elliptic_error import elliptic_error as elliptic_error
from ._doors.fit import curve_fit as curve_fit
from ._doors.fit import fit as fit
from ._doors.load import load as load
from ._doors.march import march as march
from ._doors.minimise import minimise as minimise
from ._doors.minimise import minimise_many as minimise_many
from ._doors.tangent_space import tangent_space as tangent_space
from ._geometry.inner_products import L2 as L2
from ._geometry.inner_products import AbstractInnerProduct as AbstractInnerProduct
from ._geometry.inner_products import GaussNewton as GaussNewton
from ._geometry.inner_products import InnerProduct as InnerProduct
from ._geometry.linearise import Linearisation as Linearisation
from ._geometry.linearise import linearise as linearise
from ._geometry.tangent import TangentSpace as TangentSpace
from ._linalg.filters import AbstractFilter as AbstractFilter
from ._linalg.filters import Cutoff as Cutoff
from ._linalg.filters import Floor as Floor
from ._linalg.filters import Shift as Shift
from ._linalg.rows import AbstractRows as AbstractRows
from ._linalg.solvers import QRSVD as QRSVD
from ._linalg.solvers import AbstractFactors as AbstractFactors
from ._linalg.solvers import AbstractInverse as AbstractInverse
from ._linalg.solvers import AbstractSolver as AbstractSolver
from ._linalg.solvers import Cholesky as Cholesky
from ._linalg.solvers import ConjugateGradients as ConjugateGradients
from ._linalg.solvers import Gram as Gram
from ._linalg.solvers import Sketched as Sketched
from ._methods.auto import LongSteps as LongSteps
from ._methods.auto import QuickSteps as QuickSteps
from ._methods.momentum import AbstractMomentum as AbstractMomentum
from ._methods.momentum import ConstantMomentum as ConstantMomentum
from ._methods.momentum import NesterovMomentum as NesterovMomentum
from ._methods.names import METHODS as METHODS
from ._methods.names import auto as auto
from ._methods.names import gd as gd
from ._methods.names import heavy_ball as heavy_ball
from ._methods.names import nesterov as nesterov
from ._methods.names import newton as newton
from ._methods.names import ngd as ngd
from ._methods.names import nhb as nhb
from ._methods.names import nhb_fd as nhb_fd
from ._methods.names import nn1 as nn1
from ._methods.names import nn1_fd as nn1_fd
from ._methods.names import nn2 as nn2
from ._methods.names import nn2_fd as nn2_fd
from ._methods.names import qnhb as qnhb
from ._methods.names import qnn1 as qnn1
from ._methods.names import qnn2 as qnn2
from ._methods.names import spring as spring
from ._methods.result import Result as Result
from ._methods.retractions import AbstractRetraction as AbstractRetraction
from ._methods.retractions import Retracted as Retracted
from ._methods.retractions import SecondOrder as SecondOrder
from ._methods.retractions import Straight as Straight
from ._methods.safeguard import Safeguard as Safeguard
from ._methods.schemes import AbstractMethod as AbstractMethod
from ._methods.schemes import AbstractScheme as AbstractScheme
from ._methods.schemes import HeavyBall as HeavyBall
from ._methods.schemes import NesterovOne as NesterovOne
from ._methods.schemes import NesterovTwo as NesterovTwo
from ._methods.step_sizes import AbstractStepSize as AbstractStepSize
from ._methods.step_sizes import Armijo as Armijo
from ._methods.step_sizes import Clipped as Clipped
from ._methods.step_sizes import Constant as Constant
from ._methods.step_sizes import GridSearch as GridSearch
from ._methods.transports import AbstractTransport as AbstractTransport
from ._methods.transports import Difference as Difference
from ._methods.transports import Projected as Projected
from ._methods.transports import Quasi as Quasi
from ._methods.transports import Unresolved as Unresolved
from ._methods.truncation import Truncation as Truncation
from ._problem.integral import Integral as Integral
from ._problem.integral import Loss as Loss
from ._problem.losses import density_kl as density_kl
from ._problem.losses import density_l2 as density_l2
from ._problem.losses import huber as huber
from ._problem.losses import initial as initial
from ._problem.losses import least_squares as least_squares
from ._problem.losses import logistic as logistic
from ._problem.losses import poisson as poisson
from ._problem.losses import prior as prior
from ._problem.losses import pseudo_huber as pseudo_huber
from ._problem.losses import residual as residual
from ._problem.losses import ritz as ritz
from ._problem.losses import sobolev as sobolev
from ._problem.losses import softmax as softmax
from ._problem.measures import AbstractDomain as AbstractDomain
from ._problem.measures import AbstractMeasure as AbstractMeasure
from ._problem.measures import Points as Points
from ._problem.measures import adaptive as adaptive
from ._problem.measures import boundary as boundary
from ._problem.measures import christoffel as christoffel
from ._problem.measures import circle as circle
from ._problem.measures import disc as disc
from ._problem.measures import gauss_legendre as gauss_legendre
from ._problem.measures import grid as grid
from ._problem.measures import importance as importance
from ._problem.measures import minibatch as minibatch
from ._problem.measures import monte_carlo as monte_carlo
from ._problem.measures import monte_carlo_boundary as monte_carlo_boundary
from ._problem.measures import monte_carlo_disc as monte_carlo_disc
from ._problem.measures import monte_carlo_polygon as monte_carlo_polygon
from ._problem.measures import monte_carlo_simplex as monte_carlo_simplex
from ._problem.measures import points as points
from ._problem.measures import polygon as polygon
from ._problem.measures import polygon_boundary as polygon_boundary
from ._problem.measures import product as product
from ._problem.measures import quasi_monte_carlo as quasi_monte_carlo
from ._problem.measures import simplex as simplex
from ._problem.measures import sobol as sobol
from ._problem.measures import union as union
from ._problem.models import Fourier as Fourier
from ._problem.models import Legendre as Legendre
from ._problem.models import box_bubble as box_bubble
from ._problem.models import fourier_features as fourier_features
from ._problem.models import hard_boundary as hard_boundary
from ._problem.models import hard_initial as hard_initial
from ._problem.models import linear as linear
from ._problem.models import local_time as local_time
from ._problem.models import mlp as mlp
from ._problem.models import normalised as normalised
from ._problem.models import periodic as periodic
from ._problem.models import sine_mlp as sine_mlp
from ._problem.models import stage as stage
from ._problem.models import tensor_train as tensor_train
from ._problem.operators import derivative as derivative
from ._problem.operators import divergence as divergence
from ._problem.operators import gradient as gradient
from ._problem.operators import hessian as hessian
from ._problem.operators import identity as identity
from ._problem.operators import laplacian as laplacian
from ._problem.operators import partial as partial
from ._problem.operators import spatial as spatial
from ._problem.operators import time_derivative as time_derivative
from ._problem.operators import value_and_gradient as value_and_gradient
from ._problem.parametrise import parametrise as parametrise
from ._problem.residual_vector import ResidualVector as ResidualVector
from ._records.checkpoint import Checkpoint as Checkpoint
from ._records.checkpoint import CheckpointError as CheckpointError
from ._records.logs import AbstractLog as AbstractLog
from ._records.logs import JSONLines as JSONLines
from ._records.logs import TensorBoard as TensorBoard
from ._running.restarts import Restarts as Restarts
from ._running.slabs import MarchSolution as MarchSolution
from ._running.solution import Solution as Solution
from ._running.solution import SolveError as SolveError
from ._running.solution import Start as Start

if _typing.TYPE_CHECKING:
    from . import optax as optax
    from . import optimistix as optimistix

__version__ = "0.1.0"

_ADAPTERS = ("optax", "optimistix", "sklearn")
"""Rooms that need a package of their own name, which is the extra of the same name."""


def __getattr__(name: str) -> _typing.Any:
    """The adapters to other packages, which are imported when somebody first asks for them."""
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'riesz' has no attribute {name!r}")
    try:
        if name == "optax":
            return _importlib.import_module("riesz.optax")
        if name == "optimistix":
            return _importlib.import_module("riesz.optimistix")
        return _importlib.import_module("riesz.sklearn")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != name:
            raise
        raise ImportError(f'riesz.{name} needs {name}, which is not installed: pip install "riesz[{name}]".') from error
