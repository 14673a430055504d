"""What is chosen on training rows before the main training: private λ, and our own recipe."""

from ...knowledge.confusion import Recalibrated
from .candidates import CANDIDATES, ClassCandidate, PrivateTrust, Trials, choose, settle_trust
from .curves import GRID, Cached, hits, least_loss, loss, most_hits, trust_slope
from .lore import Lore, lore
from .members import choose_trust
from .numbers import tune_numbers
from .recalibrate import recalibrate_client
from .trust import trusting, tune
from .ways import Trust, Tuning

__all__ = [
    "CANDIDATES",
    "Cached",
    "ClassCandidate",
    "GRID",
    "Lore",
    "PrivateTrust",
    "Recalibrated",
    "Trials",
    "Trust",
    "Tuning",
    "choose",
    "choose_trust",
    "hits",
    "least_loss",
    "lore",
    "loss",
    "most_hits",
    "recalibrate_client",
    "settle_trust",
    "trust_slope",
    "trusting",
    "tune",
    "tune_numbers",
]
