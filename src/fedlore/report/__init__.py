"""Reports made from flat rows: tables, plots, one self-contained page."""

from .axes import plot_calibration, plot_importance, plot_leaderboard, plot_trust
from .tables import overview, percent_text, tables
from .write import write_report

_FAULT = "report"  # the code of errors raised here

__all__ = [
    "overview",
    "percent_text",
    "plot_calibration",
    "plot_importance",
    "plot_leaderboard",
    "plot_trust",
    "tables",
    "write_report",
]
