"""What is chosen on training rows before the main training: private λ."""

from .oof import GRID, Cached, hits, least_loss, loss, most_hits, trust_slope
from .trust import Trust, Tuning, tune, with_trust

_FAULT = "recipe"  # the code of errors raised here

__all__ = [
    "Cached",
    "GRID",
    "Trust",
    "Tuning",
    "hits",
    "least_loss",
    "loss",
    "most_hits",
    "trust_slope",
    "with_trust",
    "tune",
]
