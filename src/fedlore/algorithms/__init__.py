"""Federated algorithms: both halves of each in one small class."""

from .base import (
    Algorithm,
    Facts,
    Gradient,
    Plan,
    Slopes,
    Work,
    check_fit,
    check_settings,
    choice,
    facts_of,
    inverse,
    reach,
    setting,
)
from .catalog import ALGORITHMS, AlgorithmSetting, installed_algorithms, make, settings_of
from .ditto import Apfl, Ditto
from .fedavg import Alone, FedAvg
from .fedopt import FedOpt
from .fedper import FedPer
from .scaffnew import Scaffnew
from .scaffold import Scaffold
from .solo import FlatParams, Solo

_FAULT = "algorithm"  # the code of errors raised here

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Alone",
    "Apfl",
    "FlatParams",
    "Ditto",
    "Facts",
    "FedAvg",
    "FedOpt",
    "FedPer",
    "Gradient",
    "Plan",
    "Scaffnew",
    "Scaffold",
    "AlgorithmSetting",
    "Slopes",
    "Solo",
    "Work",
    "check_fit",
    "check_settings",
    "choice",
    "facts_of",
    "inverse",
    "installed_algorithms",
    "make",
    "reach",
    "setting",
    "settings_of",
]
