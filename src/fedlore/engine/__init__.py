"""The round loop and its transports."""

from ..personal.client import Client, NumberClient
from .choice import engine_for, scaler_of
from .client import Site, ready, score
from .fit import fit
from .fitted import Fitted
from .local import Local
from .loop import Recipe, Run, answer, federate, score_round
from .memory import Memory
from .stacked import Population, Stacked
from .training import Training, train

_FAULT = "training"  # the code of errors raised here

__all__ = [
    "Client",
    "Fitted",
    "Local",
    "Memory",
    "NumberClient",
    "Population",
    "Recipe",
    "Run",
    "Site",
    "Stacked",
    "Training",
    "answer",
    "engine_for",
    "federate",
    "fit",
    "ready",
    "scaler_of",
    "score",
    "score_round",
    "train",
]
