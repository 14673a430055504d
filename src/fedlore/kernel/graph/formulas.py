"""Formulas as nodes, in single precision, and cut into classes.

+ - * / and square roots are rounded alike everywhere. Logarithms, exponentials and other powers go
through double precision and are rounded once.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from ...errors import KnowledgeError
from ..expressions import Tree
from ..sources import Grades, Limits, Prediction
from .ops import DOUBLE, INT64, SINGLE, Answer, Ops, Value

_FARTHEST = 26.0  # beyond it the tail of the normal distribution is below 1e-290
_DEGREE = 24
_NEAR = float(np.finfo(SINGLE).eps) * 16  # by which rounding may make two ends cross
_PLAIN = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "neg": "Neg", "abs": "Abs"}
_PLAIN |= {"sqrt": "Sqrt", "min": "Min", "max": "Max"}
_PRECISE = {"exp": "Exp", "log": "Log", "**": "Pow"}
_GUARDED = {"/": 1, "exp": 0, "min": 0, "max": 0, "**": 0}  # from which argument on
_COMPARE = {  # when a comparison is true, and when it is false
    "<": (("Less",), ("GreaterOrEqual",)),
    "<=": (("LessOrEqual",), ("Greater",)),
    ">": (("Greater",), ("LessOrEqual",)),
    ">=": (("GreaterOrEqual",), ("Less",)),
    "==": (("Equal",), ("Less", "Greater")),
    "!=": (("Less", "Greater"), ("Equal",)),
}
Pair = tuple[Value, Value]  # where a truth is true, and where it is false


class Formulas:
    """Formulas over rows x, float32 (n, d); equal parts are one."""

    def __init__(self, o: Ops, x: Value) -> None:
        self.o, self.x = o, x
        self._known: dict[Tree, Any] = {}

    def value(self, tree: Tree) -> Value:
        """The value of a formula, (n, 1), NaN where it is undefined."""
        o = self.o
        # a formula of numbers only still answers for every row
        shape = o.op("Shape", o.columns(self.x, [0]))
        rows = o.op("Expand", self._part(tree), shape)
        return o.where(o.finite(rows), rows, math.nan)

    def _part(self, tree: Tree) -> Any:
        if tree in self._known:
            return self._known[tree]
        op, *parts = tree
        args = [] if op in ("number", "column") else list(map(self._part, parts))
        self._known[tree] = made = self._make(op, parts, args)
        return made

    def _make(self, op: str, parts: list[Any], args: list[Any]) -> Any:
        o = self.o
        if op == "number":
            return o.constant([[parts[0]]])
        if op == "column":
            return o.columns(self.x, [parts[0]])
        if op == "**" and parts[1][0] == "number":
            return self._power(args[0], parts[1][1])
        if op in _COMPARE:
            return self._compare(op, *args)
        if op in ("and", "or", "not"):
            return self._logic(op, args)
        if op == "where":
            (true, false), yes, no = args
            return o.where(true, yes, o.where(false, no, math.nan))
        return self._apply(op, args)

    def _apply(self, op: str, args: list[Value]) -> Value:
        o = self.o
        if op in _PLAIN:
            made = o.op(_PLAIN[op], *args)
        elif op in _PRECISE:
            made = self._precise(_PRECISE[op], *args)
        elif op == "log10":
            return o.cast(o.op("Log", o.cast(args[0], DOUBLE)) / math.log(10), SINGLE)
        else:
            raise KnowledgeError(f"a formula has '{op}', which no graph computes")
        return self._guard(made, *(args[_GUARDED[op] :] if op in _GUARDED else ()))

    def _logic(self, op: str, args: list[Pair]) -> Pair:
        """Logic of three values: a truth is what is true and what is false; else undefined."""
        if op == "not":
            return args[0][1], args[0][0]
        (a, not_a), (b, not_b) = args
        one, other = ("And", "Or") if op == "and" else ("Or", "And")
        return self.o.op(one, a, b), self.o.op(other, not_a, not_b)

    def _compare(self, op: str, a: Value, b: Value) -> Pair:
        o = self.o
        known = o.finite(a) & o.finite(b)
        found = []
        for kinds in _COMPARE[op]:
            truths = [o.op(kind, a, b) for kind in kinds]
            found.append(o.either(*truths) & known)
        return found[0], found[1]

    def _power(self, base: Value, exponent: float) -> Value:
        """A fixed power; small ones by multiplication, as torch has them."""
        o = self.o
        if exponent == 2.0:
            made = base * base
        elif exponent == 3.0:
            made = base * base * base
        elif exponent == 0.5:
            made = o.op("Sqrt", base)
        elif exponent == 1.0:
            made = base
        else:
            made = self._precise("Pow", base, o.constant([[exponent]]))
        return self._guard(made, base)

    def _precise(self, kind: str, *args: Value) -> Value:
        """In double precision, rounded once."""
        o = self.o
        return o.cast(o.op(kind, *[o.cast(arg, DOUBLE) for arg in args]), SINGLE)

    def _guard(self, result: Value, *args: Value) -> Value:
        """The result, NaN where an argument is not finite: 1/inf and min would hide it."""
        for arg in args:
            result = self.o.where(self.o.finite(arg), result, math.nan)
        return result


def answer_graded(formulas: Formulas, source: Prediction) -> Answer:
    """The class of a formula's value, or with a spread the classes of a normal around it."""
    o, value = formulas.o, formulas.value(source.tree)
    if source.spread is None:
        here = o.equal(_grade(o, value, source.cells), _grades(o, source.cells))
        return Answer(o.cast(here & o.finite(value), SINGLE))
    away = o.constant([list(source.cells.written)], DOUBLE) - o.cast(value, DOUBLE)
    below = normal_below(o, away / (source.spread * math.sqrt(2.0)))  # (n, k - 1)
    shape = o.op("Shape", value)
    none, whole = (o.op("Expand", o.constant([[v]], DOUBLE), shape) for v in (0.0, 1.0))
    rows = o.cast(o.concat(below, whole) - o.concat(none, below), SINGLE)
    return Answer(o.where(o.finite(value), rows, 0.0))


