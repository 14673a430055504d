"""Random formulas as text and as trees, with a naive reader of the trees in plain Python."""

import functools
import math
from typing import Any

from hypothesis import strategies as st

from fedlore.kernel.schema import Feature, Schema

SCHEMA = Schema(
    (
        Feature("ash", low=0.0, high=30.0),
        Feature("vm", low=10.0, high=40.0),
        Feature("depth", low=-2.0, high=2.0),
        Feature("flow", low=0.5, high=1e4),
    ),
    ("low", "high"),
)
NAMES = SCHEMA.names

# a tree is a number, a name, or (op, *trees)
Tree = Any


def numbers() -> st.SearchStrategy[Tree]:
    """Numbers a person would write; no magnitudes at which rounding is the whole story."""
    return st.integers(0, 400).map(lambda v: v / 8)


@functools.cache  # building strategies costs more than drawing from them
def trees(depth: int = 4) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(numbers(), st.sampled_from(NAMES))
    if depth == 0:
        return leaves
    below = trees(depth - 1)
    one = st.sampled_from(["neg", "log", "log10", "exp", "sqrt", "abs"])
    two = st.sampled_from(["+", "-", "*", "/", "**"])
    extreme = st.sampled_from(["min", "max"])
    pair = st.tuples(two, below, below)
    where = st.tuples(st.just("where"), truths(depth - 1), below, below)
    return st.one_of(
        leaves,
        st.tuples(one, below),
        pair,
        pair,
        st.tuples(extreme, below, below),
        st.tuples(extreme, below, below, below),
        where,
    )


@functools.cache
def truths(depth: int) -> st.SearchStrategy[Tree]:
    below = trees(max(depth - 1, 0))
    comparison = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), below, below)
    if depth == 0:
        return comparison
    inner = truths(depth - 1)
    return st.one_of(
        comparison,
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    )


def rows() -> st.SearchStrategy[tuple[float, ...]]:
    """Rows in the scope, on a grid that single precision holds exactly."""
    grids = [st.integers(0, 240), st.integers(80, 320), st.integers(-16, 16), st.integers(4, 80000)]
    return st.tuples(*(grid.map(lambda v: v / 8) for grid in grids))


def text(tree: Tree) -> str:
    """With parentheses everywhere, so that precedence plays no part."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, float):
        return repr(tree)
    op, *args = tree
    parts = [text(arg) for arg in args]
    if op == "neg":
        return f"(-{parts[0]})"
    if op == "not":
        return f"(not {parts[0]})"
    if op in ("log", "log10", "exp", "sqrt", "abs", "min", "max", "where"):
        return f"{op}({', '.join(parts)})"
    return f"({parts[0]} {op} {parts[1]})"


class Undefined(Exception):
    """A value that does not exist."""


def value(tree: Tree, row: dict[str, float]) -> float:
    """The number of a tree, in plain Python; Undefined where there is none."""
    if isinstance(tree, str):
        return row[tree]
    if isinstance(tree, float):
        return tree
    op, *args = tree
    if op == "where":
        settled = truth(args[0], row)
        if settled is None:
            raise Undefined
        return value(args[1] if settled else args[2], row)
    found = [value(arg, row) for arg in args]
    try:
        result = _ARITHMETIC[op](*found)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise Undefined from None
    if isinstance(result, complex) or not math.isfinite(result):
        raise Undefined
    return result


def truth(tree: Tree, row: dict[str, float]) -> bool | None:
    """Whether a comparison holds; None where that is undefined."""
    op, *args = tree
    if op in ("and", "or", "not"):
        found = [truth(arg, row) for arg in args]
        if op == "not":
            return None if found[0] is None else not found[0]
        settling = op == "or"
        if settling in found:
            return settling
        return None if None in found else not settling
    try:
        a, b = (value(arg, row) for arg in args)
    except Undefined:
        return None
    return bool(_COMPARISONS[op](a, b))


_ARITHMETIC = {
    "neg": lambda a: -a,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "log": math.log,
    "log10": math.log10,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "abs": abs,
    "min": min,
    "max": max,
}
_COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
