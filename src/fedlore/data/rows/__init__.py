"""The one reader of rows: files and frames of every kind, by the names of their columns."""

from .measured import read_measured
from .memory import frame_of
from .reading import ROW_KINDS, RowChunk, open_file, open_rows, read_chunks, read_unhurried
from .source import FileForm, OnProgress, RowSource
from .table import as_examples, read_column, read_number_column, read_table

_FAULT = "rows"  # the code of errors raised here

__all__ = [
    "ROW_KINDS",
    "FileForm",
    "OnProgress",
    "RowChunk",
    "RowSource",
    "as_examples",
    "frame_of",
    "open_file",
    "open_rows",
    "read_column",
    "read_measured",
    "read_number_column",
    "read_chunks",
    "read_table",
    "read_unhurried",
]
