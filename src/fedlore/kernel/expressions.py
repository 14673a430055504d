"""A small language for an expert's formulas: text -> tree, every fault marked with its position.

From loosest to tightest:

    or      and      not      < <= > >= == !=      + -      * /      unary -      ** (or ^)

plus numbers, feature names, parentheses and the functions `min max log log10 exp sqrt abs where
interpolate`. Nothing else exists: no calls of other names, attributes, indices, strings or
assignments, so a formula can compute and do nothing more. A comparison is a truth, everything else
a number;
`where(truth, number, number)` turns the one into the other, and the two are never mixed.
Regions also compare levels with their names in quotes: `origin != 'import'`.

A tree is nested tuples: ("number", 2.0), ("column", 3), ("+", a, b), ("where", truth, a, b).
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ..errors import KnowledgeError, unknown
from .schema import Feature

_FAULT = "formula"  # the code of errors raised here

Tree = tuple[Any, ...]
Array = Any  # of numpy

_LONGEST = 10_000  # characters
DEEPEST = 50  # parentheses, functions and signs inside one another
LARGEST_CONSTANT = 500  # numbers, names and operations
SMALLEST_NUMBER, LARGEST_NUMBER = 1.2e-38, 3.4e38  # what single precision holds
_LARGEST = float(np.finfo(np.float32).max)

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
TRUTHS = (*COMPARISONS, "and", "or", "not")
FUNCTIONS = {  # name -> fewest and most arguments
    "min": (2, LARGEST_CONSTANT),
    "max": (2, LARGEST_CONSTANT),
    "log": (1, 1),
    "log10": (1, 1),
    "exp": (1, 1),
    "sqrt": (1, 1),
    "abs": (1, 1),
    "where": (3, 3),
    "interpolate": (5, 201),  # a number, and 2 to 100 points
}
_LEVELS = {"or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4)} | {
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "**": 8,
}
_NOT, _SIGN = 3, 7  # the levels of the two prefixes: -x**2 is -(x**2)
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<word>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/^<>(),])"
)
_SPACE = re.compile(r"\s*")
_HINTS = {
    ".": "attributes are not allowed",
    "[": "indices are not allowed",
    "]": "indices are not allowed",
    "=": "to compare, write ==",
    "!": "to negate, write not",
    "&": "write and",
    "|": "write or",
    "%": "write a share as a number, 5 % = 0.05",
    "'": "a quote is not closed",
    '"': "a quote is not closed",
    "−": "write the minus of the keyboard, -",
    "×": "write *",
    "÷": "write /",
}


class FormulaError(KnowledgeError):
    """A formula that cannot be read; `position` counts characters from 0."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        super().__init__(f"{reason}\n{_mark(text, position)}")
        self.position = position


@dataclass(frozen=True)
class Step:
    """One operation on the results of earlier steps, a number, or a column."""

    op: str  # "number", "column", "neg", an operator of the grammar or a function
    args: tuple[int, ...] = ()
    value: float = 0.0  # of a number
    column: int = -1  # of a column


@dataclass(frozen=True)
class _Token:
    what: str  # "number", "name", "word", "sign", "odd" or "end"
    text: str
    at: int
    end: int


@dataclass(frozen=True)
class _Operand:
    tree: Tree
    at: int  # where it begins in the text


def parse(
    text: str, features: Sequence[Feature], *, truth: bool = False, words: bool = False
) -> Tree:
    """The tree of a formula over the columns of some features.

    With `truth` it is a comparison, and with `words` levels may be compared with their names.
    """
    if len(text) > _LONGEST:
        raise KnowledgeError(
            f"a formula may have {_LONGEST:,} characters, got {len(text):,}: {text[:40]!r}..."
        )
    reader = _Reader(text, features, words)
    whole = reader.expression(0)
    token = reader.token
    if token.what != "end":
        reader.refuse(_say_unwanted(token, "an operator"), token.at)
    reader.want(whole, truth=truth, what="a region" if truth else "a formula")
    return whole.tree


