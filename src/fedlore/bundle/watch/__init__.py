"""Whether what a bundle says is still true: claims about its rules, held against measured rows."""

from .record import Record, hold_record, open_record
from .watching import Judgement, Watch, watch_rows

_FAULT = "monitor"  # the code of errors raised here

__all__ = ["Record", "Judgement", "Watch", "hold_record", "open_record", "watch_rows"]
