"""Own learners at a site with an arch or a valley: its feature is cut where it turns.

x becomes min(x, a), max(x, b), and between the ends of an interval x itself kept inside. Each of
these has one direction, or none, so that what learns monotone functions learns arches. Where a
number is concave or convex in x there is min(x, t) or max(x, t) at some t beside x: sums of these
whose weights have one sign are all the concave lines with knots there, or all the convex ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .linear import STRAIGHT, Family, weights_keep
from .trees import Trees

_LARGEST = torch.finfo(torch.float32).max
_KNOTS = torch.arange(1, 8) / 8  # quantiles at which a line may bend


@dataclass(frozen=True, eq=False)
class Bent:
    """Outputs that are linear in columns kept between two ends, then standardised."""

    column: Tensor  # (c,) int16  the input that a column is
    low: Tensor  # (c,) float32  between which it is kept
    high: Tensor  # (c,) float32
    mean: Tensor  # (c,) float64
    scale: Tensor  # (c,) float64
    weight: Tensor  # (c, o) float64
    constant: Tensor  # (o,) float64

    @property
    def outputs(self) -> int:
        return len(self.constant)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        kept = keep_between(inputs[:, self.column.long()], self.low, self.high)
        return ((kept.double() - self.mean) / self.scale) @ self.weight + self.constant

    def ways(self, signs: Tensor) -> Tensor:
        """The direction that each column must have: 1, -1, 0 (free), NaN (no weight)."""
        first, start, end, bend = signs[:, self.column.long()]
        found = torch.where(start.isnan(), first, torch.nan)
        found = torch.where((self.low >= start) & (self.high <= end), 0.0, found)
        found = torch.where(self.high <= start, first, found)
        found = torch.where(self.low >= end, -first, found)
        # min(x, t) is concave, max(x, t) convex, what is kept between two ends neither
        below, above = self.low <= -_LARGEST, self.high >= _LARGEST
        knee = torch.where(below, -bend, torch.where(above, bend, torch.nan))
        knee = torch.where((first * knee >= 0) & (bend != STRAIGHT), knee, torch.nan)
        return torch.where((bend == 0) | (below & above), found, knee)

    def keeps(self, signs: Tensor) -> bool:
        """Whether it moves as the signs say: read off its weights."""
        return weights_keep(self.weight[:, 0], self.ways(signs))


def keep_between(columns: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Single-precision columns, each moved between its two ends."""
    return torch.minimum(torch.maximum(columns.float(), low), high)


@dataclass(frozen=True, eq=False)
class Cut:
    """Inputs with those that turn cut in pieces of one direction, (c,) each."""

    column: Tensor  # int64
    low: Tensor  # float32
    high: Tensor
    way: Tensor  # float64  1, -1, 0: free, NaN: withheld

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, c), fewer where what is heard is left away."""
        c = self.count(inputs)
        return keep_between(inputs[:, self.column[:c]], self.low[:c], self.high[:c])

    def count(self, inputs: Tensor) -> int:
        return int((self.column < inputs.shape[1]).sum())


def cut_inputs(signs: Tensor, inputs: Tensor | None = None) -> Cut | None:
    """How inputs with these signs are cut; None where none turns or bends.

    The knots of what bends lie evenly among these inputs; without any it is left out, since steps
    do not bend.
    """
    if bool(signs[1].isnan().all()) and not bool(signs[3].any()):
        return None
    found: list[tuple[float, ...]] = []
    for place, (way, start, end, bend) in enumerate(signs.T.tolist()):
        if bend and inputs is None:
            found.append((place, 0.0, 0.0, math.nan))
            continue
        if start != start:
            found.append((place, -_LARGEST, _LARGEST, way))
            if bend and bend != STRAIGHT and inputs is not None and way == way:
                # the kind of knee whose sign the direction allows
                upper = way * bend > 0
                knots = inputs[:, place].float().quantile(_KNOTS)
                ends = [
                    (t, _LARGEST) if upper else (-_LARGEST, t) for t in sorted({*knots.tolist()})
                ]
                found += [(place, *pair, bend if upper else -bend) for pair in ends]
            continue
        found.append((place, -_LARGEST, start, way))
        if start < end:
            found.append((place, start, end, 0.0))
        found.append((place, end, _LARGEST, -way))
    column, low, high, way_ = torch.tensor(found, dtype=torch.float64).T
    return Cut(column.long(), low.float(), high.float(), way_)


@dataclass(frozen=True, eq=False)
class TurningLearner:
    """A learner that keeps signs, on inputs that are cut where they turn."""

    inner: Family
    cut: Cut

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def settings(self) -> Sequence[Any]:
        return self.inner.settings

    def near(self, setting: Any) -> Sequence[Any]:
        return self.inner.near(setting)

    def trace(self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[Any]) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        return self.inner.trace(self.cut(inputs), target, self.cut(at), settings)

    def fit(self, inputs: Tensor, target: Tensor, setting: Any) -> Bent | Trees:
        """The model of one setting, of the inputs as they are."""
        made = self.inner.fit(self.cut(inputs), target, setting)
        c = self.cut.count(inputs)
        column = self.cut.column[:c].to(torch.int16)
        if isinstance(made, Trees):  # what is asked of min(x, a) below a can be asked of x
            feature = torch.where(made.feature < 0, made.feature, column[made.feature.long()])
            return replace(made, feature=feature)
        ends = self.cut.low[:c], self.cut.high[:c]
        return Bent(column, *ends, made.mean, made.scale, made.weight, made.constant)
