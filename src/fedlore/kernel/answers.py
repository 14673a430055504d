"""What knowledge says of rows: the graph that it is compiled to, computed with numpy."""

from typing import Any, NamedTuple

import numpy as np

from .expressions import Tree
from .graph.formulas import Formulas
from .graph.knowledge import compile_knowledge, prior_answer, range_answer, see_rows
from .graph.numbers import compile_number_knowledge, point_answer, see_numbers, set_answer
from .graph.ops import SINGLE, Numpy
from .knowledge import Known
from .measures import measure_tree
from .schema import Feature

Array = Any  # of numpy


class Said(NamedTuple):
    """Rows of the prediction (n, k), of the range (n, k), and which rows are refused (n,)."""

    prior: Array | None
    allowed: Array
    refused: Array


class Sets(NamedTuple):
    """Each row's set of numbers as columns of ends, NaN where there is no interval."""

    lower: Array  # (n, s)
    upper: Array  # (n, s)
    refused: Array  # (n,)

    @property
    def empty(self) -> Array:
        """Rows without any number, (n,)."""
        found: Array = np.isnan(self.lower).all(1)
        return found

    def holds(self, values: Array) -> Array:
        """Whether each row's number lies in its set, (n,); NaN does not."""
        v = values[:, None]
        found: Array = ((self.lower <= v) & (v <= self.upper)).any(1)
        return found


@np.errstate(all="ignore")
def said_of(known: Known, x: Array) -> Said:
    """The knowledge on rows (n, d) of single precision, with its policies."""
    found = compile_knowledge(Numpy(x), known)
    return Said(found.prior, _range(found.allowed, len(x), known.k), found.refused[:, 0])


@np.errstate(all="ignore")
def range_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The range of rows, (n, k) bool, and which rows it refuses, (n,)."""
    found = range_answer(see_rows(Numpy(x), known), known)
    rows = _range(None if found is None else found.rows, len(x), known.k)
    return rows, _flags(None if found is None else found.refused, len(x))


@np.errstate(all="ignore")
def prior_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The prediction for rows, (n, k), before the range, and which rows it refuses, (n,)."""
    view = see_rows(Numpy(x), known)
    found = prior_answer(view, known, range_answer(view, known))
    rows = np.zeros((len(x), known.k), SINGLE) if found is None else found.rows
    return rows, _flags(None if found is None else found.refused, len(x))


@np.errstate(all="ignore")
def sets_of(known: Known, x: Array) -> Sets:
    """The sets of rows (n, d), in single precision, within the bounds, and who is refused."""
    found = set_answer(see_numbers(Numpy(x), known), known)
    if found is None:
        ends = (np.full((len(x), 1), end) for end in (known.number.lower, known.number.upper))
        return Sets(next(ends), next(ends), _flags(None, len(x)))
    return Sets(found.lower, found.upper, _flags(found.refused, len(x)))


@np.errstate(all="ignore")
def points_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The number that the expert names, (n,), NaN where he is silent, and who is refused."""
    found = point_answer(see_numbers(Numpy(x), known), known)
    if found is None:
        return np.full(len(x), np.nan), _flags(None, len(x))
    return found.rows[:, 0], _flags(found.refused, len(x))


@np.errstate(all="ignore")
def numbers_of(known: Known, x: Array) -> tuple[Array, Array]:
    """The expert's number under the policies, (n,), and rows that get no answer, (n,)."""
    found = compile_number_knowledge(Numpy(x), known)
    point = np.full(len(x), np.nan) if found.point is None else found.point[:, 0]
    return point, found.refused[:, 0]


@np.errstate(all="ignore")
def value(tree: Tree, x: Array) -> Array:
    """A formula on rows (n, d) of single precision, (n,), NaN where it is undefined."""
    found: Array = Formulas(Numpy(x), np.asarray(x, SINGLE)).value(tree)[:, 0]
    return found


def convert(measure: Feature, values: Any) -> Any:
    """What the numbers of another measure come to, (n,) float64; NaN where there is no value."""
    column = np.asarray(values, np.float64).reshape(-1, 1)
    with np.errstate(all="ignore"):
        return value(measure_tree(measure), column.astype(SINGLE)).astype(np.float64)


def _range(rows: Array | None, n: int, k: int) -> Array:
    return np.ones((n, k), bool) if rows is None else rows


def _flags(refused: Array | None, n: int) -> Array:
    return np.zeros(n, bool) if refused is None else refused[:, 0]
