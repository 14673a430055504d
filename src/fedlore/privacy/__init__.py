"""Defences between a site and the coordinator, and attacks that measure what still leaks."""

from .dp.settings import Dp
from .settings import Privacy

_FAULT = "privacy"  # the code of errors raised here

__all__ = ["Dp", "Privacy"]
