"""Auto, and its parts."""

from .auto import Auto as Auto
from .box import Box as Box
from .long_steps import LongSteps as LongSteps
from .quick_steps import QuickSteps as QuickSteps
