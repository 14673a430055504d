"""Data to try things on, a user's own tables, and who holds which rows."""

from .partition import by_class, by_value, dirichlet, iid, stratify
from .public import Split, covtype, fashion_mnist
from .rows import FileForm, as_examples, read_column, read_measured, read_table

_FAULT = "data"  # the code of errors raised here

__all__ = [
    "FileForm",
    "Split",
    "as_examples",
    "by_class",
    "by_value",
    "covtype",
    "dirichlet",
    "fashion_mnist",
    "iid",
    "read_column",
    "read_measured",
    "read_table",
    "stratify",
]
