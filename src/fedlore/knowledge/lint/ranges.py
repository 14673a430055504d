"""Whether ranges can contradict each other, or a prediction leave them, anywhere in the domain."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .boxes import NODE, Box, GaveUp, Index, Meter, find_uncovered, grow_box
from .pool import RulePool

_DEEPEST = 200  # rules that it may take to forbid every class


class Clash(NamedTuple):
    """Rules that contradict each other when they hit one row together, and where they can."""

    members: tuple[int, ...]
    box: Box


def empty_range(pool: RulePool, numbers: Sequence[int], meter: Meter) -> Clash | None:
    """Rules of some range tables that together leave no class, and where; None if there are none.

    A table of policy `union` forbids a class where one of its rules hits and none that allows it.
    """
    members = [member for number in numbers for member in pool.of_table(number)]
    chosen = np.concatenate([pool.between(pool.of_table(number)) for number in numbers])
    forbids = ~pool.allows[pool.owner]  # (boxes, k)
    joined = {m for m in members if pool.table(m).policy == "union"}
    if joined and len(numbers) == 1:
        return None  # a union of what rules allow is never empty

    def search(
        box: Box, left: NDArray[np.bool_], free: Index, used: tuple[int, ...], shut: Index
    ) -> Clash | None:
        """Forbid the classes still left inside a box, by the boxes still free, outside `shut`."""
        meter.spend(NODE + len(free) // 32)
        if len(used) > _DEEPEST:
            raise GaveUp
        if not left.any():
            place = find_uncovered(box, pool.boxes, shut, meter)
            if place is None:
                return None
            return Clash(_find_needed(pool, used), grow_box(place, box, pool.boxes, shut))
        counts = np.where(left, forbids[free].sum(0), len(free) + 1)
        target = int(counts.argmin())  # the class that fewest rules can forbid
        options = free[forbids[free, target]]
        for option in options:
            member = int(pool.owner[option])
            inside = box.meet(pool.boxes[int(option)])
            still, closed = left & ~forbids[option], shut
            if member in joined:
                still = left.copy()
                still[target] = False
                family = pool.of_table(pool.members[member][0])
                closed = np.append(shut, pool.which(family, pool.allows[:, target]))
            meter.filter(len(free))
            nearby = pool.boxes.meeting(inside, free)
            found = search(inside, still, nearby, (*used, member), closed)
            if found is not None:
                return found
            if member not in joined:  # no empty range inside this box: leave it out from here on
                free = free[free != option]
        return None

    everything = np.ones(pool.allows.shape[1], dtype=np.bool_)
    nothing = np.empty(0, dtype=np.int64)
    return search(pool.boxes.whole(), everything, chosen, (), nothing)


def outside_range(
    pool: RulePool, member: int, earlier: Index, numbers: Sequence[int], meter: Meter
) -> Clash | None:
    """A range rule that forbids what a prediction rule says, and where both speak.

    `earlier` are boxes where another rule of the same table speaks instead.
    """
    allows = pool.allows[:, int(pool.allows[member].argmax())]
    for number in numbers:
        family = pool.of_table(number)
        meter.spend(4 * NODE + len(family) // 64)
        against, shut = pool.which(family, ~allows), earlier
        if pool.tables[number].policy == "union":
            shut = np.append(earlier, pool.which(family, allows))
        for box in (pool.boxes[box] for box in pool.of_member(member)):
            found = find_uncovered(box, pool.boxes, shut, meter, against)
            if found is not None:
                rival = int(pool.boxes.meeting(found, against)[0])
                inside = box.meet(pool.boxes[rival])
                part = grow_box(found.meet(inside), inside, pool.boxes, shut)
                return Clash((member, int(pool.owner[rival])), part)
    return None


def _find_needed(pool: RulePool, members: Sequence[int]) -> tuple[int, ...]:
    """The members without those that the others make superfluous."""
    kept = sorted(set(members))
    if any(pool.table(member).policy == "union" for member in kept):
        return tuple(kept)
    for member in list(kept):
        others = [other for other in kept if other != member]
        if others and not pool.allows[others].all(0).any():
            kept = others
    return tuple(kept)
