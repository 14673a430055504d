"""The one reader of rows: files and frames of every kind, by the names of their columns."""

from .cells import number_cells, place_cells, text_cells
from .measured import read_measured
from .memory import frame_of
from .problems import Problems, refusal
from .reading import ROW_KINDS, RowChunk, open_file, open_rows, read_chunks, read_unhurried
from .source import FileForm, OnProgress, RowSource
from .table import as_examples, read_column, read_number_column, read_table
from .titles import name_and_unit

_FAULT = "rows"  # the code of errors raised here

__all__ = [
    "FileForm",
    "OnProgress",
    "Problems",
    "ROW_KINDS",
    "RowChunk",
    "RowSource",
    "as_examples",
    "frame_of",
    "name_and_unit",
    "number_cells",
    "open_file",
    "open_rows",
    "place_cells",
    "read_chunks",
    "read_column",
    "read_measured",
    "read_number_column",
    "read_table",
    "read_unhurried",
    "refusal",
    "text_cells",
]
