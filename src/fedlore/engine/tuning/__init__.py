"""What is chosen on training rows before the main training: private λ."""

from ...knowledge.views import Recalibrated
from .oof import GRID, Cached, hits, least_loss, loss, most_hits, recalibrate_client, trust_slope
from .trust import Trust, Tuning, tune, with_trust

_FAULT = "recipe"  # the code of errors raised here

__all__ = [
    "Cached",
    "GRID",
    "Recalibrated",
    "Trust",
    "Tuning",
    "hits",
    "least_loss",
    "loss",
    "most_hits",
    "recalibrate_client",
    "trust_slope",
    "with_trust",
    "tune",
]