class _Reader:
    """Precedence climbing over the tokens."""

    def __init__(self, text: str, features: Sequence[Feature], words: bool) -> None:
        self.text, self.words = text, words
        self.features = {feature.name: feature for feature in features}
        self.columns = {feature.name: column for column, feature in enumerate(features)}
        self.count = 0
        self.depth = 0
        self.token = self._next(0)

    def refuse(self, reason: str, at: int) -> NoReturn:
        """Say why a formula cannot be read, with the place marked."""
        raise FormulaError(reason, self.text, at)

    def expression(self, level: int) -> _Operand:
        """Everything that binds at least as tightly as `level`."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"a formula may be nested {DEEPEST} deep, this is deeper", self.token.at)
        left = self._prefix()
        while self.token.text in _LEVELS and _LEVELS[self.token.text] >= level:
            op = self._advance().text
            # ** groups from the right, the others from the left
            right = self.expression(_LEVELS[op] + (op != "**"))
            left = self._apply(op, left.at, left, right)
            if op in COMPARISONS and self.token.text in COMPARISONS:
                self.refuse("comparisons cannot be chained: write a < b and b < c", self.token.at)
        self.depth -= 1
        return left

    def want(self, operand: _Operand, *, truth: bool, what: str) -> None:
        """Refuse a truth where a number is due, and a number where a truth is."""
        found = operand.tree[0] in TRUTHS
        if found and not truth:
            self.refuse(
                f"{what} needs a number and this is a comparison; where(comparison, 1, 0) is one",
                operand.at,
            )
        if truth and not found:
            self.refuse(f"{what} needs a comparison and this is a number", operand.at)

    def _prefix(self) -> _Operand:
        token = self._advance()
        if token.text == "-":
            return self._apply("neg", token.at, self.expression(_SIGN))
        if token.text == "not":
            return self._apply("not", token.at, self.expression(_NOT))
        if token.text == "(":
            inner = self.expression(0)
            self._expect(")")
            return _Operand(inner.tree, token.at)
        if token.what == "number":
            return self._add(("number", self._number(token)), token.at)
        if token.what == "name" and token.text not in _LEVELS:
            return self._name(token)
        self.refuse(_say_unwanted(token, "a number or a feature"), token.at)

    def _name(self, token: _Token) -> _Operand:
        name = token.text
        called = self.token.text == "("
        if name.startswith("__"):
            self.refuse("names that begin with two underscores are not allowed", token.at)
        if name in FUNCTIONS:
            if not called:
                self.refuse(f"'{name}' is a function: write {name}(...)", token.at)
            return self._call(token)
        if called:
            self.refuse(unknown("function", name, FUNCTIONS), token.at)
        if name not in self.columns:
            self.refuse(unknown("feature", name, self.columns), token.at)
        if self.features[name].levels:
            return self._level(token)
        return self._add(("column", self.columns[name]), token.at)

    def _level(self, token: _Token) -> _Operand:
        """A level held against one of its names: its place in the list, as the column has it."""
        name, levels = token.text, self.features[token.text].levels
        if not self.words:
            self.refuse(f"feature '{name}' has levels; a formula needs numbers", token.at)
        op = self._advance()
        word = self._advance()
        if op.text not in ("==", "!=") or word.what != "word":
            self.refuse(f"a level is compared by its name: {name} == '{levels[0]}'", token.at)
        if word.text[1:-1] not in levels:
            self.refuse(unknown("level", word.text[1:-1], levels), word.at)
        column = self._add(("column", self.columns[name]), token.at)
        place = self._add(("number", float(levels.index(word.text[1:-1]))), word.at)
        return self._add((op.text, column.tree, place.tree), token.at)

    def _call(self, token: _Token) -> _Operand:
        self._expect("(")
        args = [self.expression(0)]
        while self.token.text == ",":
            self._advance()
            args.append(self.expression(0))
        self._expect(")")
        fewest, most = FUNCTIONS[token.text]
        if not fewest <= len(args) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} or more"
            self.refuse(f"{token.text} takes {wanted} values, got {len(args)}", token.at)
        if token.text == "interpolate":
            return self._interpolate(token, args)
        return self._apply(token.text, token.at, *args)

    def _interpolate(self, token: _Token, args: list[_Operand]) -> _Operand:
        """`interpolate(x, x0, y0, x1, y1, ...)`: lines from point to point, level beyond them."""
        self.want(args[0], truth=False, what="'interpolate'")
        numbers = []
        for operand in args[1:]:
            op, *parts = operand.tree
            sign = -1.0 if op == "neg" else 1.0
            op, *parts = parts[0] if op == "neg" else operand.tree
            if op != "number":
                self.refuse("a point of interpolate is two numbers, x and y", operand.at)
            numbers.append(sign * parts[0])
        points = list(zip(numbers[::2], numbers[1::2], strict=False))
        if len(numbers) % 2 or any(a[0] >= b[0] for a, b in itertools.pairwise(points)):
            self.refuse("interpolate takes x and then points, each with a larger x", token.at)
        return self._add(lines_between(args[0].tree, points), token.at)

    def _apply(self, op: str, at: int, *args: _Operand) -> _Operand:
        for place, operand in enumerate(args):
            truth = op in ("and", "or", "not") or (op == "where" and place == 0)
            self.want(operand, truth=truth, what="unary -" if op == "neg" else f"'{op}'")
        return self._add((op, *(operand.tree for operand in args)), at)

    def _add(self, tree: Tree, at: int) -> _Operand:
        self.count += 1
        if self.count > LARGEST_CONSTANT:
            self.refuse(f"a formula may have {LARGEST_CONSTANT} parts, this has more", at)
        return _Operand(tree, at)

    def _number(self, token: _Token) -> float:
        value = float(token.text)
        if value != 0 and not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
            self.refuse(
                f"a number must be 0 or lie in {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}", token.at
            )
        return value

    def _expect(self, sign: str) -> None:
        if self.token.text != sign:
            self.refuse(_say_unwanted(self.token, f"'{sign}'"), self.token.at)
        self._advance()

    def _advance(self) -> _Token:
        token = self.token
        self.token = self._next(token.end)
        return token

    def _next(self, start: int) -> _Token:
        space = _SPACE.match(self.text, start)
        at = space.end() if space else start
        if at >= len(self.text):
            return _Token("end", "", at, at)
        found = _TOKEN.match(self.text, at)
        if found is None or found.lastgroup is None:
            # refused only when it is its turn, so that the first fault is the one shown
            return _Token("odd", self.text[at], at, at + 1)
        spelling = "**" if found.group() == "^" else found.group()
        return _Token(found.lastgroup, spelling, at, found.end())


def _say_unwanted(token: _Token, due: str) -> str:
    if token.what == "odd":
        hint = f": {_HINTS[token.text]}" if token.text in _HINTS else ""
        return f"'{_show(token.text)}' has no meaning in a formula{hint}"
    if token.what == "end":
        return f"{due} is due here, the formula ends"
    if token.what == "word":
        return f"{token.text} has no meaning in a formula: only a level is compared with a word"
    if token.text == "," and due == "an operator":
        return "a comma only separates the values of a function; decimals have a point"
    return f"{due} is due here, found '{token.text}'"


def _mark(text: str, position: int) -> str:
    """The line of the fault, or the part of it around the fault, with a caret under the place."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    first, last = max(begin, position - 40), min(end, position + 40)
    before = ("..." if first > begin else "") + _show(text[first:position])
    after = _show(text[position:last]) + ("..." if last < end else "")
    return f"  {before}{after}\n  {' ' * len(before)}^"


