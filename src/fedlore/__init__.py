"""Federated learning that knows what your experts know."""

from .algorithms import Alone, FedAvg, Plan
from .engine import Client, Fitted, federate
from .errors import ConfigError, FedloreError, KnowledgeError
from .examples import Examples
from .inject import inject
from .knowledge import Knowledge, Lookup, Mask, MaxPool
from .personal import Personal
from .tuning import fit

__all__ = [
    "Alone",
    "Client",
    "ConfigError",
    "Examples",
    "FedAvg",
    "FedloreError",
    "Fitted",
    "Knowledge",
    "KnowledgeError",
    "Lookup",
    "Mask",
    "MaxPool",
    "Personal",
    "Plan",
    "federate",
    "fit",
    "inject",
]
