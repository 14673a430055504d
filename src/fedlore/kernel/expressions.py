"""Formulas: a small parser of its own, values of rows, and bounds over boxes of rows.

A tree is nested tuples: ("number", 2.0), ("column", 3), ("+", a, b), ("where", truth, a, b).
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import KnowledgeError

Tree = tuple[Any, ...]
Array = Any  # of numpy

_TOKEN = re.compile(
    r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([^\W\d]\w*)|(\*\*|<=|>=|==|!=|[-+*/^<>(),])"
    r"|('[^'\n]*'|\"[^\"\n]*\"))"
)
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")
_BINDING = {"or": 1, "and": 2, **dict.fromkeys(_COMPARE, 4), "+": 5, "-": 5, "*": 6, "/": 6}
_BINDING["**"] = 8
FUNCTIONS = ("min", "max", "log", "log10", "exp", "sqrt", "abs", "where")
_LARGEST = float(np.finfo(np.float32).max)


def parse(text: str, names: list[str], levels: Sequence[Sequence[str]] = ()) -> Tree:
    """The tree of a formula over named columns; with their `levels` it may compare those."""
    tokens: list[str] = []
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if not found:
            raise KnowledgeError(f"cannot read the formula {text!r}")
        tokens.append("**" if found[0].strip() == "^" else found[0].strip())
        place = found.end()
    reader = _Reader([*tokens, ""], names, levels)
    tree = reader.expression(0)
    if reader.tokens[reader.at]:
        raise KnowledgeError(f"cannot read the formula {text!r}")
    return tree


class _Reader:
    def __init__(
        self, tokens: list[str], names: list[str], levels: Sequence[Sequence[str]]
    ) -> None:
        self.tokens, self.names, self.levels, self.at = tokens, names, levels, 0

    def take(self, wanted: str | None = None) -> str:
        token = self.tokens[self.at]
        if wanted is not None and token != wanted:
            raise KnowledgeError(f"a formula has {token!r} where {wanted!r} is due")
        self.at += 1
        return token

    def expression(self, level: int) -> Tree:
        left = self.prefix()
        while _BINDING.get(self.tokens[self.at], -1) >= level:
            op = self.take()
            left = (op, left, self.expression(_BINDING[op] + (op != "**")))
        return left

    def prefix(self) -> Tree:
        token = self.take()
        if token == "-":
            return ("neg", self.expression(7))
        if token == "not":
            return ("not", self.expression(3))
        if token == "(":
            inner = self.expression(0)
            self.take(")")
            return inner
        if token in FUNCTIONS:
            self.take("(")
            parts = [self.expression(0)]
            while self.tokens[self.at] == ",":
                self.take()
                parts.append(self.expression(0))
            self.take(")")
            return (token, *parts)
        if token in self.names:
            place = self.names.index(token)
            if not self.levels or not self.levels[place]:
                return ("column", place)
            return self.level(place, self.take(), self.take())
        if token[:1].isdigit() or token[:1] == ".":
            return ("number", float(token))
        raise KnowledgeError(f"a formula has {token!r}, which is no feature")

    def level(self, place: int, op: str, word: str) -> Tree:
        """A level held against one of its names."""
        if op not in ("==", "!=") or word[1:-1] not in self.levels[place]:
            raise KnowledgeError(f"a formula holds '{self.names[place]}' against {word}")
        at = float(list(self.levels[place]).index(word[1:-1]))
        return (op, ("column", place), ("number", at))


def numbers_in(tree: Tree) -> set[float]:
    """The numbers that stand in a formula: thresholds are among them."""
    if tree[0] == "number":
        return {tree[1]}
    return set().union(*(numbers_in(part) for part in tree[1:] if isinstance(part, tuple)))


def columns_in(tree: Tree) -> set[int]:
    if tree[0] == "column":
        return {tree[1]}
    return set().union(*(columns_in(part) for part in tree[1:] if isinstance(part, tuple)))


def value(tree: Tree, x: Array) -> Array:
    """The formula on rows (n, d) of single precision, (n,), NaN where it is undefined."""
    with np.errstate(all="ignore"):
        return _blank_undefined(np.broadcast_to(_value(tree, x), len(x)))


def _value(tree: Tree, x: Array) -> Any:
    op, *parts = tree
    if op == "number":
        return np.float32(parts[0])
    if op == "column":
        return x[:, parts[0]].astype(np.float32)
    if op == "where":
        true, false = _truth(parts[0], x)
        return np.where(true, _value(parts[1], x), np.where(false, _value(parts[2], x), np.nan))
    args = [_value(part, x) for part in parts]
    return _blank_unknown(_single(op, args), *args) if op in _SHY else _single(op, args)


_SHY = ("/", "exp", "min", "max", "**")  # these would hide an undefined argument


def _single(op: str, args: list[Any]) -> Any:
    if op in ("+", "-", "*", "/"):
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](*args)
    if op in ("min", "max"):
        result = args[0]
        for arg in args[1:]:
            result = np.minimum(result, arg) if op == "min" else np.maximum(result, arg)
        return result
    if op in ("neg", "abs", "sqrt"):
        return {"neg": np.negative, "abs": np.abs, "sqrt": np.sqrt}[op](args[0])
    wide = [np.asarray(arg, dtype=np.float64) for arg in args]
    precise = {"exp": np.exp, "log": np.log, "log10": np.log10, "**": np.power}
    if op not in precise:
        raise KnowledgeError(f"a number is due where a formula has '{op}'")
    return np.float32(precise[op](*wide))


def _truth(tree: Tree, x: Array) -> tuple[Any, Any]:
    """Where a comparison is true, and where it is false; undefined is neither."""
    op, *parts = tree
    if op == "not":
        true, false = _truth(parts[0], x)
        return false, true
    if op in ("and", "or"):
        (a, not_a), (b, not_b) = (_truth(part, x) for part in parts)
        return (a & b, not_a | not_b) if op == "and" else (a | b, not_a & not_b)
    if op not in _COMPARE:
        raise KnowledgeError(f"a comparison is due where a formula has '{op}'")
    left, right = (_blank_undefined(_value(part, x)) for part in parts)
    known = ~(np.isnan(left) | np.isnan(right))
    true = known & _holds(op, left, right)
    return true, known & ~true


def _holds(op: str, a: Any, b: Any) -> Any:
    return {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "==": np.equal,
        "!=": np.not_equal,
    }[op](a, b)


def _blank_undefined(result: Any) -> Any:
    return np.where(np.abs(result) <= _LARGEST, result, np.float32(np.nan))


def _blank_unknown(result: Any, *args: Any) -> Any:
    for arg in args:
        result = np.where(np.isfinite(arg), result, np.float32(np.nan))
    return result
