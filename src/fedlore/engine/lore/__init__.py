"""The recipe lore over any transport: trials, votes, the main training, and private ensembles."""

from .client import LORE_TASKS, LoreClient, Shelf, fit_ensemble, part_of, vote
from .rows import SiteRows
from .server import DoneStep, Outcome, Progress, conduct
from .space import (
    MAIN,
    NUMBERS,
    ORDERED,
    UNORDERED,
    Agreement,
    Candidate,
    Menu,
    Trial,
    cost,
    menu_for,
    rungs,
)
from .stacking import SiteModel
from .train import InProcess, train_lore

__all__ = [
    "Agreement",
    "Candidate",
    "DoneStep",
    "InProcess",
    "LORE_TASKS",
    "LoreClient",
    "MAIN",
    "Menu",
    "NUMBERS",
    "ORDERED",
    "Outcome",
    "Progress",
    "Shelf",
    "SiteModel",
    "SiteRows",
    "Trial",
    "UNORDERED",
    "conduct",
    "cost",
    "fit_ensemble",
    "menu_for",
    "part_of",
    "rungs",
    "train_lore",
    "vote",
]
