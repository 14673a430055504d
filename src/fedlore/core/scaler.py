"""Rows as a network takes them: encoded, and standardised from sums without sharing rows.

A number stays one number; of levels each has a column of its own; where a value may be missing
there is a column that says so, and something stands for the value. Columns keep the order of the
features. What the expert says of a row may stand behind them, and stays as it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from ..errors import FedloreError
from .tree import Params

Stand = Literal["mean", "median", "given"]  # where what stands for a missing value comes from

HISTOGRAM_BINS = 512  # of the histogram that a median is read from


@dataclass(frozen=True)
class Input:
    """One feature: how many columns it becomes, and what stands for it where it is missing."""

    levels: int = 0  # 0: a number
    other: bool = False  # a level more, for all that are not named
    missing: bool = False
    stand: Stand = "given"
    fill: float = 0.0  # in raw units; of levels a position, NaN for none of them
    low: float = -math.inf  # the scope, for medians
    high: float = math.inf

    @property
    def width(self) -> int:
        return (self.levels + self.other or 1) + self.missing


@dataclass(frozen=True)
class Inputs:
    """All features of a row."""

    features: tuple[Input, ...]

    @property
    def width(self) -> int:
        """How many inputs a network has for a row."""
        return sum(one.width for one in self.features)

    def encode(self, x: Tensor) -> Tensor:
        """(n, d) in raw units, NaN where a value is missing -> (n, width) without holes."""
        return self._spread(x, filled=True)

    def decode(self, x: Tensor) -> Tensor:
        """Encoded rows in raw units again, with their holes; rows that are raw stay as they are."""
        if x.ndim != 2 or x.shape[1] != self.width:
            return x
        parts: list[Tensor] = []
        column = 0
        for one in self.features:
            part = x[:, column : column + one.width]
            column += one.width
            value = part[:, 0]
            if one.levels:
                places = part[:, : one.levels + one.other]
                value = torch.where(places.sum(1) > 0, places.argmax(1).to(x.dtype), torch.nan)
            hole = part[:, -1] > 0 if one.missing else torch.zeros_like(value).bool()
            parts.append(torch.where(hole, torch.nan, value))
        return torch.stack(parts, 1)

    @property
    def flags(self) -> tuple[int, ...]:
        """The inputs that say whether a value is missing."""
        ends = accumulate(one.width for one in self.features)
        return tuple(end - 1 for end, one in zip(ends, self.features, strict=True) if one.missing)

    def moments(self, x: Tensor) -> Params:
        """Counts, sums and sums of squares of every column over the values that are there.

        Where values may be missing, a site counts as one row, their mean: a count of values in a
        sum over sites tells which sites lack the column. Flags are on their scale already. For
        medians there is a histogram over the scope beside them, (m, BINS).
        """
        features = [*self.features, *[Input()] * (x.shape[1] - len(self.features))]
        widths = torch.tensor([one.width for one in features], device=x.device)
        may = torch.tensor([one.missing for one in features], device=x.device)
        there = ~x.isnan().repeat_interleave(widths, 1)
        wide = torch.where(there, self._spread(x, filled=False).double(), 0.0)
        rows = there.double().sum(0)
        each = torch.where(may.repeat_interleave(widths), rows.clamp(min=1.0), 1.0)
        found = {"rows": rows, "sum": wide.sum(0), "squares": wide.square().sum(0)}
        found = {name: total / each for name, total in found.items()}
        for name, value in (("rows", 1.0), ("sum", 0.0), ("squares", 1.0)):
            found[name][list(self.flags)] = value
        medians = [(i, one) for i, one in enumerate(self.features) if one.stand == "median"]
        if medians:
            found["histograms"] = torch.stack([_histogram(x[:, i], one) for i, one in medians])
        return found

    def fill_from(self, shift: Tensor, histograms: Tensor | None) -> "Inputs":
        """The same with what the sites' sums say: means of columns, medians of histograms."""
        found, column, place = [], 0, 0
        for one in self.features:
            if one.stand == "median" and histograms is not None:
                one = replace(one, fill=_median(histograms[place], one.low, one.high))
                place += 1
            elif one.stand == "mean" and not shift[column].isnan():
                one = replace(one, fill=float(shift[column]))
            column += one.width
            found.append(one)
        return Inputs(tuple(found))

    @property
    def fills(self) -> Tensor:
        """What stands for a missing value of each feature, (d,) float64."""
        return torch.tensor([one.fill for one in self.features], dtype=torch.float64)

    def without_fills(self) -> "Inputs":
        """The same without what is still to be found out: equal where rows may be pooled."""
        features = (
            f if f.stand == "given" else replace(f, fill=0.0, low=-math.inf, high=math.inf)
            for f in self.features
        )
        return Inputs(tuple(features))

    def join(self, other: "Inputs") -> "Inputs":
        """The same over both scopes, so that histograms of either can be added up."""
        found = []
        for a, b in zip(self.features, other.features, strict=True):
            low, high = min(a.low, b.low), max(a.high, b.high)
            joined = replace(a, low=low, high=high, fill=(low + high) / 2)
            found.append(joined if a.stand == "median" else a)
        return Inputs(tuple(found))

    def with_fills(self, fills: Sequence[float]) -> "Inputs":
        pairs = zip(self.features, fills, strict=True)
        return Inputs(tuple(replace(one, fill=float(fill)) for one, fill in pairs))

    def _spread(self, x: Tensor, *, filled: bool) -> Tensor:
        d = len(self.features)
        if x.ndim != 2 or x.shape[1] < d:
            raise FedloreError(f"rows must have {d} features, got shape {tuple(x.shape)}")
        parts: list[Tensor] = []
        for i, one in enumerate(self.features):
            value = x[:, i : i + 1]
            hole = value.isnan()
            if one.missing and filled and not math.isnan(one.fill):
                value = torch.where(hole, one.fill, value)
            if one.levels:
                places = torch.arange(one.levels + one.other, dtype=x.dtype, device=x.device)
                value = (value == places).to(x.dtype)
            parts += [value, hole.to(x.dtype)] if one.missing else [value]
        return torch.cat([*parts, x[:, d:]], 1)


