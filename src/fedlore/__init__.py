"""Federated learning that knows what your experts know."""

from .algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt, FedPer, Plan, Scaffnew, Scaffold
from .bundle import load
from .core.examples import Examples
from .core.inject import inject
from .engine import Client, Fitted, federate
from .engine.tuning import fit
from .errors import ConfigError, FedloreError, KnowledgeError
from .knowledge import Knowledge, Lookup, Mask, MaxPool
from .personal.classifier import Personal
from .version import __version__

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
    "__version__",
    "federate",
    "fit",
    "inject",
    "load",
]
