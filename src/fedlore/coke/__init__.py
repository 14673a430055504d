"""The case behind it all: simulated coking plants, their experts, and the blend planner."""

from .experts import COKE
from .plants import Coke, Plant, coking_plants

_FAULT = "coke"  # the code of errors raised here

__all__ = ["COKE", "Coke", "Plant", "coking_plants"]
