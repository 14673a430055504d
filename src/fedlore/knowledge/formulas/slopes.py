"""In which direction a formula moves with one feature, over a whole box of rows.

Forward differentiation in interval arithmetic: each step has an enclosure of its slope beside that
of its value. A step that does not depend on the feature has none. What may jump with the feature, a
`where` whose condition looks at it, is left undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...kernel.expressions import Step
from .enclosure import Enclosure, Region, check_box, scope
from .formula import Formula
from .intervals import Arithmetic, Interval
from .search import BUDGET, Verdict, decide_claim

if TYPE_CHECKING:
    from torch import Tensor


@cache
def _wide() -> Arithmetic:
    """Slopes are bounded in double precision."""
    return Arithmetic(torch.float64)


def find_trend(
    formula: Formula,
    column: int,
    sign: int,
    box: Region | None = None,
    *,
    budget: int = BUDGET,
) -> Verdict:
    """Whether more of a column never moves the formula against the sign, and it is always defined.

    A refuted one comes with a row from which a larger value of the column goes the wrong way, or
    in which the formula is undefined.
    """
    box = scope(formula.schema) if box is None else check_box(box, formula.schema)
    top = min(box[column][1], 1e6)

    def holds(low: Tensor, high: Tensor) -> Tensor:
        defined = ~Enclosure(formula.steps, low, high).number(len(formula.steps) - 1).undefined
        slope = _Slopes(formula.steps, column, low, high).of(len(formula.steps) - 1)
        if slope is None:
            return defined
        right = slope.low >= 0 if sign > 0 else slope.high <= 0
        return defined & right & ~slope.undefined

    def broken(x: Tensor) -> Tensor:
        here = formula(x)
        wrong = ~here.isfinite()
        for share in (0.02, 0.2, 1.0):
            more = x.clone()
            more[:, column] = x[:, column] + share * (top - x[:, column])
            # clear of rounding: what is flat may tremble
            step = sign * (formula(more) - here)
            wrong |= step < -1e-6 * (1 + here.abs())
        return wrong

    return decide_claim(
        holds,
        broken,
        box=box,
        columns=formula.looks_at(len(box)) or (column,),
        hints=[step.value for step in formula.steps if step.op == "number"],
        budget=budget,
    )


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Enclosures of the slopes of steps over boxes, (b, d) corners."""

    steps: tuple[Step, ...]
    column: int
    low: Tensor
    high: Tensor
    _known: dict[int, Interval | None] = field(default_factory=dict)
    _values: dict[int, Interval] = field(default_factory=dict)

    def of(self, place: int) -> Interval | None:
        """The slope of a step; None where it does not depend on the column."""
        if place not in self._known:
            self._known[place] = self._find(self.steps[place])
        return self._known[place]

    def value(self, place: int) -> Interval:
        if place not in self._values:
            found = Enclosure(self.steps, self.low, self.high, _wide()).number(place)
            self._values[place] = found
        return self._values[place]

    def moves(self, place: int) -> bool:
        """Whether a step, a truth as well, depends on the column."""
        step = self.steps[place]
        if step.op == "column":
            return step.column == self.column
        return any(self.moves(arg) for arg in step.args)

    def _find(self, step: Step) -> Interval | None:
        if step.op == "column":
            return self._fixed(1.0) if step.column == self.column else None
        if not any(self.moves(arg) for arg in step.args):
            return None
        if step.op == "where" and self.moves(step.args[0]):
            return self._unsure()
        args = step.args[1:] if step.op == "where" else step.args
        slopes = [self.of(arg) for arg in args]
        rule = _RULES.get(step.op)
        if rule is None:
            return self._unsure()
        return rule(self, args, slopes)

    def _fixed(self, value: float) -> Interval:
        ends = self.low.new_full((len(self.low),), value)
        return Interval(ends, ends, torch.zeros_like(ends, dtype=torch.bool))

    def _unsure(self) -> Interval:
        ends = self.low.new_full((len(self.low),), math.inf)
        return Interval(-ends, ends, torch.zeros_like(ends, dtype=torch.bool))


