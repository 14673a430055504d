"""Soft knowledge beside hard: what holds in most cases only weighs in the prediction.

`tables.soft` has the arithmetic. Whatever is soft is heard through λ, as all predictions are, and
never excludes a class: a range is made of rules that always hold.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core.tensors import torch
from ..errors import KnowledgeError
from ..kernel.findings import Place
from .formulas import FormulaRange, GradedFormula
from .missing import allow, find_lacking, hear, join_columns
from .protocols import PredictionModel, RangeModel
from .tables.soft import (
    SoftTable,
    ask_both,
    find_allowed,
    find_odds,
    find_unsure,
    share_weight,
    split_rules,
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
        allowed = find_allowed(self.within, x, len(self.model.edges) + 1)
        lean, heard = self.log_odds(x, allowed)
        return share_weight(lean, heard & ~find_unsure(self, x), allowed).to(_dtype(x))

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the formulas or the range look at."""
        return join_columns(ask_both(self.model, self.within), width)

    def unsure(self, x: Tensor) -> Tensor:
        """Rows in which a value is missing that the formulas look at, (n,) bool."""
        return find_lacking(self.model, x)

    def log_odds(self, x: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """What this adds to the log weight of each class, (n, k), and where it is heard, (n,)."""
        graded = isinstance(self.model, GradedFormula)
        named = hear(self.model, x) > 0 if graded else allow(self.model, x).bool()
        inside = (named & allowed).sum(1, keepdim=True).double()
        every = allowed.sum(1, keepdim=True)
        toward, against, heard = find_odds(self.confidence, inside, every)
        lean = torch.where(named, toward, against)
        return torch.where(heard & allowed, lean, 0.0), heard.squeeze(1)


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
        allowed = find_allowed(self.within, x, count_soft(self.ranges[0]))
        parts = [model.log_odds(x, allowed) for model in self.ranges]
        lean, heard = parts[0]
        for more, also in parts[1:]:
            lean, heard = lean + more, heard | also
        unsure = find_unsure(self, x)
        alone = share_weight(lean, heard & ~unsure, allowed)
        if self.expert is None:
            return alone.to(_dtype(x))
        said = hear(self.expert, x).double()
        moved = said * lean.sub(lean.amax(1, keepdim=True)).exp()
        total = moved.sum(1, keepdim=True)
        weighed = (total > 0) & heard.unsqueeze(1)
        moved = torch.where(weighed, moved / torch.where(total > 0, total, 1.0), said)
        outright = (said == 1.0).any(1, keepdim=True)
        moved = torch.where(unsure.unsqueeze(1) & ~outright, 0.0, moved)
        spoken = (said != 0).any(1, keepdim=True)
        return torch.where(spoken, moved, alone).to(_dtype(x))

    @property
    def parts(self) -> tuple[Any, ...]:
        return (*(() if self.expert is None else (self.expert,)), *self.ranges)

    def with_parts(self, parts: tuple[Any, ...]) -> Softened:
        """The same of another expert and other ranges."""
        expert = None if self.expert is None else parts[0]
        return replace(self, expert=expert, ranges=parts[len(parts) - len(self.ranges) :])

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the expert or a range looks at."""
        return join_columns(self.parts, width)

    def unsure(self, x: Tensor) -> Tensor:
        """Rows in which a missing value leaves open which ranges weigh in, (n,) bool."""
        return torch.stack([model.unsure(x) for model in self.ranges]).any(0)


_SOFT = (Softened, SoftTable, SoftFormulas)


def soften(expert: PredictionModel | None, ranges: Sequence[SoftRange]) -> PredictionModel | None:
    """An expert with the soft ranges beside him; himself where there are none."""
    return Softened(expert, tuple(ranges)) if ranges else expert


def split_ranges(models: Sequence[Any]) -> tuple[list[Any], list[SoftRange]]:
    """The ranges that always hold, and what of them holds in most cases only."""
    hard, soft = list[Any](), list[SoftRange]()
    for model in models:
        if isinstance(model, SoftTable):
            always, mostly = split_rules(model)
            hard += [] if always is None else [always]
            soft.append(mostly)
        elif isinstance(model, SoftFormulas):
            soft.append(model)
        else:
            hard.append(model)
    return hard, soft


def place_within(model: Any, within: RangeModel | None) -> Any:
    """The same prediction with all that is soft in it inside a range; itself where it is so."""
    change = getattr(model, "with_parts", None)
    if change is not None:
        parts = tuple(place_within(one, within) for one in model.parts)
        model = model if all(map(operator.is_, parts, model.parts)) else change(parts)
    if isinstance(model, _SOFT) and model.within is not within:
        return replace(model, within=within)
    return model


def lone_expert(model: Any) -> Any:
    """The expert without the soft ranges beside him, and outside of any range."""
    return place_within(model.expert if isinstance(model, Softened) else model, None)


def has_soft(model: Any) -> bool:
    """Whether anything in a prediction holds in most cases only."""
    inner = model.parts if hasattr(model, "with_parts") else ()
    return isinstance(model, _SOFT) or any(map(has_soft, inner))


def count_soft(model: SoftRange) -> int:
    """How many classes a soft range speaks of."""
    if isinstance(model, SoftTable):
        return len(model.table.schema.classes)
    return len(model.model.edges) + 1


def _dtype(x: Tensor) -> torch.dtype:
    return x.dtype if x.is_floating_point() else torch.float32


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


def list_statements(model: SoftRange, x: Tensor) -> Iterator[Statement]:
    """Every statement of a soft model, in the order of its file.

    A rule that always holds, as some of a prediction table do, has confidence 1.
    """
    if isinstance(model, SoftFormulas):
        yield _state_formulas(model, x)
        return
    table = model.table
    spoken = model.speaking(x)
    for index, rule in enumerate(table.rules):
        named = torch.zeros(1, len(table.schema.classes), dtype=torch.bool)
        named[0, list(rule.outcome)] = True
        yield Statement(
            table.label(index),
            rule.place,
            model.confidences[index],
            spoken[:, index],
            named.to(x.device),
        )


def _state_formulas(model: SoftFormulas, x: Tensor) -> Statement:
    if isinstance(model.model, GradedFormula):
        named = hear(model.model, x) > 0
        text = getattr(model.model.formula, "text", "a formula")
    else:
        named = allow(model.model, x).bool()
        sides = {"lower": model.model.lower, "upper": model.model.upper}
        parts = [f"{key} = {getattr(one, 'text', '')}" for key, one in sides.items() if one]
        text = ", ".join(parts)
    spoken = named.any(1) & ~named.all(1) & ~find_lacking(model.model, x)
    return Statement(f"'{text}'", Place(), model.confidence, spoken, named)
