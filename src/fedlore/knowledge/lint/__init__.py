"""The audit: what is wrong with knowledge, decided over the whole domain and on data."""

from .arithmetic import lint_formulas
from .checkup import Checkup, check_data, check_file
from .logic import lint_tables

_FAULT = "lint"  # the code of errors raised here

__all__ = ["Checkup", "check_data", "check_file", "lint_formulas", "lint_tables"]
