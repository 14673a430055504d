"""What may be answered: one of k classes or a number, and what differs between the two."""

from ..kernel.knowledge import HEARD
from .axis import Axis, Classes, Line, axis_of
from .bins import Bins
from .measured import Measured, all_scores, region_scores, rmse
from .sets import Sets

_FAULT = "number"  # the code of errors raised here

__all__ = [
    "Axis",
    "Bins",
    "Classes",
    "HEARD",
    "Line",
    "Measured",
    "Sets",
    "all_scores",
    "axis_of",
    "region_scores",
    "rmse",
]
