"""Rows whose label is a number."""

from pathlib import Path

from ...answers import Measured
from ...kernel.schema import Schema
from .source import FileForm
from .table import read_number_column, read_table


def read_measured(
    path: str | Path, schema: Schema, *, label: str | None = None, form: FileForm | None = None
) -> Measured:
    """The features of the schema, in its order, and the number of the column `label`."""
    x = read_table(path, schema, form=form).x
    return Measured(x, None if label is None else read_number_column(path, label, form=form))
