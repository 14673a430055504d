"""The round loop and its transports."""

from .client import Client, Site, ready, score
from .fit import Fitted, FittedNumbers, fit
from .local import Local
from .loop import Recipe, Run, answer, federate, scores
from .memory import Memory
from .numbers import NumberClient
from .stacked import Population, Stacked

__all__ = [
    "Client",
    "Fitted",
    "FittedNumbers",
    "Local",
    "Memory",
    "NumberClient",
    "Population",
    "Recipe",
    "Run",
    "Site",
    "Stacked",
    "answer",
    "federate",
    "fit",
    "ready",
    "score",
    "scores",
]
