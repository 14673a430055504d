"""Defences between a site and the coordinator, and attacks that measure what still leaks."""

from .dp.settings import Dp
from .settings import Privacy

__all__ = ["Dp", "Privacy"]
