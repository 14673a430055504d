"""All that is needed to answer rows with a bundle: read them, answer them, say why."""

from .answering import DECIDED, Answers, answer_rows, in_scope, shape_rows
from .columns import read_rows_checked
from .reasons import reasons

__all__ = [
    "DECIDED",
    "Answers",
    "answer_rows",
    "in_scope",
    "read_rows_checked",
    "reasons",
    "shape_rows",
]
