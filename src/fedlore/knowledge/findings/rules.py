"""All rules of some tables as boxes over one domain, and what can be decided about them.

Which rules ever speak, where none does, whether ranges contradict each other, and whether a
prediction leaves them, anywhere in the domain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.table import Table
from .domain import (
    NODE,
    Box,
    CellBoxes,
    Domain,
    GaveUp,
    Index,
    Meter,
    Stretch,
    boxes_of,
    find_uncovered,
    grow_box,
    parts_outside,
)

MOST_PIECES = 4_096  # boxes that one rule may need
MOST_BOXES = 200_000


@dataclass(frozen=True, eq=False)
class RulePool:
    """Rules of several tables. A member is one rule; its boxes stand next to each other.

    The members of a table follow each other in the order in which they speak.
    """

    domain: Domain
    tables: tuple[Table, ...]
    firsts: tuple[int, ...]  # (tables + 1,) the first member of each
    members: tuple[tuple[int, int], ...]  # table, rule
    starts: tuple[int, ...]  # (members + 1,) where the boxes of each member begin
    owner: Index  # (boxes,) the member
    boxes: CellBoxes
    allows: NDArray[np.bool_]  # (members, k)

    @staticmethod
    def of(tables: Sequence[Table]) -> "RulePool":
        """Lay out the tables; raises GaveUp where a rule falls into too many boxes."""
        schema = tables[0].schema
        domain = Domain.of(schema, (rule.conditions for table in tables for rule in table.rules))
        members: list[tuple[int, int]] = []
        boxes: list[tuple[Stretch, ...]] = []
        starts = [0]
        allows = np.zeros((sum(len(t.rules) for t in tables), len(schema.classes)), dtype=np.bool_)
        for number, table in enumerate(tables):
            for index in table.order:
                rule = table.rules[index]
                runs = domain.runs(rule.conditions)
                pieces = prod(map(len, runs))
                if pieces > MOST_PIECES or len(boxes) + pieces > MOST_BOXES:
                    raise GaveUp(f"{table.name}, {table.label(index)} needs too many boxes")
                allows[len(members), list(rule.outcome)] = True
                members.append((number, index))
                boxes.extend(boxes_of(runs))
                starts.append(len(boxes))
        return RulePool(
            domain,
            tuple(tables),
            (0, *accumulate(len(table.rules) for table in tables)),
            tuple(members),
            tuple(starts),
            np.repeat(np.arange(len(members)), np.diff(starts)),
            CellBoxes.of([len(axis) for axis in domain.axes], boxes),
            allows,
        )

    def table(self, member: int) -> Table:
        return self.tables[self.members[member][0]]

    def of_table(self, number: int) -> range:
        """The members of a table."""
        return range(self.firsts[number], self.firsts[number + 1])

    def of_member(self, member: int) -> range:
        """The boxes of a member."""
        return range(self.starts[member], self.starts[member + 1])

    def between(self, members: range) -> Index:
        """The boxes of members that follow each other."""
        return np.arange(self.starts[members.start], self.starts[members.stop])

    def which(self, members: range, keep: NDArray[np.bool_]) -> Index:
        """The boxes of those members that are to be kept, (members of the pool,)."""
        boxes = self.between(members)
        return boxes[keep[self.owner[boxes]]]


def ever_speaks(pool: RulePool, member: int, earlier: Index, meter: Meter) -> bool:
    """Whether some row a rule can hit lies in none of the earlier boxes."""
    own = pool.of_member(member)
    return any(
        find_uncovered(pool.boxes[box], pool.boxes, earlier, meter) is not None for box in own
    )


def rivals(pool: RulePool, member: int, earlier: Index) -> list[int]:
    """The members that take rows of this one; one alone if it takes all."""
    found: set[int] = set()
    for own in (pool.boxes[box] for box in pool.of_member(member)):
        near = pool.boxes.meeting(own, earlier)
        low, high = pool.boxes.low[:, near], pool.boxes.high[:, near]
        around = ((low <= own.low[:, None]) & (high >= own.high[:, None])).all(0)
        found.update(pool.owner[near[around][:1] if around.any() else near].tolist())
    return sorted(found)


def gaps(pool: RulePool, among: Index, meter: Meter, most: int) -> Iterator[Box]:
    """Some of the largest parts of the domain that lie in none of some boxes."""
    whole = pool.boxes.whole()
    found: list[Box] = []
    for part in parts_outside(whole, pool.boxes, among, meter):
        if not any(box.holds(part) for box in found):
            found.append(grow_box(part, whole, pool.boxes, among))
            yield found[-1]
            if len(found) == most:
                return


def clashes(
    pool: RulePool, parts: Sequence[range], meter: Meter
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """For each member of some tables the later ones it meets and shares no class with."""
    chosen = np.concatenate([np.empty(0, np.int64), *(pool.between(part) for part in parts)])
    bits = _pack(pool.allows)[:, pool.owner]  # (words, boxes)
    for member in (member for part in parts for member in part):
        own = pool.of_member(member)
        later = chosen[np.searchsorted(chosen, own.stop) :]
        meter.filter(2 * len(later) * len(own))
        met = [np.empty(0, np.int64)]
        for box in own:
            apart = ~(bits[:, later] & bits[:, box, None]).any(0)
            met.append(pool.owner[pool.boxes.meeting(pool.boxes[box], later[apart])])
        others = np.concatenate(met)
        meter.spend(NODE + len(others) // 8)
        if len(others):
            known = np.zeros(len(pool.members), dtype=np.bool_)
            known[others] = True
            yield member, np.flatnonzero(known)


def _pack(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """(n, k) bool -> (words, n): sets of classes that can be compared at once."""
    wide = np.zeros((len(flags), -(-flags.shape[1] // 64) * 64), dtype=np.bool_)
    wide[:, : flags.shape[1]] = flags
    return np.ascontiguousarray(np.packbits(wide, axis=1).view(np.uint64).T)


def common_box(pool: RulePool, one: int, other: int) -> Box:
    """A box that two meeting members have in common."""
    theirs = np.array(pool.of_member(other), dtype=np.int64)
    for box in pool.of_member(one):
        met = pool.boxes.meeting(pool.boxes[box], theirs)
        if len(met):
            return pool.boxes[box].meet(pool.boxes[int(met[0])])
    raise AssertionError("the members do not meet")


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
