"""Reports made from flat rows: tables, plots, one self-contained page."""

from .tables import overview, percent_text, tables
from .write import write_report

_FAULT = "report"  # the code of errors raised here

__all__ = [
    "overview",
    "percent_text",
    "tables",
    "write_report",
]
