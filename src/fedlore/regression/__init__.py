"""Regression with a guarantee: numbers as bins, knowledge about numbers, decoding inside S(x)."""

from .bins import Bins
from .conformal import ConformalInterval
from .distribution import Distribution
from .files import NumberFile, read_numbers
from .measured import Measured
from .numbers import Numbers, SetModel
from .ranges import Band, Between, FirstSaid, Join, Meet, Written
from .regressor import PersonalRegressor
from .sets import Sets
from .told import HEARD, Told
from .tuning import best_reliance

__all__ = [
    "Band",
    "Between",
    "Bins",
    "ConformalInterval",
    "Distribution",
    "FirstSaid",
    "HEARD",
    "Join",
    "Measured",
    "Meet",
    "NumberFile",
    "Numbers",
    "PersonalRegressor",
    "SetModel",
    "Sets",
    "Told",
    "Written",
    "best_reliance",
    "read_numbers",
]
