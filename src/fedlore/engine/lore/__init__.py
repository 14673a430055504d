"""The recipe lore over any transport: trials, votes, the main training, and private ensembles."""

from .client import LoreClient, vote
from .rows import SiteRows
from .server import DoneStep, Outcome, Progress, conduct
from .space import (
    MAIN,
    NUMBERS,
    ORDERED,
    UNORDERED,
    Agreement,
    Candidate,
    SearchSpace,
    Trial,
    cost,
    default_space,
    rungs,
    untried_candidates,
)
from .stacking import SiteModel
from .train import InProcess, train_lore

__all__ = [
    "Agreement",
    "Candidate",
    "DoneStep",
    "InProcess",
    "LoreClient",
    "MAIN",
    "SearchSpace",
    "NUMBERS",
    "ORDERED",
    "Outcome",
    "Progress",
    "SiteModel",
    "SiteRows",
    "Trial",
    "UNORDERED",
    "conduct",
    "cost",
    "default_space",
    "rungs",
    "train_lore",
    "untried_candidates",
    "vote",
]
