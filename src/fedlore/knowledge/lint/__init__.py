"""The audit: what is wrong with knowledge, decided over the whole domain and on data."""

from .arithmetic import lint_formulas
from .checkup import Checkup, check_data, check_file
from .logic import lint_tables

__all__ = ["Checkup", "check_data", "check_file", "lint_formulas", "lint_tables"]
