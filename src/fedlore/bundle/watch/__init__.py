"""Whether what a bundle says is still true: claims about its rules, held against measured rows."""

from .record import Record, open_record
from .watching import Judgement, Watch, watch_rows

__all__ = ["Record", "Judgement", "Watch", "open_record", "watch_rows"]
