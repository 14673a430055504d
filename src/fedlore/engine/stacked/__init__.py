"""The fast engine: clients train in stacks, on one core, several, or a card."""

from .clients import Population
from .transport import Stacked

_FAULT = "stacked"  # the code of errors raised here

__all__ = ["Population", "Stacked"]
