"""Data to try things on, a user's own tables, and who holds which rows."""

from .partition import by_class, by_value, class_owners, dirichlet, iid, stratify
from .public import DataFile, Split, content, covtype, fashion_mnist, first_found, missing, places
from .rows import FileForm, as_examples, read_column, read_measured, read_table

_FAULT = "data"  # the code of errors raised here

__all__ = [
    "DataFile",
    "FileForm",
    "Split",
    "as_examples",
    "by_class",
    "by_value",
    "class_owners",
    "content",
    "covtype",
    "dirichlet",
    "fashion_mnist",
    "first_found",
    "iid",
    "missing",
    "places",
    "read_column",
    "read_measured",
    "read_table",
    "stratify",
]
