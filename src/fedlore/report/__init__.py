"""Reports made from flat rows: tables, plots, one self-contained page."""

from .tables import tables
from .write import write_report

_FAULT = "report"  # the code of errors raised here

__all__ = ["tables", "write_report"]
