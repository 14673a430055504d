"""Numbers as classes: [l, u] cut into k bins (Fan et al. 2022, appendix C).

After Torgo and Gama (1997), Regression using Classification Algorithms. All bins are half-open,
[e_i, e_{i+1}), but the last, which has its end: y = u falls into it and not off it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.tensors import torch
from ..errors import FedloreError
from ..kernel.cells import even_edges
from .sets import Sets

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Bins:
    """k classes of numbers in [lower, upper], of equal widths or cut at `inner` edges.

    Bounds and edges are part of what the federation declares beforehand. They are never taken
    from the sites' labels: the smallest and the largest label of a site are its own business.
    """

    lower: float  # ℓ in the paper
    upper: float  # u in the paper
    k: int
    inner: tuple[float, ...] | None = None  # the k - 1 edges between; equal widths without

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise FedloreError(f"bounds must be finite, got {self.lower} and {self.upper}")
        if not self.lower < self.upper:
            raise FedloreError(
                f"bins need lower < upper, got lower {self.lower!r} and upper {self.upper!r}"
            )
        if type(self.k) is not int or self.k < 2:
            raise FedloreError(f"there must be at least 2 bins, got {self.k}")
        if self.inner is not None:
            object.__setattr__(self, "inner", tuple(float(edge) for edge in self.inner))
            assert self.inner is not None
            if len(self.inner) != self.k - 1:
                raise FedloreError(
                    f"{self.k} bins need {self.k - 1} inner edges, got {len(self.inner)}"
                )
        for low, high in itertools.pairwise(self.edges):
            if not low < high:  # for equal widths: too many bins for floating point
                raise FedloreError(f"edges must increase, got {low!r} before {high!r}")

    @staticmethod
    def at(edges: Sequence[float]) -> Bins:
        """Bins between all k + 1 edges, bounds included.

        >>> Bins.at([0, 1, 10]).k
        2
        """
        if len(edges) < 3:
            raise FedloreError(f"there must be at least 2 bins, got {len(edges)} edges")
        first, *inner, last = (float(edge) for edge in edges)
        return Bins(first, last, len(inner) + 1, tuple(inner))

    @staticmethod
    def quantiles(sample: Tensor, k: int, *, lower: float, upper: float) -> Bins:
        """Bins that each hold about as many numbers of a public sample, (n,).

        The sample must be one that may be published: its quantiles become part of the schema.
        Edges that would coincide (a number that occurs very often) are one, so k may shrink.
        """
        values = sample.double().flatten()
        if not len(values) or not values.isfinite().all():
            raise FedloreError("quantile edges need a sample of finite numbers")
        if k < 2:
            raise FedloreError(f"there must be at least 2 bins, got {k}")
        levels = torch.arange(1, k, dtype=torch.float64, device=values.device) / k
        cuts = sorted(set(torch.quantile(values, levels).tolist()))
        return Bins.at([lower, *(cut for cut in cuts if lower < cut < upper), upper])

    @staticmethod
    def around(labels: Tensor, k: int, *, margin: float = 0.05) -> Bins:
        """Bins over the span of one site's labels and a share of it on both sides.

        Only for a model that stays at the site: the bounds tell its smallest and largest label.
        """
        low, high = float(labels.min()), float(labels.max())
        # all alike: any span will do that floating point can cut into bins
        span = high - low if high > low else max(1.0, abs(low))
        return Bins(low - margin * span, high + margin * span, k)

    @property
    def edges(self) -> tuple[float, ...]:
        """All k + 1 edges, bounds included."""
        if self.inner is not None:
            return (float(self.lower), *self.inner, float(self.upper))
        return even_edges(self.lower, self.upper, self.k)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    @property
    def middle(self) -> tuple[float, float]:
        """The centre of the bounds, and half their distance."""
        half = self.upper / 2 - self.lower / 2
        return self.lower + half, half

    def encode(self, y: Tensor, *, clip: bool = False) -> Tensor:
        """The class of each number, (n,) -> (n,) int64: φ of the paper, with y = u in the last.

        A number outside [lower, upper] is refused, or moved to the nearer bound with `clip`.

        >>> Bins(0.0, 10.0, 5).encode(torch.tensor([0.0, 1.9, 2.0, 10.0])).tolist()
        [0, 0, 1, 4]
        """
        y = y.double()
        self._refuse(y, ~y.isfinite(), "must be finite")
        if not clip:
            outside = (y < self.lower) | (y > self.upper)
            rule = f"must lie in [{self.lower!r}, {self.upper!r}]"
            self._refuse(y, outside, rule, " (widen lower and upper, the same at every client)")
        inner = y.new_tensor(self.edges[1:-1])
        return torch.bucketize(y, inner, right=True)  # beyond a bound: the first or the last bin

    def places(self, y: Tensor) -> Tensor:
        """Where numbers lie on the scale of the classes, (n,) float64: middles are whole places.

        >>> Bins(0.0, 10.0, 2).places(torch.tensor([2.5, 5.0, 10.0])).tolist()
        [0.0, 0.5, 1.5]
        """
        at = self.encode(y, clip=True)
        edges = torch.tensor(self.edges, dtype=torch.float64, device=at.device)
        y = y.double().clamp(self.lower, self.upper)
        return at + (y - edges[at]) / (edges[at + 1] - edges[at]) - 0.5

    def numbers(self, places: Tensor) -> Tensor:
        """And back, (n,) float64; beyond the first or the last edge that edge.

        >>> Bins(0.0, 10.0, 2).numbers(torch.tensor([0.0, 0.5, 9.0])).tolist()
        [2.5, 5.0, 10.0]
        """
        edges = torch.tensor(self.edges, dtype=torch.float64, device=places.device)
        at = (places.double() + 0.5).nan_to_num(nan=0.0).clamp(0.0, float(self.k))
        low = at.floor().clamp(max=self.k - 1).long()
        return edges[low] + (at - low) * (edges[low + 1] - edges[low])

    def decode(self, classes: Tensor) -> Tensor:
        """The middle of each class, (n,) int64 -> (n,) float64: what to answer without a range."""
        edges = torch.tensor(self.edges, dtype=torch.float64, device=classes.device)
        return (edges[:-1] + (edges[1:] - edges[:-1]) / 2)[classes]

    def touched(self, sets: Sets) -> Tensor:
        """The classes that have a number in each set, (n, k) bool: φ of the paper for ranges."""
        return ~self.pieces(sets)[0].isnan().all(2)

    def pieces(self, sets: Sets) -> tuple[Tensor, Tensor]:
        """Each set cut at the edges: the ends of what lies in each bin, (n, k, s), else NaN.

        The pieces are closed, ends included: a set that holds the numbers below an edge holds
        the edge itself, so every piece lies in its set.
        """
        edges = sets.lower.new_tensor(self.edges)
        starts, ends = edges[:-1, None], edges[1:, None]  # (k, 1)
        low, high = sets.lower.unsqueeze(1), sets.upper.unsqueeze(1)  # (n, 1, s)
        # an interval that begins at a bin's open end has no number in that bin
        begins = low < ends
        begins[:, -1] = low[:, 0] <= ends[-1]
        met = begins & (high >= starts)
        return (
            torch.maximum(low, starts).masked_fill(~met, torch.nan),
            torch.minimum(high, ends).masked_fill(~met, torch.nan),
        )

    def _refuse(self, y: Tensor, wrong: Tensor, rule: str, remedy: str = "") -> None:
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise FedloreError(
                f"numbers {rule}: {int(wrong.sum())} are not, first row {row} has "
                f"{float(y[row])!r}{remedy}"
            )
