"""Data to try things on, a user's own tables, and who holds which rows."""

from .coke import Coke, Plant, coking_plants
from .experts import COKE
from .frames import read_column, read_table
from .partition import by_class, by_value, dirichlet, iid, stratified
from .sources import Split, covtype, fashion_mnist

__all__ = [
    "COKE",
    "Coke",
    "Plant",
    "Split",
    "by_class",
    "by_value",
    "coking_plants",
    "covtype",
    "dirichlet",
    "fashion_mnist",
    "iid",
    "read_column",
    "read_table",
    "stratified",
]
