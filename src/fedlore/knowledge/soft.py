"""Soft knowledge beside hard: what holds in most cases only weighs in the prediction.

`tables.soft` has the arithmetic. Whatever is soft is heard through λ, as all predictions are, and
never excludes a class: a range is made of rules that always hold.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.findings import Place
from ..words import Reason
from .formulas import FormulaRange, GradedFormula
from .missing import find_lacking, hear, join_columns
from .protocols import PredictionModel, RangeModel
from .tables.program import row_dtype
from .tables.soft import (
    SoftTable,
    Statement,
    find_allowed,
    find_odds,
    find_unsure,
    share_weight,
)

if TYPE_CHECKING:
    from torch import Tensor


_FAULT = "soft-rule"  # the code of errors raised here


@dataclass(frozen=True)
class SoftFormulas:
    """A class that a formula names, or a range between two, right in most cases only: a P-KM."""

    model: GradedFormula | FormulaRange
    confidence: float  # in (0, 1)
    within: RangeModel | None = field(default=None, compare=False, repr=False)  # R of each row

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise KnowledgeError(
                f"a confidence must lie between 0 and 1, got {self.confidence:g} (0.9 is 90 %; a "
                "formula without one counts as always right)"
            )

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k): distributions inside the range, or zero rows where nothing is said."""
        allowed = find_allowed(self.within, x, self.classes)
        lean, heard = self.log_odds(x, allowed)
        sure = ~find_unsure(self.unsure(x), self.within, x)
        return share_weight(lean, heard & sure, allowed).to(row_dtype(x))

    @property
    def classes(self) -> int:
        """How many classes it speaks of."""
        return len(self.model.edges) + 1

    def looks_at(self, width: int) -> tuple[int, ...]:
        return join_columns(filter(None, (self.model, self.within)), width)

    def unsure(self, x: Tensor) -> Tensor:
        """Rows in which a value is missing that the formulas look at, (n,) bool."""
        return find_lacking(self.model, x)

    def log_odds(self, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """What this adds to the log weight of each class, (n, k), and where it is heard, (n,)."""
        named = hear(self.model, x) > 0  # of a range those that it allows
        inside = (named & allowed).sum(1, keepdim=True).double()
        every = allowed.sum(1, keepdim=True)
        toward, against, heard = find_odds(self.confidence, inside, every)
        lean = torch.where(named, toward, against)
        return torch.where(heard & allowed, lean, 0.0), heard.squeeze(1)

    def statements(self, x: Tensor) -> Iterable[Statement]:
        named = hear(self.model, x) > 0
        spoken = named.any(1) & ~named.all(1) & ~self.unsure(x)
        return [Statement(f"'{self.model.text}'", Place(), self.confidence, spoken, named)]

    def entry(self) -> dict[str, Any] | None:
        said = self.model.entry()
        return said and said | {"confidence": self.confidence}

    def reasons(self, x: Tensor) -> list[list[Reason]]:
        share = self.confidence
        return [
            [Reason("soft", {"inner": one, "confidence": share}) for one in some]
            for some in self.model.reasons(x)
        ]

    def split(self) -> tuple[list[Any], list[SoftFormulas]]:
        return [], [self]


SoftRange = SoftTable | SoftFormulas


@dataclass(frozen=True)
class Softened:
    """A P-KM: what the expert predicts, weighed with ranges that hold in most cases only.

    Each of them multiplies its odds in. An expert who names one class outright is not moved; where
    he is silent the range's classes start even. Where a missing value leaves open what they say
    only one class that he names outright is heard.
    """

    expert: PredictionModel | None
    ranges: tuple[SoftRange, ...]
    within: RangeModel | None = field(default=None, compare=False, repr=False)  # R of each row

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n, k): distributions, or zero rows where nobody says anything."""
        allowed = find_allowed(self.within, x, self.classes)
        parts = [model.log_odds(x, allowed) for model in self.ranges]
        lean, heard = parts[0]
        for more, also in parts[1:]:
            lean, heard = lean + more, heard | also
        unsure = find_unsure(self.unsure(x), self.within, x)
        alone = share_weight(lean, heard & ~unsure, allowed)
        if self.expert is None:
            return alone.to(row_dtype(x))
        said = hear(self.expert, x).double()
        moved = said * lean.sub(lean.amax(1, keepdim=True)).exp()
        total = moved.sum(1, keepdim=True)
        weighed = (total > 0) & heard.unsqueeze(1)
        moved = torch.where(weighed, moved / torch.where(total > 0, total, 1.0), said)
        outright = (said == 1.0).any(1, keepdim=True)
        moved = torch.where(unsure.unsqueeze(1) & ~outright, 0.0, moved)
        spoken = (said != 0).any(1, keepdim=True)
        return torch.where(spoken, moved, alone).to(row_dtype(x))

    @property
    def classes(self) -> int:
        """How many classes it speaks of."""
        return self.ranges[0].classes

    @property
    def parts(self) -> tuple[Any, ...]:
        return (*(() if self.expert is None else (self.expert,)), *self.ranges)

    def with_parts(self, parts: tuple[Any, ...]) -> Softened:
        expert = None if self.expert is None else parts[0]
        return replace(self, expert=expert, ranges=parts[len(parts) - len(self.ranges) :])

    def unsure(self, x: Tensor) -> Tensor:
        """Rows in which a missing value leaves open which ranges weigh in, (n,) bool."""
        return torch.stack([model.unsure(x) for model in self.ranges]).any(0)


def soften(expert: PredictionModel | None, ranges: Sequence[SoftRange]) -> PredictionModel | None:
    """An expert with the soft ranges beside him; himself where there are none."""
    return Softened(expert, tuple(ranges)) if ranges else expert


def split_ranges(models: Sequence[Any]) -> tuple[list[Any], list[SoftRange]]:
    """The ranges that always hold, and what of them holds in most cases only."""
    hard, soft = list[Any](), list[SoftRange]()
    for model in models:
        always, mostly = model.split() if hasattr(model, "split") else ([model], [])
        hard += always
        soft += mostly
    return hard, soft


def place_within(model: Any, within: RangeModel | None) -> Any:
    """The same prediction with all that is soft in it inside a range; itself where it is so."""
    change = getattr(model, "with_parts", None)
    if change is not None:
        parts = tuple(place_within(one, within) for one in model.parts)
        model = model if all(map(operator.is_, parts, model.parts)) else change(parts)
    if getattr(model, "within", within) is not within:
        return replace(model, within=within)
    return model


def split_prediction(model: Any) -> tuple[Any, tuple[SoftRange, ...]]:
    """The expert, and the soft ranges that he is weighed with."""
    return (model.expert, model.ranges) if isinstance(model, Softened) else (model, ())


def lone_expert(model: Any) -> Any:
    """The expert without the soft ranges, and outside of any range."""
    return place_within(split_prediction(model)[0], None)


def has_soft(model: Any) -> bool:
    """Whether anything in a prediction holds in most cases only."""
    inner = model.parts if hasattr(model, "with_parts") else ()
    return hasattr(model, "within") or any(map(has_soft, inner))
