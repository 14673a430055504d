"""The recipe lore over any transport: trials, votes, the main training, and a private mixture."""

from .agreement import Agreement
from .candidates import NUMBERS, ORDERED, UNORDERED, Candidate, Menu, menu_for
from .inside import Inside, part_of
from .private import Private
from .seat import Seat
from .server import DoneStep, Outcome, Progress, conduct
from .site import settle, vote
from .train import train_lore
from .trial import MAIN, Trial, cost, rungs

_FAULT = "recipe"  # the code of errors raised here

__all__ = [
    "Candidate",
    "Agreement",
    "Inside",
    "MAIN",
    "Menu",
    "NUMBERS",
    "ORDERED",
    "Outcome",
    "Private",
    "Progress",
    "Seat",
    "DoneStep",
    "Trial",
    "UNORDERED",
    "conduct",
    "cost",
    "menu_for",
    "part_of",
    "rungs",
    "settle",
    "train_lore",
    "vote",
]
