"""What may be answered: one of k classes or a number, and what differs between the two."""

from .axis import Axis, Classes, Line, axis_of
from .bins import Bins
from .sets import Sets

__all__ = ["Axis", "Bins", "Classes", "Line", "Sets", "axis_of"]
