"""Reports made from flat rows: tables, plots, one self-contained page."""

from .markdown import markdown
from .tables import Cell, Table, tables
from .write import write_report

__all__ = ["Cell", "Table", "markdown", "tables", "write_report"]
