"""What a personal model answers about rows, column by column, whatever it was trained for."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ..core.conformal import class_misses, half_width, number_misses
from ..kernel.schema import Schema

#: Who decided, by code: the range left one answer; the expert outweighed the network; the network
#: (the expert silent, not trusted, or outweighed); both said the same, or were mixed.
DECIDED = ("range", "expert", "model", "both")
RANGE, EXPERT, MODEL, BOTH = range(4)

BLOCK = 4_096  # rows that go through a network at a time: a hidden layer stays in the cache


@dataclass(frozen=True, eq=False)
class Answers:
    """Columns for n rows. Of a number, `predicted` and `expert` are numbers and k counts bins."""

    predicted: Tensor  # (n,) int64 class, or float64 number
    probabilities: Tensor  # (n, k); exactly 0 outside the range
    allowed: Tensor  # (n, k) bool
    expert: Tensor  # (n,) int64, -1 where he names no single class; or float64, NaN where silent
    trust: Tensor  # (n,) λ that was really used: 0 where the expert is silent
    decided: Tensor  # (n,) uint8, an index into DECIDED
    in_scope: Tensor  # (n,) bool
    low: Tensor | None = None  # (n,) float64, of a number: the least that the range allows
    high: Tensor | None = None  # (n,) and the greatest
    interval: Tensor | None = None  # (n, 2) float64, of a number: where it lies with 90 %
    opinions: Tensor | None = None  # (n, j) what each member of an ensemble says by itself

    def __len__(self) -> int:
        return len(self.predicted)

    @property
    def silent(self) -> Tensor:
        """Rows about which the expert names no answer: he is silent, or torn between several."""
        return self.expert < 0 if self.interval is None else self.expert.isnan()

    def wrong(self, said: Tensor, y: Tensor) -> Tensor:
        """How far answers (n,) lie from labels: of classes 0 or 1, of a number the distance."""
        return (said != y).double() if self.interval is None else (said - y).abs()

    def losses(self, y: Tensor) -> Tensor:
        """What the answers cost, (n,): of classes the log-loss, of a number the distance."""
        if self.interval is not None:
            return self.wrong(self.predicted, y).double()
        likely = self.probabilities.gather(1, y.unsqueeze(1)).squeeze(1).double()
        return -likely.clamp(min=1e-6).log()

    def misses(self, y: Tensor) -> Tensor:
        """How far each label lies from its answer, (n,), in [0, 1]; infinite outside the range.

        Of classes the probability that it lacks; of a number its distance in halves of the model's
        own interval, d / (1 + d).
        """
        if self.interval is None or self.low is None or self.high is None:
            return class_misses(self.probabilities, y)
        return number_misses(self.predicted, self.interval, y, low=self.low, high=self.high)

    def hold(self, cut: float) -> Tensor:
        """What holds at this cut: of classes sets (n, k) bool, of a number intervals (n, 2).

        A set is never empty, and like an interval it never leaves the range.
        """
        if self.interval is None or self.low is None or self.high is None:
            found = (1.0 - self.probabilities.double() <= cut) & self.allowed
            return found | torch.nn.functional.one_hot(self.predicted, found.shape[1]).bool()
        far = half_width(self.interval) * (cut / max(1.0 - cut, 1e-12))
        low = torch.maximum(self.predicted - far, self.low)
        return torch.stack([low, torch.minimum(self.predicted + far, self.high)], 1)

    @staticmethod
    def join(parts: Sequence["Answers"]) -> "Answers":
        """The answers of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        names = [field.name for field in fields(Answers)]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        joined: dict[str, Any] = {
            name: None if some[0] is None else torch.cat(some) for name, some in columns.items()
        }
        return Answers(**joined)


def in_scope(schema: Schema, x: Tensor) -> Tensor:
    """Whether every feature of a row lies where the expert declared, (n, ...) -> (n,) bool."""
    flat = x.flatten(1)
    low = flat.new_tensor([0.0 if f.levels else f.low for f in schema.features])
    high = flat.new_tensor([len(f.levels) - 1.0 if f.levels else f.high for f in schema.features])
    # what is missing is told by itself, and the range allows for it
    return (((flat >= low) & (flat <= high)) | flat.isnan()).all(1)
