"""In which direction a formula moves with one feature, or bends, over a whole box of rows.

Forward differentiation in interval arithmetic: each step has an enclosure of its slope beside that
of its value, and one of how its slope moves. A step that does not depend on the feature has none.
What may jump with the feature, a `where` whose condition looks at it, is left undecided. This is
about real numbers: what is computed may tremble by rounding, and a certificate asks for more
(`kernel.movement.keeps_order`).
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
    return _never(_Slopes.of, tree, column, sign, boxes)


def never_bends_against(tree: Tree, column: int, sign: int, boxes: Boxes) -> Array:
    """Boxes in which a formula is defined and its slope never moves against the sign."""
    return _never(_Slopes.bend, tree, column, sign, boxes)


def _never(
    find: "Callable[[_Slopes, int], Interval | None]",
    tree: Tree,
    column: int,
    sign: int,
    boxes: Boxes,
) -> Array:
    steps, (root,) = join_steps(tree)
    defined = ~boxes.interval(tree).undefined
    with np.errstate(all="ignore"):
        found = find(_Slopes(steps, column, boxes.low, boxes.high), root)
    if found is None:
        return defined
    right = found.low >= 0 if sign > 0 else found.high <= 0
    return defined & right & ~found.undefined


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Enclosures of the slopes of steps over boxes, (b, d) corners."""

    steps: tuple[Step, ...]
    column: int
    low: Array
    high: Array
    _known: dict[int, Interval | None] = field(default_factory=dict)
    _values: dict[int, Interval] = field(default_factory=dict)
    _bends: dict[int, Interval | None] = field(default_factory=dict)

    def of(self, place: int) -> Interval | None:
        """The slope of a step; None where it does not depend on the column."""
        if place not in self._known:
            self._known[place] = self._find(self.steps[place])
        return self._known[place]

    def bend(self, place: int) -> Interval | None:
        """How the slope of a step moves; None where the step is a line in the column."""
        if place not in self._bends:
            step = self.steps[place]
            known = step.op == "column" or not any(self.moves(arg) for arg in step.args)
            self._bends[place] = None if known else self._find_bend(step)
        return self._bends[place]

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

    def _find_bend(self, step: Step) -> Interval | None:
        if step.op == "where" and self.moves(step.args[0]):
            return self.unsure()
        args = step.args[1:] if step.op == "where" else step.args
        rule = _BENDS.get(step.op)
        return self.unsure() if rule is None else rule(self, args, [self.bend(a) for a in args])

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


def _both(bends: _Found) -> Interval | None:
    """A sum of which an end may be infinite, where a kink is."""
    some = [one for one in bends if one is not None]
    if len(some) < 2:
        return some[0] if some else None
    low, high = (np.add.reduce([getattr(one, end) for one in some]) for end in ("low", "high"))
    low, high = (  # a sum that is 0 is exact
        np.where(end == 0, end, np.nextafter(end, side))
        for end, side in ((low, -math.inf), (high, math.inf))
    )
    return _safe(Interval(low, high, np.logical_or.reduce([one.undefined for one in some])))


def _square(a: Interval) -> Interval:
    return _safe(_WIDE.square(a))


def _product_bend(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
    """(uv)'' = u''v + 2u'v' + uv''."""
    (a, b), (first, second) = args, (s.of(arg) for arg in args)
    both = None if first is None or second is None else _times(s.fixed(2.0), _times(first, second))
    parts = [None if bends[0] is None else _times(bends[0], s.value(b)), both]
    return _both([*parts, None if bends[1] is None else _times(bends[1], s.value(a))])


def _ratio_bend(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
    """Of what is divided by something that does not move."""
    if s.of(args[1]) is not None:
        above, below = args
        under, slope = s.value(below), s.of(below)
        assert slope is not None
        if s.of(above) is not None or bends[1] is not None:
            return s.unsure()
        cube = _safe(_WIDE.apply("*", _square(under), under))
        inverse = _safe(_WIDE.apply("/", s.fixed(2.0), cube))  # (1/v)'' = 2v'^2/v^3
        return _times(_times(_square(slope), inverse), s.value(above))
    inverse = _safe(_WIDE.apply("/", s.fixed(1.0), s.value(args[1])))
    return None if bends[0] is None else _times(bends[0], inverse)


def _chain_bend(
    outer: Callable[[_Slopes, Interval], Interval], bent: Callable[[_Slopes, Interval], Interval]
) -> _Rule:
    """f(u)'' = f''(u)u'^2 + f'(u)u''."""

    def rule(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
        slope, at = s.of(args[0]), s.value(args[0])
        assert slope is not None
        first = _times(_square(slope), _safe(bent(s, at)))
        return _both([first, None if bends[0] is None else _times(bends[0], _safe(outer(s, at)))])

    return rule


def _power_bend(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
    base, exponent = args
    if s.of(exponent) is not None or s.steps[exponent].op != "number":
        return s.unsure()
    n = s.steps[exponent].value

    def power(a: Interval, m: float) -> Interval:
        return s.fixed(1.0) if m == 0 else a if m == 1 else _WIDE.power(a, s.fixed(m))

    return _chain_bend(
        lambda s, a: _times(s.fixed(n), _safe(power(a, n - 1))),
        lambda s, a: _times(s.fixed(n * (n - 1)), _safe(power(a, n - 2))) if n != 1 else s.fixed(0),
    )(s, args, bends)


def _kinked(sign: int) -> _Rule:
    """The least of several is concave where all are, the greatest (1) convex."""

    def rule(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
        known = [s.fixed(0.0) if one is None else one for one in bends]
        low = np.minimum.reduce([one.low for one in known])
        high = np.maximum.reduce([one.high for one in known])
        open_end = np.full(len(low), sign * math.inf)
        ends = (low, open_end) if sign > 0 else (open_end, high)
        return Interval(ends[0], ends[1], np.zeros(len(low), bool))

    return rule


def _absolute_bend(s: _Slopes, args: _Args, bends: _Found) -> Interval | None:
    """The greater of a value and its negative."""
    both = [bends[0], _turned(bends[0])]
    return _kinked(1)(s, args, both)


_BENDS: dict[str, _Rule] = {
    "neg": lambda s, args, bends: _turned(bends[0]),
    "+": lambda s, args, bends: _both(bends),
    "-": lambda s, args, bends: _both([bends[0], _turned(bends[1])]),
    "*": _product_bend,
    "/": _ratio_bend,
    "**": _power_bend,
    "exp": _chain_bend(lambda s, a: _WIDE.apply("exp", a), lambda s, a: _WIDE.apply("exp", a)),
    "log": _chain_bend(
        lambda s, a: _WIDE.apply("/", s.fixed(1.0), a),
        lambda s, a: _WIDE.apply("/", s.fixed(-1.0), _square(a)),
    ),
    "log10": _chain_bend(
        lambda s, a: _WIDE.apply("/", s.fixed(1.0 / math.log(10.0)), a),
        lambda s, a: _WIDE.apply("/", s.fixed(-1.0 / math.log(10.0)), _square(a)),
    ),
    "sqrt": _chain_bend(
        lambda s, a: _WIDE.apply("/", s.fixed(0.5), _WIDE.apply("sqrt", a)),
        lambda s, a: _WIDE.apply(
            "/", s.fixed(-0.25), _safe(_WIDE.apply("*", a, _WIDE.apply("sqrt", a)))
        ),
    ),
    "abs": _absolute_bend,
    "min": _kinked(-1),
    "max": _kinked(1),
    "where": _hull,
}