def answer_limits(formulas: Formulas, source: Limits, lacking: Value | None) -> Answer:
    """All classes that meet [lower, upper].

    Where the ends may cross, rows that lack a value are not limited: with it they might.
    """
    o, ends = formulas.o, list[Any]()
    for tree, far in ((source.lower, -math.inf), (source.upper, math.inf)):
        if tree is not None:
            value = formulas.value(tree)
            known = o.finite(value) if lacking is None else o.finite(value) & ~lacking
            ends.append(o.where(known, value, far))
    refused, grades = None, _grades(o, source.cells)
    if len(ends) == 2:
        low, high, crossed = _uncross(o, *ends)
        ends, refused = [low, high], crossed if source.crossed == "error" else None
    first, last = (_grade(o, ends[at], source.cells) for at in (0, -1))
    if source.upper is None:
        return Answer(first <= grades)
    rows = last >= grades
    return Answer(rows if source.lower is None else (first <= grades) & rows, refused)


def _uncross(o: Ops, low: Value, high: Value) -> tuple[Value, Value, Value]:
    """Ends in order, and where they cross by more than rounding: there they do not limit."""
    size = o.larger(abs(low), abs(high))
    far = (low > high) & (low - high > _NEAR * size)
    least = o.where(far, -math.inf, o.smaller(low, high))
    return least, o.where(far, math.inf, o.larger(low, high)), far


def _grade(o: Ops, value: Value, cells: Grades) -> Value:
    """The class of each number, (n, 1): one on an edge belongs to the class above."""
    return o.total(o.cast(value >= o.constant(cells.edges[None]), INT64))


def _grades(o: Ops, cells: Grades) -> Value:
    return o.constant([list(range(cells.k))], INT64)


@cache
def _tail() -> tuple[tuple[float, ...], float, float]:
    """Powers of the polynomial P below, and middle and half width of its t."""
    lowest = 2.0 / (2.0 + _FARTHEST)
    middle, half = (1 + lowest) / 2, (1 - lowest) / 2

    def sought(s: float) -> float:
        at = middle + half * s
        far = max(2.0 / at - 2.0, 0.0)
        return math.log(math.erfc(far) / at) + far * far

    fitted = np.polynomial.chebyshev.chebinterpolate(np.vectorize(sought), _DEGREE)
    return tuple(np.polynomial.chebyshev.cheb2poly(fitted).tolist()), middle, half


def normal_below(o: Ops, z: Value) -> Value:
    """(1 + erf z) / 2 in double precision; runtimes have erf in single precision only.

    For z >= 0 erfc z is t·exp(P(t) - z²) with t = 2 / (2 + z) and a polynomial P.
    """

    powers, middle, half = _tail()
    size = o.smaller(abs(z), _FARTHEST)
    t = 2.0 / (2.0 + size)
    s = (t - middle) / half
    p = o.constant(powers[-1], DOUBLE)
    for power in powers[-2::-1]:
        p = p * s + power
    erf = 1.0 - t * o.op("Exp", p - size * size)
    # 1 - (1 - tail), as torch has it: a tail below 1e-16 is 0, and does not leave a range
    return (1.0 + o.where(z > 0.0, erf, -erf)) * 0.5
