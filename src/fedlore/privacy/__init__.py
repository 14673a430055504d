"""Defences between a site and the coordinator, and attacks that measure what still leaks."""

from .dp.filter import Noising
from .dp.ledger import Ledger
from .dp.settings import Dp
from .filters import Filter, guard_transport
from .secagg.pact import LEAST
from .settings import Privacy

_FAULT = "privacy"  # the code of errors raised here

__all__ = [
    "Dp",
    "Filter",
    "LEAST",
    "Ledger",
    "Noising",
    "Privacy",
    "guard_transport",
]
