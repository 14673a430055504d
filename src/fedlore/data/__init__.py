"""Data to try things on, a user's own tables, and who holds which rows."""

from .frames import read_column, read_table
from .partition import by_class, by_value, dirichlet, iid, stratified
from .public import Split, covtype, fashion_mnist

__all__ = [
    "Split",
    "by_class",
    "by_value",
    "covtype",
    "dirichlet",
    "fashion_mnist",
    "iid",
    "read_column",
    "read_table",
    "stratified",
]
