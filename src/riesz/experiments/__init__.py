"""The experiments of the paper, one file each: `mackey_glass.experiment()` and so on give the problem."""

from . import advection_diffusion as advection_diffusion
from . import extended_xor as extended_xor
from . import mackey_glass as mackey_glass
from . import reaction_diffusion as reaction_diffusion
from ._experiment import Experiment as Experiment
