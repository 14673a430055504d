"""From the rules that hit a row to what a table says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.tensors import torch
from .bitwords import WORD, Chapter, Conditions, blocks, compile_rules, pack, working_dtype
from .buckets import BucketScratch

if TYPE_CHECKING:
    from torch import Tensor

_Masks = list[list[list[int]]]  # chapter, class, word


@dataclass(frozen=True, eq=False)
class TableProgram:
    """Rules compiled for one dtype and device, in the order in which they speak."""

    chapters: tuple[Chapter, ...]
    outcomes: NDArray[np.bool_]  # (rules, k)
    dtype: torch.dtype  # of the rows
    device: torch.device

    @staticmethod
    def of(
        rules: Sequence[Conditions],
        outcomes: NDArray[np.bool_],
        dtype: torch.dtype,
        device: torch.device,
        perhaps: bool = False,
    ) -> TableProgram:
        compiled = compile_rules(rules, dtype, device, perhaps=perhaps)
        return TableProgram(compiled, outcomes, dtype, device)

    def hits(self, x: Tensor) -> Tensor:
        """Which rule hits which row, (n, d) -> (n, rules) bool."""
        out = torch.empty(len(x), len(self.outcomes), dtype=torch.bool, device=x.device)
        places = torch.arange(WORD, device=x.device)
        for block, _, scratch, room in self._blocks(x):
            start = 0
            for chapter in self.chapters:
                words = chapter.hit(x[block], room, scratch)
                for first in range(0, chapter.rules, WORD):
                    many = min(WORD, chapter.rules - first)
                    bits = words[first // WORD].unsqueeze(1) >> places[:many]  # (n, many)
                    out[block, start + first : start + first + many] = bits.bitwise_and_(1)
                start += chapter.rules
        return out

    def first(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The outcome of the first rule that hits, one-hot, (n, k); a zero row where none does."""
        k = self.outcomes.shape[1]
        out = torch.zeros(len(x), k, dtype=dtype, device=x.device)
        for block, n, scratch, room in self._blocks(x):
            chosen = torch.full((n,), k, device=x.device)
            for chapter, classes in zip(self.chapters, self._classes, strict=True):
                words = chapter.hit(x[block], room, scratch)
                for word, by_bit in zip(words, classes, strict=True):
                    lowest = torch.neg(word, out=scratch.word[:n]).bitwise_and_(word)
                    bit = torch.frexp(lowest.double())[1]  # 0 where no rule hits, else bit + 1
                    found = torch.index_select(by_bit, 0, bit, out=scratch.word[:n])
                    chosen = torch.where(chosen == k, found, chosen)
            spoken = (chosen < k).to(dtype).unsqueeze(1)
            out[block].scatter_(1, chosen.clamp_(max=k - 1).unsqueeze(1), spoken)
        return out

    def any_of(self, x: Tensor) -> Tensor:
        """The classes that some hitting rule names, (n, k) bool."""
        out = torch.zeros(len(x), self.outcomes.shape[1], dtype=torch.bool, device=x.device)
        return self._mark(x, self._named, out)

    def all_of(self, x: Tensor) -> Tensor:
        """The classes that no hitting rule leaves out, (n, k) bool."""
        out = torch.zeros(len(x), self.outcomes.shape[1], dtype=torch.bool, device=x.device)
        return self._mark(x, self._left_out, out).logical_not_()

    def _mark(self, x: Tensor, masks: _Masks, out: Tensor) -> Tensor:
        """Mark a class where a rule of its mask hits."""
        for block, n, scratch, room in self._blocks(x):
            picked, flag = scratch.word[:n], scratch.flag[:n]
            for chapter, classes in zip(self.chapters, masks, strict=True):
                words = chapter.hit(x[block], room, scratch)
                for marks, mask in zip(out[block].T, classes, strict=True):
                    for word, bits in zip(words, mask, strict=True):
                        if bits:
                            torch.bitwise_and(word, bits, out=picked)
                            marks.logical_or_(torch.ne(picked, 0, out=flag))
        return out

    @cached_property
    def _named(self) -> _Masks:
        return self._masks(self.outcomes)

    @cached_property
    def _left_out(self) -> _Masks:
        return self._masks(~self.outcomes)

    def _masks(self, named: NDArray[np.bool_]) -> _Masks:
        return [pack(part.T).tolist() for part in self._parts(named)]

    @cached_property
    def _classes(self) -> list[Tensor]:
        """Per chapter, the class of each bit: (words, 65), where column 0 says that none hits."""
        k, tables = self.outcomes.shape[1], []
        for part in self._parts(self.outcomes):
            wide = np.full(-(-len(part) // WORD) * WORD, k)
            wide[: len(part)] = part.argmax(1)
            none = np.full((len(wide) // WORD, 1), k)
            table = np.concatenate([none, wide.reshape(-1, WORD)], axis=1)
            tables.append(torch.from_numpy(table.astype(np.int64)).to(self.device))
        return tables

    def _parts(self, rows: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
        start = 0
        for chapter in self.chapters:
            yield rows[start : start + chapter.rules]
            start += chapter.rules

    def _blocks(self, x: Tensor) -> Iterator[tuple[slice, int, BucketScratch, Tensor]]:
        """Blocks of rows with their length, and room for a column and for (words, rows)."""
        scratch = room = None
        for block in blocks(len(x), x.device):
            n = block.stop - block.start
            if scratch is None or room is None:  # the first block is the longest
                scratch = BucketScratch(n, working_dtype(self.dtype), x.device)
                most = max(len(chapter.every) for chapter in self.chapters)
                room = torch.empty(most, n, dtype=torch.int64, device=x.device)
            yield block, n, scratch, room
