"""Rules that hold in most cases only: they weigh in the prediction, and no claim counts on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from .enclosure import Boxes
from .graded import Graded, Limits
from .tables import Table

Array = Any  # of numpy


@dataclass(frozen=True, eq=False)
class Soft:
    """A source with a confidence for each rule, or for its formulas."""

    inner: Any  # Table, Graded or Limits: as if it always held
    shares: Array  # (rules,), or (1,) for formulas; 1 for a rule that always holds

    @property
    def columns(self) -> Any:
        return self.inner.columns

    @property
    def trees(self) -> Any:
        return self.inner.trees

    @property
    def edges(self) -> Array:
        return self.inner.edges

    def cuts(self, column: int) -> list[float]:
        found: list[float] = self.inner.cuts(column)
        return found

    def over(self, boxes: Boxes) -> Any:
        return self.inner.over(boxes)

    def safe(self, boxes: Boxes) -> Array:
        """It refuses no row."""
        return np.ones(len(boxes.low), bool)


def soften(source: Any, confidences: Sequence[float]) -> Any:
    """A source as it is, or with confidences where any of its rules has one below 1."""
    shares = np.array(confidences, np.float64)
    if not ((shares > 0) & (shares <= 1)).all():
        raise KnowledgeError("a confidence does not lie between 0 and 1")
    if (shares == 1).all():
        return source
    if isinstance(source, Table) and source.policy not in ("first", "priority", "intersect"):
        raise KnowledgeError(f"confidences do not go with the policy {source.policy}")
    if isinstance(source, Graded) and source.spread is not None:
        raise KnowledgeError("a formula has a spread and a confidence")
    if isinstance(source, Limits) and source.crossed != "all":
        source = Limits(source.lower, source.upper, source.edges, "all")
    return Soft(source, shares)


def split(source: Any) -> tuple[list[Any], list[Soft]]:
    """What of a range always holds, and what holds in most cases only."""
    if not isinstance(source, Soft):
        return [source], []
    if not isinstance(source.inner, Table):
        return [], [source]
    table, always = source.inner, source.shares == 1
    rules = [rule for rule, kept in zip(table.rules, always, strict=True) if kept]
    others = [rule for rule, kept in zip(table.rules, always, strict=True) if not kept]
    hard = [Table(table.name, rules, table.policy, table.k)] if rules else []
    rest = Table(table.name, others, table.policy, table.k)
    return hard, [Soft(rest, source.shares[~always])]


def is_soft(known: Any) -> bool:
    """Whether anything in the prediction holds in most cases only."""
    return bool(getattr(known, "soft", ())) or any(
        isinstance(one, Soft) for one in known.predict.sources
    )
