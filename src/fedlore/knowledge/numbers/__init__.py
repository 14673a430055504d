"""Knowledge about numbers: sets of them, bins for them, models that name them."""

from ...answers import Bins, Sets
from .conformal import ConformalInterval
from .measured import Measured
from .numbers import Numbers
from .ranges import Band, Between, Written
from .scores import all_scores, region_scores, rmse
from .told import HEARD, Told

_FAULT = "number"  # the code of errors raised here

__all__ = [
    "Band",
    "Between",
    "Bins",
    "ConformalInterval",
    "HEARD",
    "Measured",
    "Numbers",
    "Sets",
    "Told",
    "Written",
    "all_scores",
    "region_scores",
    "rmse",
]
