"""What a formula can be over a whole box of rows: its steps in interval arithmetic.

Conditions narrow what follows from them: inside `where(x > 0, log(x), 0)` the logarithm sees only
x > 0. A condition narrows every step it names, so `where(a + b > 0, log(a + b), 0)` works as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.expressions import COMPARISONS, Step
from ...kernel.schema import Schema
from . import intervals
from .intervals import Arithmetic, Interval, Truth, meet

if TYPE_CHECKING:
    from torch import Tensor

Region = Sequence[tuple[float, float]]  # lowest and highest value of each feature
_Known = Mapping[int, Interval]  # what conditions say about steps

_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def scope(schema: Schema) -> tuple[tuple[float, float], ...]:
    """The declared scope as a box; a feature with levels runs over their positions."""
    return tuple(
        (0.0, len(feature.levels) - 1.0) if feature.levels else (feature.low, feature.high)
        for feature in schema.features
    )


def check_box(box: Region, schema: Schema) -> Region:
    """The box, refused where it does not fit the schema."""
    if len(box) != len(schema.features):
        raise KnowledgeError(
            f"a box must bound all {len(schema.features)} features, got {len(box)} pairs"
        )
    for name, (low, high) in zip(schema.names, box, strict=True):
        if math.isnan(low) or math.isnan(high) or low > high:
            raise KnowledgeError(f"a box must have low <= high: '{name}' has {low:g} and {high:g}")
    return box


def enclose(
    steps: Sequence[Step], low: Tensor, high: Tensor, dtype: torch.dtype | None = None
) -> Interval:
    """What the last step can be over boxes with these corners, both (b, d) in double precision.

    `dtype` is the precision in which rows are computed, float32 unless told.
    """
    dtype = torch.float32 if dtype is None else dtype
    return Enclosure(tuple(steps), low, high, Arithmetic(dtype)).number(len(steps) - 1)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Steps to be enclosed over boxes."""

    steps: tuple[Step, ...]
    low: Tensor  # (b, d)
    high: Tensor  # (b, d)
    arithmetic: Arithmetic = field(default_factory=Arithmetic)

    def number(self, root: int) -> Interval:
        """What a numeric step can be."""
        return self.numbers(root)[root]

    def numbers(self, root: int) -> Mapping[int, Interval]:
        """What a step can be, and every number that it is computed from unconditionally."""
        return self._look(root, {}).numbers

    def _look(self, root: int, known: _Known) -> _View:
        """All that `root` needs, given what is known; no part of a formula is looked at twice."""
        view = _View(known, {}, {}, {}, {})
        for place in self._needed(root):
            step = self.steps[place]
            if step.op in COMPARISONS:
                left, right = (view.numbers[arg] for arg in step.args)
                view.truths[place] = intervals.compare_intervals(step.op, left, right)
            elif step.op == "not":
                view.truths[place] = intervals.negation(view.truths[step.args[0]])
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

    def _value(self, step: Step, view: _View) -> Interval:
        if step.op == "number":
            return self.arithmetic.constant(step.value, self.low)
        if step.op == "column":
            return self.arithmetic.column(self.low[:, step.column], self.high[:, step.column])
        if step.op == "where":
            condition, yes, no = step.args
            return intervals.choose_interval(
                view.truths[condition],
                self._look(yes, self._suppose(condition, True, view)).numbers[yes],
                self._look(no, self._suppose(condition, False, view)).numbers[no],
            )
        if step.op == "**" and self.steps[step.args[1]].op == "number":
            base, exponent = view.numbers[step.args[0]], self.steps[step.args[1]].value
            if exponent == 2.0:
                return self.arithmetic.square(base)  # computed as one product
            # torch takes it as it is written where the base is a number too, else rounded
            return self.arithmetic.power(base, self.arithmetic.written(exponent, self.low))
        return self.arithmetic.apply(step.op, *[view.numbers[arg] for arg in step.args])

    def _junction(self, place: int, view: _View) -> Truth:
        """`and` and `or`; the right side matters only where the left one does not settle it."""
        first, second = self.steps[place].args
        left = view.truths[first]
        conjunction = self.steps[place].op == "and"
        known = view.known
        if not left.undefined.any():
            known = self._suppose(first, conjunction, view)
        view.right[place] = self._look(second, known)
        right = view.right[place].truths[second]
        if conjunction:
            return intervals.both(left, right)
        flipped = intervals.both(intervals.negation(left), intervals.negation(right))
        return intervals.negation(flipped)

    def _suppose(self, place: int, holds: bool, view: _View) -> _Known:
        """What is known once the truth at `place` is settled to be true, or to be false."""
        if (place, holds) not in view.supposed:
            view.supposed[place, holds] = self._follows(place, holds, view)
        return view.supposed[place, holds]

    def _follows(self, place: int, holds: bool, view: _View) -> _Known:
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
        low = torch.where(point & (a.low == b.low), self.arithmetic.above(a.low), a.low)
        high = torch.where(point & (a.high == b.low), self.arithmetic.below(a.high), a.high)
        return meet(a, Interval(low, high, a.undefined))


@dataclass(frozen=True, eq=False)
class _View:
    """The steps as they look under some conditions."""

    known: _Known
    numbers: dict[int, Interval]
    truths: dict[int, Truth]
    right: dict[int, _View]  # of each `and` and `or`: the view its right side was seen in
    supposed: dict[tuple[int, bool], _Known]  # what follows from a truth, once worked out


def _far_end(a: Interval, sign: int) -> Tensor:
    """An infinite end, but NaN where there is no value at all."""
    return torch.full_like(a.low, sign * math.inf).masked_fill(a.low.isnan(), math.nan)
