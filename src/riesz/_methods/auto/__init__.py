"""Auto, and its parts."""

from .auto import Auto as Auto
