"""From probabilities of bins back to numbers, without ever leaving the expert's set.

A bin that only touches S(x) may have its middle outside; so the probability of a bin is spread
evenly over that part of the bin that lies in S(x), and every number given out is one of the ends
of those parts, or lies between two of them: lower <= v <= upper holds for the very floats that
define S(x), without tolerance.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..answers import Bins, Sets
from ..answers.sets import nearest
from ..errors import FedloreError


@dataclass(frozen=True, eq=False)
class Distribution:
    """A predictive distribution for each row: even within pieces, plus the expert's own number.

    In formulas (1-w)·Σ share·Uniform(piece) + w·δ(said). Pieces without probability, and the
    expert where w = 0, are no part of its support.
    """

    lower: Tensor  # (n, k, s) float64, ends of the pieces of each bin; NaN where there is none
    upper: Tensor  # (n, k, s)
    share: Tensor  # (n, k, s), rows sum to 1
    said: Tensor  # (n,)  the number the expert named; any where the weight is 0
    weight: Tensor  # (n,)  w: how much of the probability sits on that number

    @staticmethod
    def spread(
        probabilities: Tensor,  # (n, k)
        bins: Bins,
        sets: Sets | None = None,
        *,
        said: Tensor | None = None,  # (n,) numbers in the set; NaN where the expert is silent
        weight: float | Tensor = 0.0,  # w, of all rows or of each (n,)
    ) -> "Distribution":
        """Bins' probabilities over S(x), or over the whole bins where there is no range.

        A bin of which S(x) holds single numbers only (no length) gives each of them the same.
        """
        p = probabilities.double()
        if p.ndim != 2 or p.shape[1] != bins.k:
            raise FedloreError(f"there must be {bins.k} probabilities a row, got {tuple(p.shape)}")
        if sets is None:
            sets = Sets.whole(len(p), bins.lower, bins.upper, like=p)
        lower, upper = bins.pieces(sets)
        here = ~lower.isnan()
        lost = ((p > 0) & ~here.any(2)).any(1) | ~(p.sum(1) > 0)
        if lost.any():
            row = int(lost.nonzero()[0])
            raise FedloreError(f"row {row} gives probability to a bin that its set does not touch")
        length = torch.where(here, upper - lower, 0.0)
        total = length.sum(2, keepdim=True)
        even = torch.where(total > 0, length / torch.where(total > 0, total, 1.0), 1.0 * here)
        even = even / even.sum(2, keepdim=True).clamp(min=1.0)  # several single numbers
        share = (p / p.sum(1, keepdim=True)).unsqueeze(2) * even
        silent = torch.ones(len(p), dtype=torch.bool, device=p.device)
        if said is not None:
            silent = said.isnan()
            _refuse_outside(sets, said.double(), ~silent)
        w = torch.where(silent, 0.0, weight).double()
        number = torch.zeros_like(w) if said is None else said.double().nan_to_num(nan=0.0)
        return Distribution(lower, upper, share, number, w)

    def __len__(self) -> int:
        return len(self.share)

    @property
    def classes(self) -> Tensor:
        """The probability of each bin without the expert's number, (n, k)."""
        return self.share.sum(2)

    def expected(self) -> Tensor:
        """The expected value, (n,), which may lie between pieces."""
        middle = (self.share * self._middles()).flatten(1).sum(1)
        return (1 - self.weight) * middle + self.weight * self.said

    def mean(self) -> Tensor:
        """The expected value, moved to the nearest number of the support (of two, the lower)."""
        lower, upper = self._pieces()
        return self._nearest(lower, upper, self.expected(), self.weight > 0)

    def middle(self, *, ordered: bool) -> Tensor:
        """The number that is given out: the mean, or where an order must hold the median.

        Moved to the support the mean can jump back when far pieces lose their last probability.
        """
        return self.quantile(0.5) if ordered else self.mean()

    def mode(self) -> Tensor:
        """A number in the likeliest bin: the mean of what is in it, moved into its part of S.

        At a tie the expert's bin wins, else the lowest.
        """
        within = self.share.sum(2)  # (n, k)
        own = self._own_bin()
        chance = (1 - self.weight).unsqueeze(1) * within + self.weight.unsqueeze(1) * own
        best = chance.amax(1, keepdim=True)
        tied = (chance == best) * (1.0 + own)  # the expert's bin counts double among the best
        chosen = tied.argmax(1)
        rows = torch.arange(len(self), device=chosen.device)
        share, lower, upper = (t[rows, chosen] for t in (self.share, self.lower, self.upper))
        inside = torch.where(share > 0, share * (lower + (upper - lower) / 2), 0.0).sum(1)
        heard = self.weight * own[rows, chosen]
        value = ((1 - self.weight) * inside + heard * self.said) / chance[rows, chosen]
        lower, upper = (t.masked_fill(share <= 0, torch.nan) for t in (lower, upper))
        return self._nearest(lower, upper, value, heard > 0)

    def cdf(self, values: Tensor) -> Tensor:
        """P(Y <= v) for each row's number, (n,) -> (n,)."""
        v = values.double()
        return (1 - self.weight) * self._below(v, reached=True) + self.weight * (v >= self.said)

    def quantile(self, level: float) -> Tensor:
        """The smallest number of the support that has at least `level` below or at it, (n,)."""
        if not 0.0 <= level <= 1.0:
            raise FedloreError(f"a level must lie in [0, 1], got {level}")
        w, t = self.weight, self.said
        rest = torch.where(w < 1, 1 - w, 1.0)
        below = rest * self._below(t, reached=False)  # probability before the expert's number
        upto = rest * self._below(t, reached=True) + w  # and with it
        before = (w == 0) | ((w < 1) & (level <= below) & (below > 0))
        after = (w > 0) & (w < 1) & (level > upto) & ~before
        inner = self._inner(torch.where(after, (level - w) / rest, level / rest).clamp(0.0, 1.0))
        # rounding of the sums must not change the order of quantiles around the expert's number
        ordered = torch.where(after, torch.maximum(inner, t), torch.minimum(inner, t))
        return torch.where(w == 0, inner, torch.where(before | after, ordered, t))

    def interval(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """The ends of the central interval with that probability; both lie in S(x), (n,) each."""
        if not 0.0 < level < 1.0:
            raise FedloreError(f"the level of an interval must lie between 0 and 1, got {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def region(self, level: float = 0.9) -> Sets:
        """The central interval less the gaps of S(x): a set inside S(x)."""
        return self._support().meet(Sets.of(*self.interval(level)))

    def _middles(self) -> Tensor:
        middle = self.lower + (self.upper - self.lower) / 2
        return torch.where(self.share > 0, middle, 0.0)

    def _pieces(self) -> tuple[Tensor, Tensor]:
        """The ends of the pieces with probability, (n, p); NaN elsewhere."""
        none = ~(self.share > 0) | (self.weight >= 1)[:, None, None]
        lower, upper = (t.masked_fill(none, torch.nan) for t in (self.lower, self.upper))
        return lower.flatten(1), upper.flatten(1)

    def _support(self) -> Sets:
        """All numbers with probability, the expert's included."""
        number = torch.where(self.weight > 0, self.said, torch.nan).unsqueeze(1)
        return Sets.of(*(torch.cat([ends, number], 1) for ends in self._pieces()))

    def _nearest(self, lower: Tensor, upper: Tensor, values: Tensor, heard: Tensor) -> Tensor:
        """The nearest number of the pieces (n, p), or the expert's where that is heard, (n,)."""
        near = nearest(lower, upper, values)
        away, his = (near - values).abs(), (self.said - values).abs()
        nearer = near.isnan() | (his < away) | ((his == away) & (self.said < near))
        return torch.where(heard & nearer, self.said, near)

    def _own_bin(self) -> Tensor:
        """1 for the bin of the expert's number, (n, k); zeros where it has no weight."""
        t = self.said[:, None, None]
        held = ((self.lower <= t) & (t <= self.upper)).any(2)
        last = held.double().cumsum(1) == held.sum(1, keepdim=True)  # an edge belongs above
        spoken = (self.weight > 0).unsqueeze(1)
        return (held & last & spoken).double()

    def _below(self, values: Tensor, *, reached: bool) -> Tensor:
        """The pieces' probability below a number, with or without what sits on the number."""
        v = values[:, None, None]
        length = self.upper - self.lower
        part = ((v - self.lower) / torch.where(length > 0, length, 1.0)).clamp(0.0, 1.0)
        point = (v >= self.lower) if reached else (v > self.lower)
        part = torch.where(length > 0, part, point.double())
        return torch.where(self.share > 0, self.share * part, 0.0).flatten(1).sum(1).clamp(max=1.0)

    def _inner(self, levels: Tensor) -> Tensor:
        """Quantiles of the pieces alone, each row at its own level, (n,) -> (n,)."""
        share = self.share.flatten(1)  # (n, p)
        reach = share.cumsum(1)
        level = torch.minimum(levels, reach[:, -1]).unsqueeze(1)  # sums may end below 1
        chosen = ((reach >= level) & (share > 0)).double().argmax(1, keepdim=True)
        mass, end, lower, upper = (
            t.gather(1, chosen).squeeze(1)
            for t in (share, reach, self.lower.flatten(1), self.upper.flatten(1))
        )
        part = 1 - (end - level.squeeze(1)) / torch.where(mass > 0, mass, 1.0)
        value = lower + part.clamp(0.0, 1.0) * (upper - lower)
        return torch.minimum(torch.maximum(value, lower), upper)


def _refuse_outside(sets: Sets, said: Tensor, spoken: Tensor) -> None:
    outside = spoken & ~sets.holds(said)
    if outside.any():
        row = int(outside.nonzero()[0])
        raise FedloreError(f"row {row}: the expert's number {float(said[row])!r} is not in its set")
