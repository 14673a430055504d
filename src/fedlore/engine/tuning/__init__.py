"""What is chosen on training rows before the main training: private λ."""

from ...knowledge.views import Recalibrated
from .curves import GRID, Cached, hits, least_loss, loss, most_hits, trust_slope
from .members import choose_trust
from .numbers import tune_numbers
from .recalibrate import recalibrate_client
from .trust import trusting, tune
from .ways import Trust, Tuning

_FAULT = "recipe"  # the code of errors raised here

__all__ = [
    "Cached",
    "GRID",
    "Recalibrated",
    "Trust",
    "Tuning",
    "choose_trust",
    "hits",
    "least_loss",
    "loss",
    "most_hits",
    "recalibrate_client",
    "trust_slope",
    "trusting",
    "tune",
    "tune_numbers",
]
