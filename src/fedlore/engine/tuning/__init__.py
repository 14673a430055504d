"""What is chosen on training rows before the main training: private λ."""

from .oof import GRID, Cached, hits, most_hits
from .trust import Trust, Tuning, tune, with_trust

_FAULT = "recipe"  # the code of errors raised here

__all__ = [
    "Cached",
    "GRID",
    "Trust",
    "Tuning",
    "hits",
    "most_hits",
    "with_trust",
    "tune",
]
