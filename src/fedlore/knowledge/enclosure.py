"""What a formula can be over a whole box of rows: its steps in interval arithmetic.

Conditions narrow what follows from them: inside `where(x > 0, log(x), 0)` the logarithm sees only
x > 0. A condition narrows every step it names, so `where(a + b > 0, log(a + b), 0)` works as well.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import KnowledgeError
from . import intervals
from .grammar import COMPARISONS, Step
from .intervals import Interval, Truth, above, below, meet
from .schema import Schema

Box = Sequence[tuple[float, float]]  # lowest and highest value of each feature
_Known = Mapping[int, Interval]  # what conditions say about steps

_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_ARITHMETIC: dict[str, Callable[..., Interval]] = {
    "neg": intervals.neg,
    "+": intervals.add,
    "-": intervals.sub,
    "*": intervals.mul,
    "/": intervals.div,
    "**": intervals.power,
    "exp": intervals.exp,
    "log": intervals.log,
    "log10": intervals.log10,
    "sqrt": intervals.sqrt,
    "abs": intervals.absolute,
    "min": intervals.minimum,
    "max": intervals.maximum,
}


def scope(schema: Schema) -> tuple[tuple[float, float], ...]:
    """The declared scope as a box; a feature with levels runs over their positions."""
    return tuple(
        (0.0, len(feature.levels) - 1.0) if feature.levels else (feature.low, feature.high)
        for feature in schema.features
    )


def check_box(box: Box, schema: Schema) -> Box:
    """The box, refused where it does not fit the schema."""
    if len(box) != len(schema.features):
        raise KnowledgeError(
            f"a box must bound all {len(schema.features)} features, got {len(box)} pairs"
        )
    for name, (low, high) in zip(schema.names, box, strict=True):
        if math.isnan(low) or math.isnan(high) or low > high:
            raise KnowledgeError(f"a box must have low <= high: '{name}' has {low:g} and {high:g}")
    return box


def enclose(steps: Sequence[Step], low: Tensor, high: Tensor) -> Interval:
    """What the last step can be over boxes with these corners, both (b, d) in double precision."""
    return Enclosure(tuple(steps), low, high).number(len(steps) - 1)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Steps to be enclosed over boxes."""

    steps: tuple[Step, ...]
    low: Tensor  # (b, d)
    high: Tensor  # (b, d)

    def number(self, root: int, known: _Known | None = None) -> Interval:
        """What a numeric step can be, given what is known of others."""
        return self._run(root, known or {})[0][root]

    def _run(self, root: int, known: _Known) -> tuple[dict[int, Interval], dict[int, Truth]]:
        numbers: dict[int, Interval] = {}
        truths: dict[int, Truth] = {}
        for place in self._needed(root):
            step = self.steps[place]
            if step.op in COMPARISONS:
                left, right = (numbers[arg] for arg in step.args)
                truths[place] = intervals.compare(step.op, left, right)
            elif step.op == "not":
                truths[place] = intervals.negation(truths[step.args[0]])
            elif step.op in ("and", "or"):
                truths[place] = self._junction(step, truths[step.args[0]], known)
            else:
                value = self._value(step, numbers, truths, known)
                numbers[place] = meet(value, known[place]) if place in known else value
        return numbers, truths

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

    def _value(
        self, step: Step, numbers: _Known, truths: Mapping[int, Truth], known: _Known
    ) -> Interval:
        if step.op == "number":
            value = self.low.new_full(self.low.shape[:1], step.value)
            return Interval(value, value, torch.zeros_like(value, dtype=torch.bool))
        if step.op == "column":
            low, high = self.low[:, step.column], self.high[:, step.column]
            return Interval(low, high, torch.zeros_like(low, dtype=torch.bool))
        if step.op == "where":
            condition, yes, no = step.args
            return intervals.choice(
                truths[condition],
                self.number(yes, self._suppose(condition, True, known)),
                self.number(no, self._suppose(condition, False, known)),
            )
        return _ARITHMETIC[step.op](*[numbers[arg] for arg in step.args])

    def _junction(self, step: Step, left: Truth, known: _Known) -> Truth:
        """`and` and `or`; the right side matters only where the left one does not settle it."""
        first, second = step.args
        conjunction = step.op == "and"
        if not left.undefined.any():
            known = self._suppose(first, conjunction, known)
        right = self._run(second, known)[1][second]
        if conjunction:
            return intervals.both(left, right)
        flipped = intervals.both(intervals.negation(left), intervals.negation(right))
        return intervals.negation(flipped)

    def _suppose(self, place: int, holds: bool, known: _Known) -> _Known:
        """What is known once the truth at `place` is settled to be true, or to be false."""
        step = self.steps[place]
        if step.op == "not":
            return self._suppose(step.args[0], not holds, known)
        if step.op == ("and" if holds else "or"):
            for arg in step.args:
                known = self._suppose(arg, holds, known)
            return known
        if step.op not in COMPARISONS:
            return known
        left, right = step.args
        op = step.op if holds else _OPPOSITE[step.op]
        a, b = self.number(left, known), self.number(right, known)
        a, b = _narrow(op, a, b)
        return {**known, left: a, right: b}


def _narrow(op: str, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """What is left of two intervals where `a op b` is true."""
    if op in (">", ">="):
        b, a = _narrow({">": "<", ">=": "<="}[op], b, a)
        return a, b
    if op == "==":
        return meet(a, b), meet(b, a)
    if op == "!=":
        return _without(a, b), _without(b, a)
    strict = op == "<"
    most = replace(b, high=below(b.high) if strict else b.high, low=_unbounded(b, -1))
    least = replace(a, low=above(a.low) if strict else a.low, high=_unbounded(a, 1))
    return meet(a, most), meet(b, least)


def _without(a: Interval, b: Interval) -> Interval:
    """`a` less the only value of `b`, where it has one at an end of `a`; 0 inside is remembered."""
    point = b.low == b.high
    low = torch.where(point & (a.low == b.low), above(a.low), a.low)
    high = torch.where(point & (a.high == b.low), below(a.high), a.high)
    return meet(a, Interval(low, high, a.undefined, bool((point & (b.low == 0)).all())))


def _unbounded(a: Interval, sign: int) -> Tensor:
    """An infinite end, but NaN where there is no value at all."""
    return torch.full_like(a.low, sign * math.inf).masked_fill(a.low.isnan(), math.nan)
