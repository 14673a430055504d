"""Boxes of cells: which meet, and whether some cover another; exact, with a budget of steps."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
class Boxes:
    """Many boxes over the same axes."""

    size: Ints  # (f,) cells on each axis
    low: Ints  # (f, b)
    high: Ints  # (f, b)

    @staticmethod
    def of(size: Sequence[int], boxes: Iterable[Sequence[tuple[int, int]]]) -> "Boxes":
        found = list(boxes)
        runs = np.array(found, dtype=np.int32).reshape(len(found), len(size), 2)
        low, high = np.ascontiguousarray(runs[:, :, 0].T), np.ascontiguousarray(runs[:, :, 1].T)
        return Boxes(np.array(size, dtype=np.int32), low, high)

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
    target: Box, boxes: Boxes, among: Index, meter: Meter, wanted: Index | None = None
) -> Box | None:
    """Some part of a box that lies in none of some others, or None where they cover it.

    With `wanted` the part must also meet one of those boxes.
    """
    return next(outside(target, boxes, among, meter, wanted), None)


def outside(
    target: Box, boxes: Boxes, among: Index, meter: Meter, wanted: Index | None = None
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


def grow_box(box: Box, inside: Box, boxes: Boxes, among: Index) -> Box:
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
