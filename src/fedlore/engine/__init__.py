"""The round loop and its transports."""

from ..models.client import Client, NumberClient
from .client import Memory, Site, ready
from .fit import fit
from .loop import Local, Recipe, Run, answer, federate
from .stacked import Population, Stacked
from .training import Fitted, Training, engine_for, scaler_of

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
]
