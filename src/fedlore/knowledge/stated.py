"""What holds in most cases only, statement by statement: how often it is said to, on which rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.tensors import torch
from ..kernel.findings import Place
from .formulas.grading import GradedFormula
from .missing import allow, find_lacking, hear
from .soft import SoftFormulas, SoftRange

if TYPE_CHECKING:
    from torch import Tensor


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
