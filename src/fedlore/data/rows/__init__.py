"""The one reader of rows: files and frames of every kind, by the names of their columns."""

from .cells import Problems, name_and_unit, number_cells, place_cells, refusal, text_cells
from .files import FileForm, OnProgress, frame_of
from .table import (
    ROW_KINDS,
    RowChunk,
    as_examples,
    find_rows,
    open_file,
    read_chunks,
    read_column,
    read_measured,
    read_scorable,
    read_table,
    read_unhurried,
)

_FAULT = "rows"  # the code of errors raised here

__all__ = [
    "FileForm",
    "OnProgress",
    "Problems",
    "ROW_KINDS",
    "RowChunk",
    "as_examples",
    "find_rows",
    "frame_of",
    "name_and_unit",
    "number_cells",
    "open_file",
    "place_cells",
    "read_chunks",
    "read_column",
    "read_measured",
    "read_scorable",
    "read_table",
    "read_unhurried",
    "refusal",
    "text_cells",
]