_Args = tuple[int, ...]
_Found = list[Interval | None]


def _times(a: Interval, b: Interval) -> Interval:
    found = _wide().apply("*", a, b)
    nothing = (a.low == 0) & (a.high == 0) | (b.low == 0) & (b.high == 0)
    low, high = (torch.where(nothing, 0.0, end) for end in (found.low, found.high))
    return _safe(Interval(low, high, found.undefined & ~nothing))


def _safe(a: Interval) -> Interval:
    """An end that is no number says nothing."""
    low = torch.where(a.low.isnan() | a.undefined, -math.inf, a.low)
    high = torch.where(a.high.isnan() | a.undefined, math.inf, a.high)
    return Interval(low, high, torch.zeros_like(a.undefined))


def _sum(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    found: Interval | None = None
    for one in slopes:
        if one is not None:
            found = one if found is None else _safe(_wide().apply("+", found, one))
    return found


def _turned(a: Interval | None) -> Interval | None:
    return None if a is None else Interval(-a.high, -a.low, a.undefined)


def _product(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    parts = [
        None if slope is None else _times(slope, s.value(other))
        for slope, other in zip(slopes, reversed(args), strict=True)
    ]
    return _sum(s, args, parts)


def _ratio(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    above, below = args
    under = s.value(below)
    one = s._fixed(1.0)
    inverse = _safe(_wide().apply("/", one, under))
    first = None if slopes[0] is None else _times(slopes[0], inverse)
    if slopes[1] is None:
        return first
    square = _safe(_wide().apply("/", one, _wide().square(under)))
    second = _turned(_times(_times(slopes[1], s.value(above)), square))
    return _sum(s, args, [first, second])


def _power(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    base, exponent = args
    if slopes[0] is None or slopes[1] is not None or s.steps[exponent].op != "number":
        return s._unsure()
    n = s.steps[exponent].value
    outer = s._fixed(1.0) if n == 1 else _wide().power(s.value(base), s._fixed(n - 1))
    return _times(slopes[0], _times(_safe(outer), s._fixed(n)))


def _chain(outer: Callable[[_Slopes, Interval], Interval]) -> Callable[..., Interval | None]:
    def rule(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
        assert slopes[0] is not None
        return _times(slopes[0], _safe(outer(s, s.value(args[0]))))

    return rule


def _absolute(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    value, slope = s.value(args[0]), slopes[0]
    assert slope is not None
    size = torch.maximum(slope.low.abs(), slope.high.abs())
    positive, negative = value.low >= 0, value.high <= 0
    low = torch.where(positive, slope.low, torch.where(negative, -slope.high, -size))
    high = torch.where(positive, slope.high, torch.where(negative, -slope.low, size))
    return Interval(low, high, slope.undefined)


def _hull(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    """One of several: the slope is that of one of them, or 0 of those that do not move."""
    known = [s._fixed(0.0) if one is None else one for one in slopes]
    low = torch.stack([one.low for one in known]).amin(0)
    high = torch.stack([one.high for one in known]).amax(0)
    return Interval(low, high, torch.zeros_like(low, dtype=torch.bool))


_RULES: dict[str, Callable[..., Interval | None]] = {
    "neg": lambda s, args, slopes: _turned(slopes[0]),
    "+": _sum,
    "-": lambda s, args, slopes: _sum(s, args, [slopes[0], _turned(slopes[1])]),
    "*": _product,
    "/": _ratio,
    "**": _power,
    "exp": _chain(lambda s, a: _wide().apply("exp", a)),
    "log": _chain(lambda s, a: _wide().apply("/", s._fixed(1.0), a)),
    "log10": _chain(lambda s, a: _wide().apply("/", s._fixed(1.0 / math.log(10.0)), a)),
    "sqrt": _chain(lambda s, a: _wide().apply("/", s._fixed(0.5), _wide().apply("sqrt", a))),
    "abs": _absolute,
    "min": _hull,
    "max": _hull,
    "where": _hull,
}
