"""Putting questions to a pool of rules within a budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...kernel.findings import Finding, Place, Severity
from .boxes import Box, GaveUp, Index, Meter
from .pool import RulePool, clashes

WHOLE, SINGLE = 0.5, 0.02  # shares of the budget for a question about a table, and about a rule

_Answer = TypeVar("_Answer")
Keep = Callable[[int, Index], NDArray[np.bool_]]  # which of the others to list one by one


@dataclass(frozen=True)
class Review:
    """The rules as boxes, the budget, and findings about them."""

    pool: RulePool
    meter: Meter
    listed: int

    def ask(
        self, question: Callable[[], _Answer], unsure: _Answer, share: float
    ) -> tuple[_Answer, bool]:
        """The answer and whether there was one, for a share of the budget at most."""
        try:
            self.meter.question(share)
            return question(), True
        except GaveUp:
            return unsure, False

    def name(self, member: int, *, file: bool = False) -> str:
        table, (_, rule) = self.pool.table(member), self.pool.members[member]
        return f"{table.name}, {table.label(rule)}" if file else table.label(rule)

    def place(self, member: int) -> Place:
        return self.pool.table(member).rules[self.pool.members[member][1]].place

    def finding(
        self, severity: Severity, kind: str, place: Place, box: Box, *, case: str = "", **args: Any
    ) -> Finding:
        """What was found in a box of rows."""
        runs, domain = box.runs(), self.pool.domain
        return Finding(severity, kind, place, args, case, domain.region(runs), domain.row(runs))

    def pairs(self, parts: Sequence[range], keep: Keep) -> "Pairs":
        """Members of some tables that can hit one row and share no class."""
        found: list[tuple[int, int]] = []
        rest: list[tuple[int, int]] = []
        counts = [0, 0]

        def collect() -> None:
            for member, others in clashes(self.pool, parts, self.meter):
                kept = keep(member, others)
                for number, (part, some) in enumerate(((rest, ~kept), (found, kept))):
                    counts[number] += int(some.sum())
                    listed = others[some][: self.listed - len(part)]
                    part.extend((member, other) for other in listed.tolist())

        _, sure = self.ask(collect, None, WHOLE)
        return Pairs(found, counts[1], rest, counts[0], sure)


@dataclass(frozen=True)
class Pairs:
    """The first pairs to list and those to mention, how many of each, and whether that is all."""

    found: list[tuple[int, int]]
    count: int
    rest: list[tuple[int, int]]
    others: int
    sure: bool
