"""Rules that hold in most cases only: a distribution over the classes, never a wall.

A rule with confidence c and classes S says: c of the weight on S, the rest on the other classes of
the range R, evenly on either side. Several that hit one row are taken as independent witnesses:
their odds against an even spread are multiplied (the log-linear pool of Genest and Zidek 1986,
*Combining Probability Distributions*, with weights 1). A rule that nothing of R contradicts, or
that contradicts all of R, says nothing there. In a row where a missing value leaves open whether
such a rule hits, or what R is, nothing soft is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.cells import number
from ...kernel.findings import Place
from ..missing import allow, find_lacking, join_columns
from ..protocols import RangeModel
from .program import row_dtype
from .table import Table

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SoftTable:
    """Rules of which some hold in most cases only.

    Of a prediction table one rule speaks, as its hit policy says, and one of confidence 1 names its
    class outright; called on rows it is a P-KM. Of a range table each rule that hits weighs in.
    """

    of_number: ClassVar[bool] = False

    table: Table  # the rules as if they always held
    confidences: tuple[float, ...]  # one per rule, in (0, 1]; 1: it always holds
    within: RangeModel | None = field(default=None, compare=False, repr=False)  # R of each row

    def __post_init__(self) -> None:
        if len(self.confidences) != len(self.table.rules):
            raise KnowledgeError(
                f"{self.table.name}: there must be a confidence for each of "
                f"{len(self.table.rules)} rules, got {len(self.confidences)}"
            )
        for index, confidence in enumerate(self.confidences):
            if not 0.0 < confidence <= 1.0:
                raise KnowledgeError(
                    f"{self.table.label(index)}: a confidence must lie in (0, 1], got "
                    f"{confidence:g}"
                )
        if min(self.confidences) == 1.0:
            raise KnowledgeError(
                f"{self.table.name}: every rule has confidence 1, so nothing is soft: use the "
                "table itself"
            )
        if self.table.policy not in ("first", "priority", "intersect"):
            raise KnowledgeError(
                f"{self.table.name}: rules with a confidence need the hit policy first, priority "
                f"or intersect, got {self.table.policy}"
            )

    @property
    def classes(self) -> int:
        """How many classes it speaks of."""
        return len(self.table.schema.classes)

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k): distributions inside the range, or zero rows where nothing is said."""
        allowed = find_allowed(self.within, x, self.classes)
        speaking = self.speaking(x).double()
        sure = speaking @ (self._outcomes * (self._shares == 1.0).unsqueeze(1)).to(x.device)
        lean, heard = self.log_odds(x, allowed)
        soft = share_weight(lean, heard & ~find_unsure(self.unsure(x), self.within, x), allowed)
        rows = torch.where(sure.any(1, keepdim=True), sure, soft)
        return rows.to(row_dtype(x))

    def looks_at(self, width: int) -> tuple[int, ...]:
        return join_columns(filter(None, (self.table, self.within)), width)

    def unsure(self, x: Tensor) -> Tensor:
        """Rows in which a missing value leaves open which rules weigh in, (n,) bool."""
        if self.table.kind == "range":
            return self.table.undecided(x).any(1)
        return torch.zeros(len(x), dtype=torch.bool, device=x.device)  # see `speaking`

    def speaking(self, x: Tensor) -> Tensor:
        """Which rules are heard in each row, (n, d) -> (n, rules) bool."""
        hits = self.table.hits(x)
        if self.table.kind == "range":
            return hits
        # one behind a rule that a missing value leaves open is not heard
        return hits & self.table.first_of(hits | self.table.undecided(x))

    def log_odds(self, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """What soft rules add to the log weight of each class, (n, k), and where one is heard."""
        confidence, outcomes = (t.to(allowed.device) for t in (self._shares, self._outcomes))
        speaking = self.speaking(x).to(allowed.device) & (confidence < 1.0)
        inside = allowed.double() @ outcomes.T  # (n, rules): classes of the range that it names
        toward, against, some = find_odds(confidence, inside, allowed.sum(1, keepdim=True))
        heard = speaking & some
        toward, against = (torch.where(heard, side, 0.0) for side in (toward, against))
        return (toward @ outcomes + against @ (1.0 - outcomes)) * allowed, heard.any(1)

    def cells(self) -> list[list[str]]:
        """The table as text, header first, with the confidences."""
        shares = ["confidence", *map(number, self.confidences)]
        return [[*row, share] for row, share in zip(self.table.cells(), shares, strict=True)]

    def statements(self, x: Tensor) -> Iterator[Statement]:
        spoken, named = self.speaking(x), self.table.named.to(x.device)
        for index, (rule, share) in enumerate(zip(self.table.rules, self.confidences, strict=True)):
            name = self.table.label(index)
            yield Statement(name, rule.place, share, spoken[:, index], named[index : index + 1])

    def split(self) -> tuple[list[Any], list[SoftTable]]:
        rules = list(zip(self.table.rules, self.confidences, strict=True))
        hard = tuple(rule for rule, share in rules if share == 1.0)
        soft = replace(self.table, rules=tuple(rule for rule, share in rules if share < 1.0))
        shares = tuple(share for _, share in rules if share < 1.0)
        always = [replace(self.table, rules=hard)] if hard else []
        return always, [replace(self, table=soft, confidences=shares)]

    @cached_property
    def _outcomes(self) -> Tensor:
        """Which rule names which class, (rules, k) float64."""
        return self.table.named.double()

    @cached_property
    def _shares(self) -> Tensor:
        """The confidence of each rule, (rules,) float64."""
        return torch.tensor(self.confidences, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Statement:
    """One rule, or the formulas of one source, on n rows."""

    name: str
    place: Place
    confidence: float  # the share of cases in which it is said to hold
    spoken: Tensor  # (n,) bool  where it is heard
    named: Tensor  # (n, k) or (1, k) bool  what it says

    def right(self, y: Tensor) -> Tensor:
        """Where it is heard and names the label, (n,) bool."""
        named = self.named.expand(len(y), -1).gather(1, y.unsqueeze(1)).squeeze(1)
        return self.spoken & named


def find_odds(
    confidence: Tensor | float, inside: Tensor, every: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log weights against an even spread: of a class that is named, and of one that is not.

    `inside` counts the classes of the range that are named, of `every`. With them whether anything
    is said: not where all of the range is named, or nothing of it.
    """
    outside = every - inside
    toward = (confidence * every / inside.clamp(min=1.0)).log()
    against = ((1.0 - confidence) * every / outside.clamp(min=1.0)).log()
    return toward, against, (inside > 0) & (outside > 0)


def share_weight(lean: Tensor, heard: Tensor, allowed: Tensor) -> Tensor:
    """Distributions over the range from log weights, (n, k); zero rows where none is heard."""
    shares = lean.masked_fill(~allowed, -torch.inf).softmax(1)
    return torch.where(heard.unsqueeze(1), shares, 0.0)


def find_unsure(unsure: Tensor, within: RangeModel | None, x: Tensor) -> Tensor:
    """Rows in which a missing value leaves open what is said, or what the range is, (n,) bool."""
    return unsure if within is None else unsure | find_lacking(within, x)


def find_allowed(within: RangeModel | None, x: Tensor, k: int) -> Tensor:
    """The range of each row, (n, k) bool; every class where there is no range."""
    if within is None:
        return torch.ones(len(x), k, dtype=torch.bool, device=x.device)
    allowed: Tensor = allow(within, x).bool()
    return allowed
