"""An expert heard through his own confusion: what the labels were when he said what he said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.examples import Examples
from ..core.tensors import torch
from ..errors import KnowledgeError
from .missing import hear, list_columns
from .protocols import PredictionModel

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """A P-KM behind its own confusion: soft rows, silent where the expert is silent."""

    expert: PredictionModel | None  # None where his rows came with the data
    confusion: Tensor  # (k, k)  row i: how labels fell where the expert said i; sums to 1

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, *features) -> (n, k)."""
        if self.expert is None:
            raise KnowledgeError("this expert's rows came with the data: there is nobody to ask")
        return reread(hear(self.expert, x), self.confusion)

    def looks_at(self, width: int) -> tuple[int, ...]:
        """The columns that the expert looks at."""
        return list_columns(self.expert, width)


def reread(prior: Tensor, confusion: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The expert's rows as distributions within the range, (n, k)."""
    soft = prior.double() @ confusion.to(prior.device)
    if allowed is not None:
        soft = soft * allowed
    total = soft.sum(1, keepdim=True)
    return (soft / torch.where(total > 0, total, 1.0)).to(prior.dtype)


def reread_rows(expert: PredictionModel | None, rows: Examples) -> Examples:
    """Rows that came with the word of an expert, as this model of him has it."""
    if rows.prior is None or not isinstance(expert, Recalibrated):
        return rows
    return replace(rows, prior=reread(rows.prior, expert.confusion, rows.allowed))
