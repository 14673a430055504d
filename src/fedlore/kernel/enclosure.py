"""What formulas can be over whole boxes of rows, and which of two is the larger one.

Conditions narrow what follows from them: inside `where(x > 0, log(x), 0)` the logarithm sees only
x > 0. A condition narrows every part it names, so `where(a + b > 0, log(a + b), 0)` works as well.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from .expressions import COMPARISONS, Step, Tree, join_steps
from .intervals import (
    Arithmetic,
    Array,
    Interval,
    Truth,
    choose_interval,
    compare_intervals,
    conjunction,
    meet,
    negation,
)

_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_Known = Mapping[int, Interval]  # what conditions say about steps

# how far min and max are taken apart: each level multiplies the work by their arguments
_DEEPEST, _WIDEST = 3, 6
_LONGEST = 8  # sums and products inside one another that are looked through
_ONE = -1  # the part of a sum that is a plain number
_Sum = Mapping[int, Fraction]  # part -> its weight


class Boxes:
    """Boxes with corners (b, d), and what formulas can be in each; no formula is bounded twice."""

    def __init__(self, low: Array, high: Array, arithmetic: Arithmetic | None = None) -> None:
        self.low, self.high = low, high
        self.arithmetic = arithmetic or Arithmetic()
        self.seen: dict[int, Any] = {}  # what tables found in these boxes
        self._known: dict[Tree, Interval] = {}

    def __len__(self) -> int:
        return len(self.low)

    def interval(self, tree: Tree) -> Interval:
        """What a formula can be."""
        if tree not in self._known:
            steps, (root,) = join_steps(tree)
            self._known[tree] = self.enclose(steps).number(root)
        return self._known[tree]

    def bounds(self, tree: Tree) -> tuple[Array, Array]:
        """The least and the greatest value that is computed, (b,) each; NaN where there is none."""
        found = self.interval(tree)
        return found.low, found.high

    def enclose(self, steps: tuple[Step, ...]) -> "Enclosure":
        return Enclosure(steps, self.low, self.high, self.arithmetic)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Steps to be enclosed over boxes."""

    steps: tuple[Step, ...]
    low: Array  # (b, d)
    high: Array  # (b, d)
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def number(self, root: int) -> Interval:
        """What a numeric step can be."""
        return self.numbers(root)[root]

    def numbers(self, root: int) -> Mapping[int, Interval]:
        """What a step can be, and every number that it is computed from unconditionally."""
        with np.errstate(all="ignore"):
            return self._look(root, {}).numbers

    def _look(self, root: int, known: _Known) -> "_View":
        """All that `root` needs, given what is known; no part of a formula is looked at twice."""
        view = _View(known, {}, {}, {}, {})
        for place in self._needed(root):
            step = self.steps[place]
            if step.op in COMPARISONS:
                left, right = (view.numbers[arg] for arg in step.args)
                view.truths[place] = compare_intervals(step.op, left, right)
            elif step.op == "not":
                view.truths[place] = negation(view.truths[step.args[0]])
            elif step.op in ("and", "or"):
                view.truths[place] = self._junction(place, view)
            else:
                value = self._value(step, view)
                view.numbers[place] = meet(value, known[place]) if place in known else value
        return view

    def _needed(self, root: int) -> list[int]:
        """The steps below `root`, less those that are looked at under a condition."""
        found, waiting = set(), [root]
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                step = self.steps[place]
                guarded = step.op in ("where", "and", "or")
                waiting.extend(step.args[:1] if guarded else step.args)
        return sorted(found)

    def _value(self, step: Step, view: "_View") -> Interval:
        if step.op == "number":
            return self.arithmetic.constant(step.value, len(self.low))
        if step.op == "column":
            return self.arithmetic.column(self.low[:, step.column], self.high[:, step.column])
        if step.op == "where":
            condition, yes, no = step.args
            return choose_interval(
                view.truths[condition],
                self._look(yes, self._suppose(condition, True, view)).numbers[yes],
                self._look(no, self._suppose(condition, False, view)).numbers[no],
            )
        if step.op == "**" and self.steps[step.args[1]].op == "number":
            base, exponent = view.numbers[step.args[0]], self.steps[step.args[1]].value
            if exponent == 2.0:
                return self.arithmetic.square(base)  # computed as one product
            # a runtime takes it as it is written, or rounded
            return self.arithmetic.power(base, self.arithmetic.written(exponent, len(self.low)))
        return self.arithmetic.apply(step.op, *[view.numbers[arg] for arg in step.args])

    def _junction(self, place: int, view: "_View") -> Truth:
        """`and` and `or`; the right side matters only where the left one does not settle it."""
        first, second = self.steps[place].args
        left = view.truths[first]
        all_of = self.steps[place].op == "and"
        known = view.known
        if not left.undefined.any():
            known = self._suppose(first, all_of, view)
        view.right[place] = self._look(second, known)
        right = view.right[place].truths[second]
        if all_of:
            return conjunction(left, right)
        return negation(conjunction(negation(left), negation(right)))

    def _suppose(self, place: int, holds: bool, view: "_View") -> _Known:
        """What is known once the truth at `place` is settled to be true, or to be false."""
        if (place, holds) not in view.supposed:
            view.supposed[place, holds] = self._follows(place, holds, view)
        return view.supposed[place, holds]

    def _follows(self, place: int, holds: bool, view: "_View") -> _Known:
        step = self.steps[place]
        if step.op == "not":
            return self._suppose(step.args[0], not holds, view)
        if step.op == ("and" if holds else "or"):
            first, second = step.args
            known = self._suppose(first, holds, view)
            return {**known, **self._suppose(second, holds, view.right[place])}
        if step.op not in COMPARISONS:
            return view.known
        left, right = step.args
        op = step.op if holds else _OPPOSITE[step.op]
        a, b = self._narrow(op, view.numbers[left], view.numbers[right])
        return {**view.known, left: a, right: b}

    def _narrow(self, op: str, a: Interval, b: Interval) -> tuple[Interval, Interval]:
        """What is left of two intervals where `a op b` is true."""
        if op in (">", ">="):
            b, a = self._narrow({">": "<", ">=": "<="}[op], b, a)
            return a, b
        if op == "==":
            return meet(a, b), meet(b, a)
        if op == "!=":
            return self._without(a, b), self._without(b, a)
        strict = op == "<"
        next_down, next_up = self.arithmetic.below, self.arithmetic.above
        most = replace(b, high=next_down(b.high) if strict else b.high, low=_far_end(b, -1))
        least = replace(a, low=next_up(a.low) if strict else a.low, high=_far_end(a, 1))
        return meet(a, most), meet(b, least)

    def _without(self, a: Interval, b: Interval) -> Interval:
        """`a` less the only value of `b`, where it has one at an end of `a`."""
        point = b.low == b.high
        low = np.where(point & (a.low == b.low), self.arithmetic.above(a.low), a.low)
        high = np.where(point & (a.high == b.low), self.arithmetic.below(a.high), a.high)
        return meet(a, Interval(low, high, a.undefined))


