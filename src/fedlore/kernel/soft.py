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

    def lacks(self, x: Array) -> Array:
        return self.inner.lacks(x)

    def safe(self, boxes: Boxes) -> Array:
        """It refuses no row."""
        return np.ones(len(boxes.low), bool)

    def unsure(self, x: Array) -> Array:
        """Rows in which a missing value leaves open what is said, (n,)."""
        if not isinstance(self.inner, Table):
            return self.inner.lacks(x)
        if self.inner.policy != "intersect":
            return np.zeros(len(x), bool)
        return (self.inner.hits(x, perhaps=True) & ~self.inner.hits(x)).any(1)

    def speaking(self, x: Array) -> Array:
        """Which rules are heard, (n, rules)."""
        hits = self.inner.hits(x)
        if self.inner.policy == "intersect":
            return hits
        may_hit = self.inner.hits(x, perhaps=True)
        return hits & (np.cumsum(may_hit, axis=1) == 1)

    def lean(self, x: Array, allowed: Array) -> tuple[Array, Array]:
        """What is added to the log weight of each class, (n, k), and where anything is, (n,)."""
        if isinstance(self.inner, Table):
            named = np.broadcast_to(self.inner.named, (len(x), *self.inner.named.shape))
            heard = self.speaking(x) & (self.shares < 1)
        else:
            said = self.inner.says(x)[0] > 0 if isinstance(self.inner, Graded) else None
            said = self.inner.says(x)[0] if said is None else said
            named, heard = said[:, None, :], np.ones((len(x), 1), bool)
        inside = (named & allowed[:, None, :]).sum(2).astype(np.float64)  # (n, rules)
        every = allowed.sum(1, keepdims=True)
        outside = every - inside
        heard = heard & (inside > 0) & (outside > 0)
        with np.errstate(divide="ignore"):
            toward = np.log(self.shares * every / np.maximum(inside, 1))
            against = np.log((1 - self.shares) * every / np.maximum(outside, 1))
        part = np.where(named, toward[:, :, None], against[:, :, None])
        lean = np.where(heard[:, :, None], part, 0.0).sum(1)
        return np.where(allowed, lean, 0.0), heard.any(1)

    def rows(self, x: Array, allowed: Array, open_range: Array) -> Array:
        """A prediction, (n, k), given the range and where it is open for want of a value."""
        lean, heard = self.lean(x, allowed)
        soft = spread_out(lean, heard & ~self.unsure(x) & ~open_range, allowed)
        if isinstance(self.inner, Table):
            sure = (self.speaking(x) & (self.shares == 1)) @ self.inner.named
            soft = np.where(sure.any(1)[:, None], sure.astype(np.float64), soft)
        return soft.astype(np.float32)


def spread_out(lean: Array, heard: Array, allowed: Array) -> Array:
    """Distributions over the range from log weights, (n, k); zero rows where none is heard."""
    masked = np.where(allowed, lean, -np.inf)
    top = masked.max(1, keepdims=True)
    raised = np.exp(masked - np.where(np.isfinite(top), top, 0.0))
    total = raised.sum(1, keepdims=True)
    return np.where(heard[:, None], raised / np.where(total > 0, total, 1.0), 0.0)


def weigh_in(
    soft: list[Soft], x: Array, said: Array | None, allowed: Array, open_range: Array
) -> Array:
    """An expert's rows (n, k) with the odds of all soft ranges multiplied in."""
    parts = [one.lean(x, allowed) for one in soft]
    lean, heard = sum(p for p, _ in parts), np.any([h for _, h in parts], axis=0)
    unsure = np.any([one.unsure(x) for one in soft], axis=0) | open_range
    alone = spread_out(np.asarray(lean), heard & ~unsure, allowed)
    if said is None:
        return alone.astype(np.float32)
    said = said.astype(np.float64)
    moved = said * np.exp(lean - np.max(lean, axis=1, keepdims=True))
    total = moved.sum(1, keepdims=True)
    moved = np.where((total > 0) & heard[:, None], moved / np.where(total > 0, total, 1), said)
    outright = (said == 1).any(1)
    moved = np.where((unsure & ~outright)[:, None], 0.0, moved)
    return np.where(said.any(1)[:, None], moved, alone).astype(np.float32)


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
