"""The audit: what is wrong with knowledge, decided over the whole domain and on data."""

from .checkup import Checkup, check_data, check_file
from .sources import Sources, lint_sources
from .tables import lint_tables

_FAULT = "lint"  # the code of errors raised here

__all__ = ["Checkup", "Sources", "check_data", "check_file", "lint_sources", "lint_tables"]
