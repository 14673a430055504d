"""The round loop and its transports."""

from ..wire import Transport
from .client import Client, Site, ready, score
from .fit import Fitted, FittedNumbers, fit
from .history import Row, read_rows, write_rows
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
    "Row",
    "Run",
    "Site",
    "Stacked",
    "Transport",
    "answer",
    "federate",
    "fit",
    "read_rows",
    "ready",
    "score",
    "scores",
    "write_rows",
]
