"""Reports made from flat rows: tables, plots, one self-contained page."""

from .tables import percent_text, tables
from .write import write_report

_FAULT = "report"  # the code of errors raised here

__all__ = [
    "percent_text",
    "tables",
    "write_report",
]
