"""The paper's hash map: what was written down for rows seen before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answers import Sets
from ..core.tensors import torch
from ..errors import KnowledgeError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Lookup:
    """Rows of knowledge keyed by the exact features.

    A row that was never written down gets `default`: zeros (abstain) for a P-KM, ones (all
    allowed) for an R-KM.
    """

    rows: Mapping[bytes, Tensor]  # features -> (k,)
    default: Tensor  # (k,)

    @staticmethod
    def of(x: Tensor, answers: Tensor) -> Lookup:
        """Write down one answer per row, (n, *features) and (n, k).

        Rows with the same features share one answer: ranges are joined; predictions must agree.
        """
        ranges = answers.dtype == torch.bool
        table: dict[bytes, Tensor] = {}
        for name, answer in zip(_keys(x), answers, strict=True):
            before = table.get(name)
            if before is None:
                table[name] = answer
            elif ranges:
                table[name] = before | answer
            elif not torch.equal(before, answer):
                raise KnowledgeError("two rows have the same features and different predictions")
        blank = torch.ones if ranges else torch.zeros
        return Lookup(table, blank(answers.shape[1], dtype=answers.dtype))

    def __call__(self, x: Tensor, /) -> Tensor:
        found = [self.rows.get(name, self.default) for name in _keys(x)]
        if not found:
            return self.default.new_zeros(0, len(self.default)).to(x.device)
        return torch.stack(found).to(x.device)


@dataclass(frozen=True)
class Written:
    """The paper's hash map for numbers: sets written down for rows seen before, by features.

    A row that was never written down may be any number.
    """

    sets: Mapping[bytes, tuple[tuple[float, ...], tuple[float, ...]]]

    @staticmethod
    def of(x: Tensor, sets: Sets) -> Written:
        """Write down one set per row; rows with the same features share the union of theirs."""
        ends: dict[bytes, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        for name, low, high in zip(_keys(x), sets.lower.tolist(), sets.upper.tolist(), strict=True):
            before = ends.get(name, ((), ()))
            ends[name] = (before[0] + tuple(low), before[1] + tuple(high))
        return Written(ends)

    def __call__(self, x: Tensor, /) -> Sets:
        anything = ((-torch.inf,), (torch.inf,))
        found = [self.sets.get(name, anything) for name in _keys(x)]
        width = max((len(low) for low, _ in found), default=1)

        def side(which: int) -> Tensor:
            rows = [[*ends[which], *[torch.nan] * (width - len(ends[which]))] for ends in found]
            return torch.tensor(rows, dtype=torch.float64, device=x.device).reshape(-1, width)

        return Sets.of(side(0), side(1))


def _keys(x: Tensor) -> list[bytes]:
    return [row.tobytes() for row in x.detach().cpu().flatten(1).numpy()]
