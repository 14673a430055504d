"""Sorting the values of a column into the buckets between cuts, without a branch per value.

A monotone map sends every value to one of at most 4096 cells; the cuts in that cell (mostly none or
one) are compared one by one. Rounding in the map moves cell borders but never the answer: x >= cut
implies cell(x) >= cell(cut), and both are computed by the same operations. This was five times as
fast as torch.searchsorted on 100 cuts, which mispredicts a branch at every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.tensors import torch

if TYPE_CHECKING:
    from torch import Tensor

SIZES = (64, 256, 1024, 4096)
_DEEPEST = 4  # cuts in one cell; beyond that a search is no slower


class BucketScratch:
    """Room for one block of a column; used again and again, so nothing is allocated per block."""

    def __init__(self, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        def room(kind: torch.dtype) -> Tensor:
            return torch.empty(rows, dtype=kind, device=device)

        self.column, self.other = room(dtype), room(dtype)
        self.cell, self.bucket = room(torch.int32), room(torch.int32)
        self.flag, self.word = room(torch.bool), room(torch.int64)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Bucket b holds the values from cut b-1 (inclusive) to cut b; the last one, m+1, holds NaN."""

    cuts: Tensor  # (m,) ascending, distinct
    low: float = 0.0
    scale: float = 0.0  # 0: no useful cells, search instead
    size: int = 0
    before: Tensor | None = None  # (size + 1,) cuts in lower cells; cell 0 is that of NaN
    inside: Tensor | None = None  # (depth, size + 1) cuts in the cell, NaN where there are fewer

    def sort(self, scratch: BucketScratch, rows: int) -> Tensor:
        """The bucket of each of the first values in `scratch.column`, (rows,)."""
        column, bucket = scratch.column[:rows], scratch.bucket[:rows]
        flag = scratch.flag[:rows]
        if self.before is None or self.inside is None:
            torch.searchsorted(self.cuts, column, right=True, out_int32=True, out=bucket)
            return bucket.masked_fill_(torch.ne(column, column, out=flag), len(self.cuts) + 1)
        other = scratch.other[:rows]
        cell = _cells(column, self.low, self.scale, self.size, other, scratch.cell[:rows])
        torch.index_select(self.before, 0, cell, out=bucket)
        for cuts in self.inside:
            torch.index_select(cuts, 0, cell, out=other)
            bucket.add_(torch.ge(column, other, out=flag))
        return bucket


def buckets(cuts: Tensor) -> Buckets:
    """Prepare the cuts, (m,) ascending and distinct, for sorting values of their dtype."""
    best = Buckets(cuts)
    finite = bool(cuts.isfinite().all()) and len(cuts) > 0
    spread = float(cuts[-1]) - float(cuts[0]) if finite else math.inf
    depth = _DEEPEST + 1
    for size in SIZES:
        step = spread / (size - 2) or 1.0
        low, scale = float(cuts[0]) - step if finite else 0.0, 1.0 / step
        if not finite or not math.isfinite(low) or not _fits(low, scale, cuts.dtype):
            break
        cell = _cells(
            cuts,
            low,
            scale,
            size,
            torch.empty_like(cuts),
            torch.empty_like(cuts, dtype=torch.int32),
        ).long()
        counts = torch.bincount(cell, minlength=size + 1)
        if int(counts.max()) < depth:
            depth = int(counts.max())
            best = _fill(cuts, cell, counts, low=low, scale=scale, size=size)
    return best


def _fill(
    cuts: Tensor, cell: Tensor, counts: Tensor, *, low: float, scale: float, size: int
) -> Buckets:
    before = (counts.cumsum(0) - counts).to(torch.int32)
    before[0] = len(cuts) + 1
    inside = cuts.new_full((int(counts.max()), size + 1), math.nan)
    nth = torch.arange(len(cuts), device=cuts.device) - before[cell]
    inside[nth, cell] = cuts
    return Buckets(cuts, low, scale, size, before, inside)


def _cells(
    values: Tensor, low: float, scale: float, size: int, room: Tensor, out: Tensor
) -> Tensor:
    """A cell from 1 to size for each value, never falling as values rise; 0 for NaN."""
    scaled = torch.sub(values, low, out=room).mul_(scale)
    return out.copy_(scaled.clamp_(1, size).nan_to_num_(0.0))


def _fits(low: float, scale: float, dtype: torch.dtype) -> bool:
    """Whether the map's constants stay finite and positive in the dtype."""
    info = torch.finfo(dtype)
    return abs(low) <= info.max and info.tiny <= scale <= info.max
