"""Whether what a bundle says is still true: claims about its rules, held against measured rows."""

from .judge import Judgement, MonitorReport, monitor_rows
from .record import MeasuredRows, Record, lock_record, open_record

_FAULT = "monitor"  # the code of errors raised here

__all__ = [
    "Judgement",
    "MeasuredRows",
    "MonitorReport",
    "Record",
    "lock_record",
    "monitor_rows",
    "open_record",
]