@dataclass(frozen=True, eq=False)
class _View:
    """The steps as they look under some conditions."""

    known: _Known
    numbers: dict[int, Interval]
    truths: dict[int, Truth]
    right: dict[int, "_View"]  # of each `and` and `or`: the view its right side was seen in
    supposed: dict[tuple[int, bool], _Known]  # what follows from a truth, once worked out


def _far_end(a: Interval, sign: int) -> Array:
    """An infinite end, but NaN where there is no value at all."""
    return np.where(np.isnan(a.low), np.nan, sign * math.inf)


def never_above(small: Tree, large: Tree, boxes: Boxes, edges: Array | None = None) -> Array:
    """In which boxes one formula never exceeds another where both have a value, (b,) bool.

    With `edges` it is enough that it never exceeds the other by a whole class.
    """
    steps, (one, other) = join_steps(small, large)
    with np.errstate(all="ignore"):
        return _order(boxes.enclose(steps), one, other, edges)


def _order(over: Enclosure, small: int, large: int, edges: Array | None, depth: int = 0) -> Array:
    """The structure helps: small <= min(a, b) needs both, small <= max(a, b) either."""
    if small == large:
        return np.ones(len(over.low), bool)
    sure = _least_gap(over, small, large) >= 0
    a, b = over.number(small), over.number(large)
    sure |= (a.high <= b.low) | np.isnan(a.low) | np.isnan(b.low)
    if edges is not None:
        sure |= grade(a.high, edges) <= grade(b.low, edges)
    if depth == _DEEPEST or bool(sure.all()):
        return sure
    for place, is_large in ((large, True), (small, False)):
        step = over.steps[place]
        if step.op in ("min", "max") and len(step.args) <= _WIDEST:
            pairs = [(small, arg) if is_large else (arg, large) for arg in step.args]
            parts = [_order(over, *pair, edges, depth + 1) for pair in pairs]
            needs_all = (step.op == "min") == is_large
            sure |= np.all(parts, axis=0) if needs_all else np.any(parts, axis=0)
    return sure | _keeps_order(over, small, large)


def grade(values: Array, edges: Array) -> Array:
    """The class of each number; one on an edge belongs to the class above it."""
    return np.searchsorted(
        np.asarray(edges, np.float64), np.asarray(values, np.float64), side="right"
    )


