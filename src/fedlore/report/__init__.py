"""Reports made from flat rows: tables, plots, one self-contained page."""

from .tables import tables
from .write import write_report

__all__ = ["tables", "write_report"]
