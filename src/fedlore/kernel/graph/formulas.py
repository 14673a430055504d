"""Formulas as nodes, in single precision, and cut into classes.

+ - * / and square roots are rounded alike everywhere. Logarithms, exponentials and other powers go
through double precision and are rounded once.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...errors import KnowledgeError
from ..expressions import Tree
from ..sources import Graded, Limits
from .ops import DOUBLE, INT64, SINGLE, Answer, Ops, Value

_FARTHEST = 26.0  # beyond it the tail of the normal distribution is below 1e-290
_DEGREE = 24
_NEAR = float(np.finfo(SINGLE).eps) * 16  # by which rounding may make two ends cross
_BINARY = {"+": "Add", "-": "Sub", "*": "Mul"}
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
        return o.op("Where", o.finite(rows), rows, o.constant(math.nan))

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
            return o.op("Where", true, yes, o.op("Where", false, no, o.constant(math.nan)))
        return self._apply(op, args)

    def _apply(self, op: str, args: list[Value]) -> Value:
        o = self.o
        if op in _BINARY:
            return o.op(_BINARY[op], *args)
        if op in ("neg", "abs", "sqrt"):
            return o.op(op.capitalize(), *args)
        if op == "/":
            return self._guard(o.op("Div", *args), args[1])
        if op == "exp":
            return self._guard(self._precise("Exp", *args), *args)
        if op == "log":
            return self._precise("Log", *args)
        if op == "log10":
            wide = o.op("Log", o.cast(args[0], DOUBLE))
            return o.cast(o.op("Div", wide, o.constant(math.log(10), DOUBLE)), SINGLE)
        if op in ("min", "max"):
            return self._guard(o.op(op.capitalize(), *args), *args)
        if op == "**":
            return self._guard(self._precise("Pow", *args), *args)
        raise KnowledgeError(f"a formula has '{op}', which no graph computes")

    def _logic(self, op: str, args: list[Pair]) -> Pair:
        """Logic of three values: a truth is what is true and what is false; else undefined."""
        if op == "not":
            return args[0][1], args[0][0]
        (a, not_a), (b, not_b) = args
        one, other = ("And", "Or") if op == "and" else ("Or", "And")
        return self.o.op(one, a, b), self.o.op(other, not_a, not_b)

    def _compare(self, op: str, a: Value, b: Value) -> Pair:
        o = self.o
        known = o.op("And", o.finite(a), o.finite(b))
        found = []
        for kinds in _COMPARE[op]:
            truths = [o.op(kind, a, b) for kind in kinds]
            truth = truths[0] if len(truths) == 1 else o.op("Or", *truths)
            found.append(o.op("And", truth, known))
        return found[0], found[1]

    def _power(self, base: Value, exponent: float) -> Value:
        """A fixed power; small ones by multiplication, as torch has them."""
        o = self.o
        if exponent == 2.0:
            made = o.op("Mul", base, base)
        elif exponent == 3.0:
            made = o.op("Mul", o.op("Mul", base, base), base)
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
            result = self.o.op("Where", self.o.finite(arg), result, self.o.constant(math.nan))
        return result


def answer_graded(formulas: Formulas, source: Graded) -> Answer:
    """The class of a formula's value, or with a spread the classes of a normal around it."""
    o, value = formulas.o, formulas.value(source.tree)
    if source.spread is None:
        here = o.op("Equal", _grade(o, value, source.edges), _grades(o, source.edges))
        return Answer(o.cast(o.op("And", here, o.finite(value)), SINGLE))
    away = o.op("Sub", o.constant([list(source.written)], DOUBLE), o.cast(value, DOUBLE))
    scale = o.constant(source.spread * math.sqrt(2.0), DOUBLE)
    below = normal_below(o, o.op("Div", away, scale))  # (n, k - 1)
    shape = o.op("Shape", value)
    none, whole = (o.op("Expand", o.constant([[v]], DOUBLE), shape) for v in (0.0, 1.0))
    upper, lower = o.op("Concat", below, whole, axis=1), o.op("Concat", none, below, axis=1)
    rows = o.cast(o.op("Sub", upper, lower), SINGLE)
    return Answer(o.op("Where", o.finite(value), rows, o.constant(0.0)))


def answer_limits(formulas: Formulas, source: Limits, lacking: Value | None) -> Answer:
    """All classes that meet [lower, upper].

    Where the ends may cross, rows that lack a value are not limited: with it they might.
    """
    o = formulas.o
    whole = None if lacking is None else o.op("Not", lacking)
    ends: list[Value | None] = []
    for tree, far in ((source.lower, -math.inf), (source.upper, math.inf)):
        if tree is None:
            ends.append(None)
            continue
        value = formulas.value(tree)
        known = o.finite(value)
        known = known if whole is None else o.op("And", known, whole)
        ends.append(o.op("Where", known, value, o.constant(far)))
    low, high = ends
    refused = None
    if low is not None and high is not None:
        low, high, crossed = _uncross(o, low, high)
        refused = crossed if source.crossed == "error" else None
    parts = []
    for end, kind in ((low, "LessOrEqual"), (high, "GreaterOrEqual")):
        if end is not None:
            parts.append(o.op(kind, _grade(o, end, source.edges), _grades(o, source.edges)))
    return Answer(parts[0] if len(parts) == 1 else o.op("And", *parts), refused)


def _uncross(o: Ops, low: Value, high: Value) -> tuple[Value, Value, Value]:
    """Ends in order, and where they cross by more than rounding: there they do not limit."""
    size = o.op("Max", o.op("Abs", low), o.op("Abs", high))
    apart = o.op("Greater", o.op("Sub", low, high), o.op("Mul", o.constant(_NEAR), size))
    far = o.op("And", o.op("Greater", low, high), apart)
    least = o.op("Where", far, o.constant(-math.inf), o.op("Min", low, high))
    most = o.op("Where", far, o.constant(math.inf), o.op("Max", low, high))
    return least, most, far


def _grade(o: Ops, value: Value, edges: Sequence[float]) -> Value:
    """The class of each number, (n, 1): one on an edge belongs to the class above."""
    beyond = o.op("GreaterOrEqual", value, o.constant([list(edges)]))
    return o.op("ReduceSum", o.cast(beyond, INT64), o.constant([1], INT64), keepdims=1)


def _grades(o: Ops, edges: Sequence[float]) -> Value:
    return o.constant([list(range(len(edges) + 1))], INT64)


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

    def number(value: float) -> Value:
        return o.constant(value, DOUBLE)

    powers, middle, half = _tail()
    size = o.op("Min", o.op("Abs", z), number(_FARTHEST))
    t = o.op("Div", number(2.0), o.op("Add", number(2.0), size))
    s = o.op("Div", o.op("Sub", t, number(middle)), number(half))
    p = number(powers[-1])
    for power in powers[-2::-1]:
        p = o.op("Add", o.op("Mul", p, s), number(power))
    tail = o.op("Mul", t, o.op("Exp", o.op("Sub", p, o.op("Mul", size, size))))
    erf = o.op("Sub", number(1.0), tail)
    above = o.op("Greater", z, number(0.0))
    # 1 - (1 - tail), as torch has it: a tail below 1e-16 is 0, and does not leave a range
    whole = o.op("Add", number(1.0), o.op("Where", above, erf, o.op("Neg", erf)))
    return o.op("Mul", whole, number(0.5))
