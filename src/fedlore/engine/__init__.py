"""The round loop and its transports."""

from ..models.client import Client, NumberClient
from .client import Memory, Site, ready, score
from .fit import fit
from .loop import Local, Recipe, Run, answer, federate, score_round
from .stacked import Population, Stacked
from .training import Fitted, Training, engine_for, scaler_of, train

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
