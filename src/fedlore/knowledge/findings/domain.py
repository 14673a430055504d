"""The declared domain, cut into the cells that no rule divides further, and boxes of such cells.

Along a feature the cells are numbered; a rule is a few boxes of whole cells. Deciding something for
every box of cells therefore decides it for every row of the domain: nothing is sampled. Which boxes
meet, and whether some cover another, is exact, with a budget of steps.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...kernel.cells import START, STOP, Condition, Cut, Levels, NumberSpans, Span, format_condition
from ...kernel.schema import Feature, Schema

Stretch = tuple[int, int]  # first and last cell


@dataclass(frozen=True)
class Axis:
    """One feature as numbered cells: spans of numbers, or groups of levels nobody tells apart."""

    feature: Feature
    spans: tuple[Span, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def of(feature: Feature, conditions: Iterable[Condition]) -> "Axis":
        known = set(conditions)
        if feature.levels:
            chosen = [set(c.chosen) for c in known]
            groups: dict[tuple[bool, ...], list[int]] = {}
            for level in range(len(feature.levels)):
                groups.setdefault(tuple(level in some for some in chosen), []).append(level)
            return Axis(feature, groups=tuple(map(tuple, groups.values())))
        start, stop = axis_scope(feature)
        ends = {end for condition in known for span in condition.spans for end in span}
        inner = sorted(end for end in ends if start < end < stop)
        cells = (Span(*pair) for pair in pairwise((start, *inner, stop)))
        return Axis(feature, spans=tuple(cell for cell in cells if holds_a_float(cell)))

    def __len__(self) -> int:
        return len(self.spans) or len(self.groups)

    def runs(self, condition: Condition) -> list[Stretch]:
        """The cells that satisfy a condition, as runs of neighbours."""
        if condition.chosen:
            chosen = set(condition.chosen)
            inside = [i for i, group in enumerate(self.groups) if group[0] in chosen]
            parts = groupby(enumerate(inside), key=lambda pair: pair[1] - pair[0])
            packs = [[cell for _, cell in part] for _, part in parts]
            return [(pack[0], pack[-1]) for pack in packs]
        found = []
        for start, stop in condition.spans:
            first = bisect_left(self._starts, start)
            last = bisect_right(self._stops, stop) - 1
            if first <= last:
                found.append((first, last))
        return found

    @cached_property
    def _starts(self) -> list[Cut]:
        return [span.start for span in self.spans]

    @cached_property
    def _stops(self) -> list[Cut]:
        return [span.stop for span in self.spans]

    def value(self, run: Stretch) -> float | str:
        """Some value in the cells: a short number well inside, or the first level."""
        if self.groups:
            return self.feature.levels[self.groups[run[0]][0]]
        inside = within_axis(Span(self.spans[run[0]].start, self.spans[run[1]].stop))
        return self.spans[run[0]].start.value if inside is None else inside

    def text(self, run: Stretch) -> str:
        """The cells as an expert would write them; empty where they are the whole axis."""
        first, last = run
        if (first, last) == (0, len(self) - 1):
            return ""
        if self.groups:
            levels = sorted(level for group in self.groups[first : last + 1] for level in group)
            return format_condition(Levels(tuple(levels)), self.feature)
        start = START if first == 0 else self.spans[first].start
        stop = STOP if last == len(self) - 1 else self.spans[last].stop
        return format_condition(NumberSpans((Span(start, stop),)), self.feature)


@dataclass(frozen=True)
class Domain:
    """The axes of the features that some rule looks at."""

    schema: Schema
    columns: tuple[int, ...]
    axes: tuple[Axis, ...]

    @staticmethod
    def of(schema: Schema, rules: Iterable[Sequence[tuple[int, Condition]]]) -> "Domain":
        used: dict[int, set[Condition]] = {}
        for conditions in rules:
            for column, condition in conditions:
                used.setdefault(column, set()).add(condition)
        columns = tuple(sorted(used))
        axes = (Axis.of(schema.features[column], used[column]) for column in columns)
        return Domain(schema, columns, tuple(axes))

    def runs(self, conditions: Sequence[tuple[int, Condition]]) -> list[list[Stretch]]:
        """Per axis, the cells a rule leaves."""
        stated = dict(conditions)
        return [
            axis.runs(stated[column]) if column in stated else [(0, len(axis) - 1)]
            for column, axis in zip(self.columns, self.axes, strict=True)
        ]

    def region(self, runs: Sequence[Stretch]) -> dict[str, str]:
        """A box in the words of cells, free features left out."""
        texts = ((axis, axis.text(run)) for axis, run in zip(self.axes, runs, strict=True))
        return {axis.feature.name: text for axis, text in texts if text}

    def row(self, runs: Sequence[Stretch]) -> dict[str, float | str]:
        """A whole row inside a box."""
        chosen = dict(zip(self.columns, zip(self.axes, runs, strict=True), strict=True))
        row = {}
        for column, feature in enumerate(self.schema.features):
            axis, run = chosen.get(column) or (Axis.of(feature, ()), (0, 0))
            row[feature.name] = axis.value(run)
        return row


def boxes_of(runs: Sequence[Sequence[Stretch]]) -> Iterator[tuple[Stretch, ...]]:
    """The boxes whose union is a rule; none where an axis has no cells left."""
    return product(*runs)


def axis_scope(feature: Feature) -> Span:
    """The declared domain of a numeric feature; both ends belong to it."""
    low, high = feature.low, feature.high
    start = Cut(low, math.isinf(low))
    return Span(start, Cut(high, not math.isinf(high)))


def within_axis(span: Span) -> float | None:
    """A number inside a span with as few digits as will do, or None where no float fits.

    It also lies inside after rounding to float32 where it can.
    """
    (low, _), (high, _) = span
    if low == high:
        return low if _contains(span, low) else None
    if math.isinf(low) or math.isinf(high):
        options = [_beyond(span), math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
        options += [low, high]
    else:
        middle = low / 2 + high / 2
        rounded = [float(f"{middle:.{digits}g}") for digits in range(1, 17)]
        options = [number for number in rounded if _single(low) < _single(number) < _single(high)]
        options += [number for number in (*rounded, middle) if low < number < high]
        options += [middle, low, high]
    return next((number for number in options if _contains(span, number)), None)


def _beyond(span: Span) -> float:
    (low, _), (high, _) = span
    if math.isinf(low) and math.isinf(high):
        return 0.0
    if math.isinf(high):
        return math.floor(low) + 1.0 if abs(low) < 2**20 else low + abs(low)
    return math.ceil(high) - 1.0 if abs(high) < 2**20 else high - abs(high)


def _contains(span: Span, number: float) -> bool:
    return math.isfinite(number) and span.start <= Cut(number, False) < span.stop


def _single(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def holds_a_float(span: Span) -> bool:
    """False for the open gap between neighbouring floats, and beyond the largest."""
    (low, open_low), (high, closed_high) = span
    if not open_low or closed_high:
        return True
    return math.nextafter(low, math.inf) < high


Ints = NDArray[np.int32]
Index = NDArray[np.int64]

NODE = 50  # steps, about a microsecond each, that looking at one part costs


class GaveUp(Exception):
    """A question was too hard for the budget."""


class Meter:
    """A budget counted in steps, not seconds, so that the same input gives the same answer."""

    def __init__(self, total: int) -> None:
        self.total = self.left = self.now = total

    def question(self, share: float) -> None:
        """Begin a question that may use up a share of the whole budget."""
        self.now = int(share * self.total)
        self.spend(1)

    def spend(self, steps: int) -> None:
        self.left -= steps
        self.now -= steps
        if self.left < 0 or self.now < 0:
            raise GaveUp

    def filter(self, boxes: int) -> None:
        """Pay for looking through boxes."""
        self.spend(NODE // 2 + boxes // 256)


class Box(NamedTuple):
    """First and last cell on every axis, both inclusive."""

    low: Ints  # (f,)
    high: Ints  # (f,)

    def meet(self, other: "Box") -> "Box":
        """What two boxes that meet have in common."""
        return Box(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def holds(self, other: "Box") -> bool:
        return bool((self.low <= other.low).all() and (self.high >= other.high).all())

    def runs(self) -> list[tuple[int, int]]:
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class CellBoxes:
    """Many boxes over the same axes."""

    size: Ints  # (f,) cells on each axis
    low: Ints  # (f, b)
    high: Ints  # (f, b)

    @staticmethod
    def of(size: Sequence[int], boxes: Iterable[Sequence[tuple[int, int]]]) -> "CellBoxes":
        found = list(boxes)
        runs = np.array(found, dtype=np.int32).reshape(len(found), len(size), 2)
        low, high = np.ascontiguousarray(runs[:, :, 0].T), np.ascontiguousarray(runs[:, :, 1].T)
        return CellBoxes(np.array(size, dtype=np.int32), low, high)

    def __len__(self) -> int:
        return int(self.low.shape[1])

    def __getitem__(self, index: int) -> Box:
        return Box(self.low[:, index], self.high[:, index])

    def whole(self) -> Box:
        """The box of the whole domain."""
        return Box(np.zeros_like(self.size), self.size - 1)

    def meeting(self, box: Box, among: Index) -> Index:
        """Those among some boxes that have a cell in common with a box."""
        share = (box.high - box.low + 1) / self.size
        for axis in share.argsort().tolist():  # the narrowest first: it leaves the fewest
            if not len(among) or share[axis] == 1.0:
                break
            among = self.along(axis, box, among)
        return among

    def along(self, axis: int, box: Box, among: Index) -> Index:
        """Those among some boxes that overlap a box on one axis."""
        keep = self.low[axis][among] <= box.high[axis]
        keep &= self.high[axis][among] >= box.low[axis]
        found: Index = among[keep]
        return found


def find_uncovered(
    target: Box, boxes: CellBoxes, among: Index, meter: Meter, wanted: Index | None = None
) -> Box | None:
    """Some part of a box that lies in none of some others, or None where they cover it.

    With `wanted` the part must also meet one of those boxes.
    """
    return next(parts_outside(target, boxes, among, meter, wanted), None)


def parts_outside(
    target: Box, boxes: CellBoxes, among: Index, meter: Meter, wanted: Index | None = None
) -> Iterator[Box]:
    """All parts of a box that lie in none of some others.

    The target is cut until each part is inside one box or outside all. Boxes that span a part on
    all axes but one are taken away first: they never make more parts than needed.
    """
    meter.filter(len(among))
    among = boxes.meeting(target, among)
    if wanted is not None:
        meter.filter(len(wanted))
        wanted = boxes.meeting(target, wanted)
    parts = [(target, among, wanted)]
    while parts:
        part, among, wanted = parts.pop()
        if wanted is not None and not len(wanted):
            continue
        if not len(among):
            yield part
            continue
        meter.spend(NODE + len(among) // 8)
        low, high = boxes.low[:, among], boxes.high[:, among]  # (f, b)
        cuts = (low > part.low[:, None]) | (high < part.high[:, None])
        open_axes = cuts.sum(0)
        fewest = open_axes.min()
        if fewest == 0:
            continue
        if fewest == 1:
            slabs = open_axes == 1
            axis = int(cuts[:, slabs].sum(1).argmax())
            taken = slabs & cuts[axis]
            runs = _left_over(part, axis, low[axis, taken], high[axis, taken])
            rest = among[~taken]
        else:
            # an axis that decides much, cut where as many boxes begin or end on either side
            axis = int((cuts * 0.5**open_axes).sum(1).argmax())
            begins = low[axis][low[axis] > part.low[axis]]
            ends = high[axis][high[axis] < part.high[axis]] + 1
            planes = np.concatenate([begins, ends])
            plane = int(np.partition(planes, len(planes) // 2)[len(planes) // 2])
            runs = [(int(part.low[axis]), plane - 1), (plane, int(part.high[axis]))]
            rest = among
        for first, last in runs:
            less = _narrow(part, axis, first, last)
            still = None if wanted is None else boxes.along(axis, less, wanted)
            parts.append((less, boxes.along(axis, less, rest), still))


def grow_box(box: Box, inside: Box, boxes: CellBoxes, among: Index) -> Box:
    """A box that meets none of some others, enlarged within `inside` as long as that holds."""
    low, high = box.low.copy(), box.high.copy()
    among = boxes.meeting(inside, among)
    for axis in range(len(low)):
        open_low, open_high = low.copy(), high.copy()
        open_low[axis], open_high[axis] = inside.low[axis], inside.high[axis]
        block = boxes.meeting(Box(open_low, open_high), among)
        below = boxes.high[axis][block]
        above = boxes.low[axis][block]
        floor, roof = below[below < low[axis]], above[above > high[axis]]
        low[axis] = max(int(inside.low[axis]), int(floor.max(initial=-1)) + 1)
        high[axis] = min(int(inside.high[axis]), int(roof.min(initial=boxes.size[axis])) - 1)
    return Box(low, high)


def _left_over(part: Box, axis: int, low: Ints, high: Ints) -> list[tuple[int, int]]:
    """What intervals leave of a part along an axis."""
    order = np.argsort(low)
    reached = np.maximum.accumulate(high[order])
    begins = np.concatenate([[part.low[axis]], reached + 1])
    ends = np.concatenate([low[order] - 1, [part.high[axis]]])
    ends = np.minimum(ends, part.high[axis])
    begins = np.maximum(begins, part.low[axis])
    keep = begins <= ends
    return list(zip(begins[keep].tolist(), ends[keep].tolist(), strict=True))


def _narrow(part: Box, axis: int, first: int, last: int) -> Box:
    low, high = part.low.copy(), part.high.copy()
    low[axis], high[axis] = first, last
    return Box(low, high)
