"""Defences between a site and the coordinator, and attacks that measure what still leaks."""

from .dp.budget import Dp, Ledger
from .dp.filter import NoiseFilter
from .filters import Filter, guard_transport
from .secagg.pact import LEAST
from .settings import Privacy

_FAULT = "privacy"  # the code of errors raised here

__all__ = ["Dp", "Filter", "LEAST", "Ledger", "NoiseFilter", "Privacy", "guard_transport"]
