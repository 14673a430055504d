"""Whether what a bundle says is still true: claims about its rules, held against measured rows."""

from .record import Record, hold_record, open_record
from .watching import Judgement, Watch, watch_rows

__all__ = ["Record", "Judgement", "Watch", "hold_record", "open_record", "watch_rows"]
