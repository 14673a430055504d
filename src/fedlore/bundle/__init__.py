"""One file per site: the personal model, its knowledge, and the names and scales of its columns."""

from ..checker.forms import Policies
from ..models.answers import DECIDED, Answers
from .explain import reasons
from .header import Bundle
from .predict import answer_rows, read_rows_checked
from .store import bundle_of, load, read_bundle, save_bundle, write_bundle

_FAULT = "bundle"  # the code of errors raised here

__all__ = [
    "DECIDED",
    "Answers",
    "Bundle",
    "Policies",
    "answer_rows",
    "bundle_of",
    "load",
    "read_bundle",
    "read_rows_checked",
    "reasons",
    "save_bundle",
    "write_bundle",
]
