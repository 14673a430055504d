"""What a personal model answers about rows, column by column, whatever it was trained for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernel.schema import Schema

#: Who decided, by code: the range left one answer; the expert outweighed the network; the network
#: (the expert silent, not trusted, or outweighed); both said the same, or were mixed.
DECIDED = ("range", "expert", "network", "both")
RANGE, EXPERT, NETWORK, BOTH = range(4)

BLOCK = 4_096  # rows that go through a network at a time: a hidden layer stays in the cache


@dataclass(frozen=True, eq=False)
class Answers:
    """Columns for n rows. Of a number, `predicted` and `expert` are numbers and k counts bins."""

    predicted: Tensor  # (n,) int64 class, or float64 number
    probabilities: Tensor  # (n, k); exactly 0 outside the range
    allowed: Tensor  # (n, k) bool
    expert: Tensor  # (n,) int64, -1 where he is silent; or float64, NaN where he is silent
    trust: Tensor  # (n,) λ that was really used: 0 where the expert is silent
    decided: Tensor  # (n,) uint8, an index into DECIDED
    in_scope: Tensor  # (n,) bool
    low: Tensor | None = None  # (n,) float64, of a number: the least that the range allows
    high: Tensor | None = None  # (n,) and the greatest
    interval: Tensor | None = None  # (n, 2) float64, of a number: where it lies with 90 %

    def __len__(self) -> int:
        return len(self.predicted)

    @staticmethod
    def join(parts: Sequence["Answers"]) -> "Answers":
        """The answers of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        return Answers(
            torch.cat([part.predicted for part in parts]),
            torch.cat([part.probabilities for part in parts]),
            torch.cat([part.allowed for part in parts]),
            torch.cat([part.expert for part in parts]),
            torch.cat([part.trust for part in parts]),
            torch.cat([part.decided for part in parts]),
            torch.cat([part.in_scope for part in parts]),
            _join([part.low for part in parts]),
            _join([part.high for part in parts]),
            _join([part.interval for part in parts]),
        )


def in_scope(schema: Schema, x: Tensor) -> Tensor:
    """Whether every feature of a row lies where the expert declared, (n, ...) -> (n,) bool."""
    flat = x.flatten(1)
    low = flat.new_tensor([0.0 if f.levels else f.low for f in schema.features])
    high = flat.new_tensor([len(f.levels) - 1.0 if f.levels else f.high for f in schema.features])
    # what is missing is told by itself, and the range allows for it
    return (((flat >= low) & (flat <= high)) | flat.isnan()).all(1)


def _join(columns: Sequence[Tensor | None]) -> Tensor | None:
    there = [column for column in columns if column is not None]
    return torch.cat(there) if there else None