def _histogram(values: Tensor, one: Input) -> Tensor:
    """Shares of the values that are there, those out of scope at its ends."""
    inside = values[~values.isnan()].double().clamp(one.low, one.high)
    counts = torch.histc(inside, HISTOGRAM_BINS, one.low, one.high)
    return counts / max(len(inside), 1)


def _median(counts: Tensor, low: float, high: float) -> float:
    """Where half of a histogram lies below; the middle where it is empty."""
    total = counts.cumsum(0)
    if float(total[-1]) <= 0:
        return (low + high) / 2
    half = float(total[-1]) / 2
    place = int((total < half).sum())
    before = float(total[place] - counts[place])
    step = (high - low) / len(counts)
    return low + step * (place + (half - before) / max(float(counts[place]), 1e-12))


__all__ = ["Scaler", "from_moments", "moments"]


@dataclass(frozen=True, eq=False)
class Scaler:
    """x -> (x - shift) / spread, feature by feature."""

    shift: Tensor  # (*features)
    spread: Tensor  # (*features), positive
    inputs: Inputs | None = None  # where features are not plain numbers: shift is then of these

    def __call__(self, x: Tensor) -> Tensor:
        x = self.encode(x)
        return ((x.double() - self.shift) / self.spread).to(x.dtype)

    def encode(self, x: Tensor) -> Tensor:
        """Rows in raw units without holes and names; those that are so already stay."""
        if self.inputs is None:
            return x
        wider = self.inputs.width > len(self.inputs.features)
        return x if wider and x.shape[1] == len(self.shift) else self.inputs.encode(x)

    def tensors(self) -> Params:
        """All that was learned, by name."""
        found = {"shift": self.shift, "spread": self.spread}
        return found if self.inputs is None else found | {"fills": self.inputs.fills}

    def widen(self, columns: int) -> "Scaler":
        """The same with more columns behind it that are on their scale already."""
        none = self.shift.new_zeros(columns)
        shift, spread = torch.cat([self.shift, none]), torch.cat([self.spread, none + 1.0])
        return Scaler(shift, spread, self.inputs)

    @staticmethod
    def of(x: Tensor) -> "Scaler":
        return from_moments(moments(x))

    @staticmethod
    def read(tensors: Params, inputs: Inputs | None) -> "Scaler":
        """What `tensors` gave, for rows of these inputs."""
        if inputs is not None and "fills" in tensors:
            inputs = inputs.with_fills(tensors["fills"].tolist())
        return Scaler(tensors["shift"], tensors["spread"], inputs)


def leave_unscaled(inputs: Inputs) -> Scaler:
    """Inputs as they are, where nothing is scaled."""
    zeros = torch.zeros(inputs.width, dtype=torch.float64)
    return Scaler(zeros, zeros + 1.0, inputs)


def moments(x: Tensor) -> Params:
    """Row count, sums and sums of squares in float64: what a site gives away for a scaling."""
    wide = x.double()
    return {
        "rows": torch.tensor(float(len(x)), dtype=torch.float64),
        "sum": wide.sum(0),
        "squares": wide.square().sum(0),
    }


def from_moments(total: Params, inputs: Inputs | None = None) -> Scaler:
    """The scaler of pooled rows, from the sum (or the mean) of the sites' moments."""
    rows = total["rows"]
    if inputs is not None:  # a value that nobody has: what was there before the sums stands for it
        rows = torch.where(rows > 0, rows, 1.0)
    shift = total["sum"] / rows
    variance = (total["squares"] / rows - shift.square()).clamp(min=0)
    spread = variance.sqrt()
    # a constant feature carries nothing: leave it at 0 rather than divide by rounding error
    constant = variance <= 1e-12 * (shift.square() + 1e-30)
    if inputs is not None:
        known = torch.where(total["rows"] > 0, shift, torch.nan)
        inputs = inputs.fill_from(known, total.get("histograms"))
    return Scaler(shift, torch.where(constant, 1.0, spread), inputs)
