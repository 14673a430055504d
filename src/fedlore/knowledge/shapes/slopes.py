"""In which direction a formula moves with one feature, over a whole box of rows.

Forward differentiation in interval arithmetic: each step has an enclosure of its slope beside that
of its value. A step that does not depend on the feature has none. What may jump with the feature, a
`where` whose condition looks at it, is left undecided. This is about real numbers: what is computed
may tremble by rounding, and a certificate asks for more (`kernel.movement.keeps_order`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...kernel.enclosure import Boxes, Enclosure
from ...kernel.expressions import Step, Tree, join_steps
from ...kernel.intervals import Arithmetic, Array, Interval

_WIDE = Arithmetic(np.float64)  # slopes are bounded in double precision


def never_against(tree: Tree, column: int, sign: int, boxes: Boxes) -> Array:
    """Boxes in which a formula is defined and more of a column never moves it against the sign."""
    steps, (root,) = join_steps(tree)
    defined = ~boxes.interval(tree).undefined
    with np.errstate(all="ignore"):
        slope = _Slopes(steps, column, boxes.low, boxes.high).of(root)
    if slope is None:
        return defined
    right = slope.low >= 0 if sign > 0 else slope.high <= 0
    return defined & right & ~slope.undefined


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Enclosures of the slopes of steps over boxes, (b, d) corners."""

    steps: tuple[Step, ...]
    column: int
    low: Array
    high: Array
    _known: dict[int, Interval | None] = field(default_factory=dict)
    _values: dict[int, Interval] = field(default_factory=dict)

    def of(self, place: int) -> Interval | None:
        """The slope of a step; None where it does not depend on the column."""
        if place not in self._known:
            self._known[place] = self._find(self.steps[place])
        return self._known[place]

    def value(self, place: int) -> Interval:
        if place not in self._values:
            over = Enclosure(self.steps, self.low, self.high, _WIDE)
            self._values[place] = over.number(place)
        return self._values[place]

    def moves(self, place: int) -> bool:
        """Whether a step, a truth as well, depends on the column."""
        step = self.steps[place]
        if step.op == "column":
            return step.column == self.column
        return any(self.moves(arg) for arg in step.args)

    def _find(self, step: Step) -> Interval | None:
        if step.op == "column":
            return self.fixed(1.0) if step.column == self.column else None
        if not any(self.moves(arg) for arg in step.args):
            return None
        if step.op == "where" and self.moves(step.args[0]):
            return self.unsure()
        args = step.args[1:] if step.op == "where" else step.args
        slopes = [self.of(arg) for arg in args]
        rule = _RULES.get(step.op)
        return self.unsure() if rule is None else rule(self, args, slopes)

    def fixed(self, value: float) -> Interval:
        ends = np.full(len(self.low), value)
        return Interval(ends, ends, np.zeros(len(ends), bool))

    def unsure(self) -> Interval:
        ends = np.full(len(self.low), math.inf)
        return Interval(-ends, ends, np.zeros(len(ends), bool))


_Args = tuple[int, ...]
_Found = Sequence[Interval | None]
_Rule = Callable[[_Slopes, _Args, _Found], Interval | None]


def _times(a: Interval, b: Interval) -> Interval:
    found = _WIDE.apply("*", a, b)
    nothing = (a.low == 0) & (a.high == 0) | (b.low == 0) & (b.high == 0)
    low, high = (np.where(nothing, 0.0, end) for end in (found.low, found.high))
    return _safe(Interval(low, high, found.undefined & ~nothing))


def _safe(a: Interval) -> Interval:
    """An end that is no number says nothing."""
    low = np.where(np.isnan(a.low) | a.undefined, -math.inf, a.low)
    high = np.where(np.isnan(a.high) | a.undefined, math.inf, a.high)
    return Interval(low, high, np.zeros(len(low), bool))


def _sum(slopes: _Found) -> Interval | None:
    found: Interval | None = None
    for one in slopes:
        if one is not None:
            found = one if found is None else _safe(_WIDE.apply("+", found, one))
    return found


def _turned(a: Interval | None) -> Interval | None:
    return None if a is None else Interval(-a.high, -a.low, a.undefined)


def _product(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    return _sum(
        [
            None if slope is None else _times(slope, s.value(other))
            for slope, other in zip(slopes, reversed(args), strict=True)
        ]
    )


def _ratio(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    above, below = args
    under, one = s.value(below), s.fixed(1.0)
    inverse = _safe(_WIDE.apply("/", one, under))
    first = None if slopes[0] is None else _times(slopes[0], inverse)
    if slopes[1] is None:
        return first
    square = _safe(_WIDE.apply("/", one, _WIDE.square(under)))
    return _sum([first, _turned(_times(_times(slopes[1], s.value(above)), square))])


def _power(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    base, exponent = args
    if slopes[0] is None or slopes[1] is not None or s.steps[exponent].op != "number":
        return s.unsure()
    n = s.steps[exponent].value
    outer = s.fixed(1.0) if n == 1 else _WIDE.power(s.value(base), s.fixed(n - 1))
    return _times(slopes[0], _times(_safe(outer), s.fixed(n)))


def _chain(outer: Callable[[_Slopes, Interval], Interval]) -> _Rule:
    def rule(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
        assert slopes[0] is not None
        return _times(slopes[0], _safe(outer(s, s.value(args[0]))))

    return rule


def _absolute(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    value, slope = s.value(args[0]), slopes[0]
    assert slope is not None
    size = np.maximum(np.abs(slope.low), np.abs(slope.high))
    positive, negative = value.low >= 0, value.high <= 0
    low = np.where(positive, slope.low, np.where(negative, -slope.high, -size))
    high = np.where(positive, slope.high, np.where(negative, -slope.low, size))
    return Interval(low, high, slope.undefined)


def _hull(s: _Slopes, args: _Args, slopes: _Found) -> Interval | None:
    """One of several: the slope is that of one of them, or 0 of those that do not move."""
    known = [s.fixed(0.0) if one is None else one for one in slopes]
    low = np.minimum.reduce([one.low for one in known])
    high = np.maximum.reduce([one.high for one in known])
    return Interval(low, high, np.zeros(len(low), bool))


_RULES: dict[str, _Rule] = {
    "neg": lambda s, args, slopes: _turned(slopes[0]),
    "+": lambda s, args, slopes: _sum(slopes),
    "-": lambda s, args, slopes: _sum([slopes[0], _turned(slopes[1])]),
    "*": _product,
    "/": _ratio,
    "**": _power,
    "exp": _chain(lambda s, a: _WIDE.apply("exp", a)),
    "log": _chain(lambda s, a: _WIDE.apply("/", s.fixed(1.0), a)),
    "log10": _chain(lambda s, a: _WIDE.apply("/", s.fixed(1.0 / math.log(10.0)), a)),
    "sqrt": _chain(lambda s, a: _WIDE.apply("/", s.fixed(0.5), _WIDE.apply("sqrt", a))),
    "abs": _absolute,
    "min": _hull,
    "max": _hull,
    "where": _hull,
}
