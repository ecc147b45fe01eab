"""The three schemes of the paper, each file one definition."""

from .base import AbstractMethod as AbstractMethod
from .base import AbstractScheme as AbstractScheme
from .choices import Choices as Choices
from .heavy_ball import HeavyBall as HeavyBall
from .nesterov_one import NesterovOne as NesterovOne
from .nesterov_two import NesterovTwo as NesterovTwo
