"""The three schemes of the paper, each file one definition, and auto with its parts."""

from ._auto import Auto as Auto
from ._base import AbstractMethod as AbstractMethod
from ._base import AbstractScheme as AbstractScheme
from ._base import Choices as Choices
from ._heavy_ball import HeavyBall as HeavyBall
from ._nesterov_one import NesterovOne as NesterovOne
from ._nesterov_two import NesterovTwo as NesterovTwo