def _least_gap(over: Enclosure, small: int, large: int) -> Array:
    """How much step `large` exceeds step `small` at least where both are defined, (b,).

    What both share is taken out before it is bounded: `dulong + 1.2 - dulong` is 1.2, however wide
    `dulong` itself is. Equal steps are computed to equal numbers; around them each formula is a
    weighted sum with exact weights, off by what rounding adds at most. Nothing is left out for
    being small: a small weight may stand before a large number.
    """
    numbers = {**over.numbers(small), **over.numbers(large)}
    (total, error), (taken, more) = (_sum(over, place, numbers) for place in (large, small))
    total = _plus(total, taken, -1)
    least, size = np.zeros_like(error), np.zeros_like(error)
    for part, weight in total.items():
        if weight == 0:
            continue
        if part == _ONE:
            found = np.full_like(error, float(weight))
        else:
            value, factor = numbers[part], float(weight)
            found = np.minimum(value.low * factor, value.high * factor)
        least, size = least + found, size + np.abs(found)
    # this sum is itself computed, in double precision
    gap = least - size * 2.0**-44 - error - more
    return np.where(np.isnan(gap), -np.inf, gap)


def _keeps_order(over: Enclosure, small: int, large: int) -> Array:
    """In which boxes one step never exceeds another because rounding keeps the order, (b,) bool.

    a + b <= c + d where a <= c and b <= d, whatever is rounded; likewise for - and *.
    """
    numbers = {**over.numbers(small), **over.numbers(large)}
    known: dict[tuple[int, int], Array] = {}

    def below(one: int, other: int, depth: int) -> Array:
        if one == other or not depth:
            return np.full(len(over.low), one == other)
        if (one, other) not in known:
            known[one, other] = compare(one, other, depth - 1)
        return known[one, other]

    def compare(one: int, other: int, depth: int) -> Array:
        sure = numbers[one].high <= numbers[other].low
        a, b = over.steps[one], over.steps[other]
        if a.op == b.op and a.op in ("+", "*", "-"):
            (p, q), (r, s) = a.args, b.args
            pairs = below(p, r, depth)
            pairs = pairs & (below(s, q, depth) if a.op == "-" else below(q, s, depth))
            if a.op == "*":  # of numbers that are not negative, but for those that are the same
                pairs = pairs & ((numbers[p].low >= 0) | (q == s))
                pairs = pairs & ((numbers[q].low >= 0) | (p == r))
            sure = sure | pairs
        if a.op == "-":  # less than what it was taken from
            sure = sure | ((numbers[a.args[1]].low >= 0) & below(a.args[0], other, depth))
        if b.op == "+":
            for kept, added in (b.args, b.args[::-1]):
                sure = sure | ((numbers[added].low >= 0) & below(one, kept, depth))
        return sure

    return below(small, large, _LONGEST)


def _sum(over: Enclosure, root: int, numbers: _Known) -> tuple[_Sum, Array]:
    """A step as a weighted sum, and how far its computed value may be from that, (b,)."""
    sums: dict[int, tuple[_Sum, Array]] = {}
    nothing = np.zeros(len(over.low))
    for place in sorted(numbers):
        if place > root:
            break
        step = over.steps[place]
        parts = [sums[arg] for arg in step.args if arg in sums]
        if step.op == "number":
            sums[place] = {_ONE: over.arithmetic.exactly(step.value)}, nothing
        elif step.op == "neg":
            sums[place] = _times(parts[0][0], Fraction(-1)), parts[0][1]
        elif step.op in ("+", "-"):
            (a, error), (b, more) = parts
            rounding = over.arithmetic.rounding(numbers[place])
            sums[place] = _plus(a, b, 1 if step.op == "+" else -1), error + more + rounding
        elif step.op in ("*", "/") and (factor := _factor(over, step)) is not None:
            rest, by = factor
            total, error = sums[rest]
            grown = error * abs(float(by)) * (1 + 2.0**-50)
            rounding = over.arithmetic.rounding(numbers[place])
            sums[place] = _times(total, by), grown + rounding
        else:
            sums[place] = {place: Fraction(1)}, nothing
    return sums[root]


def _factor(over: Enclosure, step: Step) -> tuple[int, Fraction] | None:
    """The step that is multiplied by a plain number, and the number; None where none is."""
    first, second = step.args
    by = _number(over, second)
    if step.op == "/":
        return None if not by else (first, 1 / by)
    if by is not None:
        return first, by
    by = _number(over, first)
    return None if by is None else (second, by)


def _number(over: Enclosure, place: int) -> Fraction | None:
    step = over.steps[place]
    if step.op == "neg":
        inner = _number(over, step.args[0])
        return None if inner is None else -inner
    return over.arithmetic.exactly(step.value) if step.op == "number" else None


def _plus(a: _Sum, b: _Sum, sign: int) -> _Sum:
    total = dict(a)
    for part, weight in b.items():
        total[part] = total.get(part, Fraction(0)) + sign * weight
    return total


def _times(a: _Sum, factor: Fraction) -> _Sum:
    return {part: weight * factor for part, weight in a.items()}
