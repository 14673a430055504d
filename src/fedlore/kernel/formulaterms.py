"""Formulas as terms of a graph: how each operation of a tree must be computed there."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from .expressions import Tree
from .terms import DOUBLE, INT64, SINGLE, Needed, Term, Terms

_LARGEST = float(np.finfo(SINGLE).max)
_FARTHEST, _DEGREE = 26.0, 24  # of the normal distribution's polynomial
_BINARY = {"+": "Add", "-": "Sub", "*": "Mul"}
_COMPARE = {  # when a comparison is true, and when it is false
    "<": (("Less",), ("GreaterOrEqual",)),
    "<=": (("LessOrEqual",), ("Greater",)),
    ">": (("Greater",), ("LessOrEqual",)),
    ">=": (("GreaterOrEqual",), ("Less",)),
    "==": (("Equal",), ("Less", "Greater")),
    "!=": (("Less", "Greater"), ("Equal",)),
}
Pair = tuple[Needed, Needed]  # where a truth is true, and where it is false


class Formulas:
    """Trees over rows x as terms; equal parts are one."""

    def __init__(self, terms: Terms, x: Needed) -> None:
        self.terms, self.x = terms, x
        self._known: dict[Tree, Any] = {}

    def number(self, tree: Tree) -> Needed:
        """The value of a formula, (n, 1), NaN where it is undefined."""
        t = self.terms
        first = t.op("Gather", self.x, t.constant([0], INT64), axis=1)
        rows = t.op("Expand", self._number(tree), t.op("Shape", first))
        return t.op("Where", self.finite(rows), rows, t.constant(math.nan))

    def finite(self, value: Needed) -> Term:
        t = self.terms
        return t.op("LessOrEqual", t.op("Abs", value), t.constant(_LARGEST))

    def _number(self, tree: Tree) -> Any:
        if tree in self._known:
            return self._known[tree]
        op, *parts = tree
        args = [] if op in ("number", "column") else list(map(self._number, parts))
        self._known[tree] = made = self._make(op, parts, args)
        return made

    def _make(self, op: str, parts: list[Any], args: list[Any]) -> Any:
        t = self.terms
        if op == "number":
            return t.constant([[parts[0]]])
        if op == "column":
            return t.op("Gather", self.x, t.constant([parts[0]], INT64), axis=1)
        if op == "**" and parts[1][0] == "number":
            return self._power(args[0], parts[1][1])
        if op in _COMPARE:
            return self._compare(op, *args)
        if op in ("and", "or", "not"):
            return self._logic(op, args)
        if op == "where":
            (true, false), yes, no = args
            return t.op("Where", true, yes, t.op("Where", false, no, t.constant(math.nan)))
        return self._apply(op, args)

    def _apply(self, op: str, args: list[Needed]) -> Needed:
        t = self.terms
        if op in _BINARY:
            return t.op(_BINARY[op], *args)
        if op in ("neg", "abs", "sqrt"):
            return t.op(op.capitalize(), *args)
        if op == "/":
            return self._guard(t.op("Div", *args), args[1])
        if op == "exp":
            return self._guard(self._precise("Exp", *args), *args)
        if op == "log":
            return self._precise("Log", *args)
        if op == "log10":
            wide = t.op("Log", t.cast(args[0], DOUBLE))
            return t.cast(t.op("Div", wide, t.constant(math.log(10), DOUBLE)), SINGLE)
        if op in ("min", "max"):
            return self._guard(t.op(op.capitalize(), *args), *args)
        if op == "**":
            return self._guard(self._precise("Pow", *args), *args)
        raise KnowledgeError(f"a formula has '{op}', which no graph computes")

    def _logic(self, op: str, args: list[Pair]) -> Pair:
        """Logic of three values: a truth is what is true and what is false."""
        t = self.terms
        if op == "not":
            return args[0][1], args[0][0]
        (a, not_a), (b, not_b) = args
        one, other = ("And", "Or") if op == "and" else ("Or", "And")
        return t.op(one, a, b), t.op(other, not_a, not_b)

    def _compare(self, op: str, a: Needed, b: Needed) -> Pair:
        t = self.terms
        known = t.op("And", self.finite(a), self.finite(b))
        found = []
        for kinds in _COMPARE[op]:
            truths = [t.op(kind, a, b) for kind in kinds]
            truth = truths[0] if len(truths) == 1 else t.op("Or", *truths)
            found.append(t.op("And", truth, known))
        return found[0], found[1]

    def _power(self, base: Needed, exponent: float) -> Needed:
        t = self.terms
        if exponent == 2.0:
            made: Needed = t.op("Mul", base, base)
        elif exponent == 3.0:
            made = t.op("Mul", t.op("Mul", base, base), base)
        elif exponent == 0.5:
            made = t.op("Sqrt", base)
        elif exponent == 1.0:
            made = base
        else:
            made = self._precise("Pow", base, t.constant([[exponent]]))
        return self._guard(made, base)

    def _precise(self, kind: str, *args: Needed) -> Needed:
        """In double precision, rounded once."""
        t = self.terms
        return t.cast(t.op(kind, *[t.cast(arg, DOUBLE) for arg in args]), SINGLE)

    def _guard(self, result: Needed, *args: Needed) -> Needed:
        for arg in args:
            result = self.terms.op("Where", self.finite(arg), result, self.terms.constant(math.nan))
        return result

    def grade(self, value: Needed, edges: Sequence[float]) -> Needed:
        t = self.terms
        beyond = t.op("GreaterOrEqual", value, t.constant([list(edges)]))
        return t.op("ReduceSum", t.cast(beyond, INT64), t.constant([1], INT64), keepdims=1)

    def one_hot(self, tree: Tree, edges: Sequence[float]) -> Needed:
        """The class of a formula's value."""
        t, value = self.terms, self.number(tree)
        grades = t.constant([list(range(len(edges) + 1))], INT64)
        here = t.op("Equal", self.grade(value, edges), grades)
        return t.cast(t.op("And", here, self.finite(value)), SINGLE)

    def blur(self, tree: Tree, edges: Sequence[float], spread: float) -> Needed:
        """The classes of a formula's value with a normal error."""
        t, value = self.terms, self.number(tree)
        away = t.op("Sub", t.constant([list(edges)], DOUBLE), t.cast(value, DOUBLE))
        below = self._normal(t.op("Div", away, t.constant(spread * math.sqrt(2.0), DOUBLE)))
        shape = t.op("Shape", value)
        none, whole = (t.op("Expand", t.constant([[v]], DOUBLE), shape) for v in (0.0, 1.0))
        upper, lower = t.op("Concat", below, whole, axis=1), t.op("Concat", none, below, axis=1)
        rows = t.cast(t.op("Sub", upper, lower), SINGLE)
        return t.op("Where", self.finite(value), rows, t.constant(0.0))

    def _normal(self, z: Needed) -> Needed:
        """(1 + erf z) / 2 by the polynomial that stands in for erfc."""
        t = self.terms

        def number(value: float) -> Needed:
            return t.constant(value, DOUBLE)

        size = t.op("Min", t.op("Abs", z), number(_FARTHEST))
        part = t.op("Div", number(2.0), t.op("Add", number(2.0), size))
        lowest = 2.0 / (2.0 + _FARTHEST)
        middle, half = (1 + lowest) / 2, (1 - lowest) / 2

        def sought(s: float) -> float:
            at = middle + half * s
            far = max(2.0 / at - 2.0, 0.0)
            return math.log(math.erfc(far) / at) + far * far

        fitted = np.polynomial.chebyshev.chebinterpolate(np.vectorize(sought), _DEGREE)
        powers = np.polynomial.chebyshev.cheb2poly(fitted).tolist()
        s = t.op("Div", t.op("Sub", part, number(middle)), number(half))
        p = number(powers[-1])
        for power in powers[-2::-1]:
            p = t.op("Add", t.op("Mul", p, s), number(power))
        tail = t.op("Mul", part, t.op("Exp", t.op("Sub", p, t.op("Mul", size, size))))
        erf = t.op("Sub", number(1.0), tail)
        above = t.op("Greater", z, number(0.0))
        whole = t.op("Add", number(1.0), t.op("Where", above, erf, t.op("Neg", erf)))
        return t.op("Mul", whole, number(0.5))

    def between(
        self,
        lower: Tree | None,
        upper: Tree | None,
        edges: Sequence[float],
        refuse: bool,
        whole: Needed | None = None,
    ) -> tuple[Needed, Needed | None]:
        """All classes that meet [lower, upper], and where the two cross.

        Rows that are not `whole` are not limited at all, where that matters.
        """
        t = self.terms
        low, high = (
            None if tree is None else self._limit(tree, far, whole)
            for tree, far in ((lower, -math.inf), (upper, math.inf))
        )
        refused: Needed | None = None
        if low is not None and high is not None:
            low, high, far = self._uncross(low, high)
            refused = far if refuse else None
        grades = t.constant([list(range(len(edges) + 1))], INT64)
        parts: list[Needed] = []
        if low is not None:
            parts.append(t.op("LessOrEqual", self.grade(low, edges), grades))
        if high is not None:
            parts.append(t.op("GreaterOrEqual", self.grade(high, edges), grades))
        return (parts[0] if len(parts) == 1 else t.op("And", *parts)), refused

    def _limit(self, tree: Tree, far: float, whole: Needed | None) -> Needed:
        value = self.number(tree)
        known = self.finite(value)
        if whole is not None:
            known = self.terms.op("And", known, whole)
        return self.terms.op("Where", known, value, self.terms.constant(far))

    def _uncross(self, low: Needed, high: Needed) -> tuple[Needed, Needed, Needed]:
        t = self.terms
        size = t.op("Max", t.op("Abs", low), t.op("Abs", high))
        near = t.op("Mul", t.constant(float(np.finfo(SINGLE).eps) * 16), size)
        apart = t.op("Greater", t.op("Sub", low, high), near)
        far = t.op("And", t.op("Greater", low, high), apart)
        least = t.op("Where", far, t.constant(-math.inf), t.op("Min", low, high))
        most = t.op("Where", far, t.constant(math.inf), t.op("Max", low, high))
        return least, most, far