def _show(text: str) -> str:
    """One visible character for each, so that the caret stands where it should."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def lines_between(x: Tree, points: Sequence[tuple[float, float]]) -> Tree:
    """The tree of lines from point to point, the x of which rise; beyond them it is level."""

    def between(some: Sequence[tuple[float, float]]) -> Tree:
        if len(some) > 2:  # halves, so that no tree is deep
            middle = len(some) // 2
            below = ("<", x, ("number", some[middle][0]))
            return ("where", below, between(some[: middle + 1]), between(some[middle:]))
        (x0, y0), (x1, y1) = some
        way = ("-", ("max", x, ("number", x0)), ("number", x0))
        return ("+", ("number", y0), ("*", way, ("number", (y1 - y0) / (x1 - x0))))

    last, level = points[-1]
    return ("where", ("<", x, ("number", last)), between(points), ("number", level))


def steps_of(tree: Tree) -> tuple[Step, ...]:
    """A tree as steps, its result last: equal parts share one, so nothing is computed twice."""
    return join_steps(tree)[0]


@lru_cache(maxsize=4096)
def join_steps(*trees: Tree) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """The steps of some trees in one list, equal ones shared, and where each tree ends."""
    places: dict[Step, int] = {}

    def place(part: Tree) -> int:
        op, *rest = part
        if op == "number":
            step = Step(op, value=rest[0])
        elif op == "column":
            step = Step(op, column=rest[0])
        else:
            step = Step(op, tuple(place(one) for one in rest))
        return places.setdefault(step, len(places))

    ends = tuple(place(tree) for tree in trees)
    return tuple(places), ends


def constant_of(tree: Tree) -> float | None:
    """The value of a plain number, signs included; None of any other formula."""
    if tree[0] == "neg":
        inner = constant_of(tree[1])
        return None if inner is None else -inner
    return float(tree[1]) if tree[0] == "number" else None


def numbers_in(tree: Tree) -> set[float]:
    """The numbers that stand in a formula: thresholds are among them."""
    return _leaves(tree, "number")


def columns_in(tree: Tree) -> set[int]:
    """The columns that a formula looks at."""
    return _leaves(tree, "column")


def _leaves(tree: Tree, kind: str) -> set[Any]:
    if tree[0] in ("number", "column"):
        return {tree[1]} if tree[0] == kind else set()
    return set().union(*(_leaves(part, kind) for part in tree[1:]))
