"""Data to try things on."""

from .coke import Coke, Plant, coking_plants
from .experts import COKE

__all__ = ["COKE", "Coke", "Plant", "coking_plants"]
