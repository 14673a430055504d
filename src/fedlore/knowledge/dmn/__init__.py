"""Decision tables of DMN files (Decision Model and Notation): read into knowledge, and written."""

from .convert import Imported, import_tables
from .parse import DmnTable, read_dmn
from .write import write_dmn

_FAULT = "dmn"  # the code of errors raised here

__all__ = ["DmnTable", "Imported", "import_tables", "read_dmn", "write_dmn"]
