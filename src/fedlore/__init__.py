"""Federated learning that knows what your experts know."""

from .algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt, FedPer, Plan, Scaffnew, Scaffold
from .bundle import load
from .engine import Client, Fitted, federate
from .errors import ConfigError, FedloreError, KnowledgeError
from .examples import Examples
from .inject import inject
from .knowledge import Knowledge, Lookup, Mask, MaxPool
from .personal import Personal
from .tuning import fit

__all__ = [
    "Alone",
    "Apfl",
    "Client",
    "ConfigError",
    "Ditto",
    "Examples",
    "FedAvg",
    "FedOpt",
    "FedPer",
    "FedloreError",
    "Fitted",
    "Knowledge",
    "KnowledgeError",
    "Lookup",
    "Mask",
    "MaxPool",
    "Personal",
    "Plan",
    "Scaffnew",
    "Scaffold",
    "federate",
    "fit",
    "inject",
    "load",
]
