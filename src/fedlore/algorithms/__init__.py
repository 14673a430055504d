"""Federated algorithms: both halves of each in one small class."""

from .alone import Alone
from .apfl import Apfl
from .base import Algorithm, Gradient, Slopes, Work
from .catalog import ALGORITHMS, AlgorithmSetting, installed_algorithms, make, settings_of
from .ditto import Ditto
from .facts import Facts, check_fit, check_settings, choice, facts_of, setting
from .fedavg import FedAvg
from .fedopt import FedOpt
from .fedper import FedPer
from .plan import Plan, inverse, reach
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
