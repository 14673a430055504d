"""Knowledge about numbers: sets of them, bins for them, models that name them."""

from .bins import Bins
from .conformal import ConformalInterval
from .measured import Measured
from .numbers import Numbers
from .ranges import Band, Between, FirstSaid, Join, Meet, Written
from .sets import SetModel, Sets
from .told import HEARD, Told

_FAULT = "number"  # the code of errors raised here

__all__ = [
    "Band",
    "Between",
    "Bins",
    "ConformalInterval",
    "FirstSaid",
    "HEARD",
    "Join",
    "Measured",
    "Meet",
    "Numbers",
    "SetModel",
    "Sets",
    "Told",
    "Written",
]
