"""Decision tables: from an expert's spreadsheet to tensors."""

from ...kernel.sheets import Rule
from .sheets import read_rules, table_of, write_table
from .table import Table

_FAULT = "table"  # the code of errors raised here

__all__ = ["Rule", "Table", "read_rules", "table_of", "write_table"]
