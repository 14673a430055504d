"""All rules of some tables as boxes over one domain, and what can be decided about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..tables.table import Table
from .axes import Domain, Stretch, boxes_of
from .boxes import NODE, Box, Boxes, GaveUp, Index, Meter, find_uncovered, grow_box, outside

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
    boxes: Boxes
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
            Boxes.of([len(axis) for axis in domain.axes], boxes),
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


def speaks(pool: RulePool, member: int, earlier: Index, meter: Meter) -> bool:
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
    for part in outside(whole, pool.boxes, among, meter):
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


def common(pool: RulePool, one: int, other: int) -> Box:
    """A box that two meeting members have in common."""
    theirs = np.array(pool.of_member(other), dtype=np.int64)
    for box in pool.of_member(one):
        met = pool.boxes.meeting(pool.boxes[box], theirs)
        if len(met):
            return pool.boxes[box].meet(pool.boxes[int(met[0])])
    raise AssertionError("the members do not meet")
