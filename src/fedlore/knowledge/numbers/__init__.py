"""Knowledge about numbers: sets of them, bins for them, files that declare them."""

from .bins import Bins
from .conformal import ConformalInterval
from .files import NumberFile, read_numbers
from .measured import Measured
from .numbers import Numbers, SetModel
from .ranges import Band, Between, FirstSaid, Join, Meet, Written
from .sets import Sets
from .told import HEARD, Told

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
    "NumberFile",
    "Numbers",
    "SetModel",
    "Sets",
    "Told",
    "Written",
    "read_numbers",
]
