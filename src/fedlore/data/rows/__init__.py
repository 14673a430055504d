"""The one reader of rows: files and frames of every kind, by the names of their columns."""

from .memory import frame_of
from .reading import KINDS, Rows, open_file, open_source, read_rows, unhurried
from .source import Form, OnProgress, Source
from .table import as_examples, read_column, read_number_column, read_table

__all__ = [
    "KINDS",
    "Form",
    "OnProgress",
    "Rows",
    "Source",
    "as_examples",
    "frame_of",
    "open_file",
    "open_source",
    "read_column",
    "read_number_column",
    "read_rows",
    "read_table",
    "unhurried",
]
