"""Rows whose label is a number, with what the expert says; the same as classes; their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.examples import Examples
from ..core.tensors import torch
from ..errors import FedloreError
from .bins import Bins
from .sets import Sets

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows in raw units with one measured number each; knowledge adds numbers and sets S(x).

    A type of its own, since a class index and a number are different things: everything below
    the door keeps its int64 classes, and the number stays in float64 for decoding and scores. A
    label given in float32 is taken as the float64 of the same value.
    """

    x: Tensor  # (n, *features)
    y: Tensor | None = None  # (n,) float64
    said: Tensor | None = None  # (n,) float64; NaN where the expert is silent
    sets: Sets | None = None  # S(x), within the bounds
    cut: Bins | None = None  # the bins that knowledge was evaluated for
    conflicts: int = 0  # rows on which the P-KM left the set, before it was silenced or moved
    spread: float | None = None  # σ of a soft prior, in the units of y
    signs: Tensor | None = None  # (n, 3d + 2)  which way features move the answer
    trust: Tensor | None = None  # (n,)  λ of each row, NaN where it is the one number of all others

    def __post_init__(self) -> None:
        if self.x.ndim < 2 or not self.x.is_floating_point():
            raise FedloreError(
                "x must be floating point with a row axis and features, got "
                f"{self.x.dtype} of shape {tuple(self.x.shape)}"
            )
        if self.y is None:
            return
        if self.y.shape != (len(self.x),) or not self.y.is_floating_point():
            raise FedloreError(
                f"y must hold one number per row, shape ({len(self.x)},): got {self.y.dtype} of "
                f"shape {tuple(self.y.shape)}"
            )
        object.__setattr__(self, "y", self.y.double())

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> Measured:
        return self._each(lambda part: part[rows])

    def to(self, device: torch.device | str) -> Measured:
        return self._each(lambda part: part.to(device))

    def split(self, share: float, generator: torch.Generator) -> tuple[Measured, Measured]:
        """Two parts at random: about `share` of the rows, and the rest."""
        order = torch.randperm(len(self), generator=generator)
        cut = round(share * len(self))
        return self[order[:cut]], self[order[cut:]]

    def _each(self, change: Callable[[Any], Any]) -> Measured:
        names = ("x", "y", "said", "sets", "signs", "trust")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        changed: Any = {n: None if p is None else change(p) for n, p in parts.items()}
        return replace(self, **changed)

    def numbers(self) -> Tensor:
        """The labels, or an error where there are none."""
        if self.y is None:
            raise FedloreError("these rows have no measured numbers")
        return self.y

    @property
    def bins(self) -> Bins:
        """The bins that knowledge was evaluated for."""
        if self.cut is None:
            raise FedloreError("these rows were not annotated: no bins are known of them")
        return self.cut

    @property
    def missed(self) -> Tensor:
        """Labels outside their set, (n,) bool."""
        if self.y is None or self.sets is None:
            return torch.zeros(len(self), dtype=torch.bool, device=self.x.device)
        return ~self.sets.holds(self.y)

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest number of each set, (n,) float64; without sets the bounds."""
        sets = self.sets or Sets.whole(len(self), self.bins.lower, self.bins.upper, like=self.x)
        low, high = sets.lower.nan_to_num(nan=torch.inf), sets.upper.nan_to_num(nan=-torch.inf)
        return low.amin(1), high.amax(1)

    @cached_property
    def allowed(self) -> Tensor | None:
        """The bins that each set touches, (n, k) bool."""
        return None if self.sets is None else self.bins.touched(self.sets)

    @cached_property
    def prior(self) -> Tensor | None:
        """The bin of the P-KM's number, (n, k), or with `spread` a normal around it, within S."""
        if self.said is None:
            return None
        silent = self.said.isnan()
        centre = torch.where(silent, self.bins.lower, self.said)
        rows = torch.nn.functional.one_hot(self.bins.encode(centre), self.bins.k).double()
        if self.spread is not None:
            soft = normal(centre, self.spread, self.bins, self.sets)
            rows = torch.where(soft.sum(1, keepdim=True) > 0, soft, rows)  # all underflowed
        return rows.masked_fill(silent.unsqueeze(1), 0.0).to(self.x.dtype)

    @cached_property
    def between(self) -> Tensor | None:
        """The P-KM's number shared by the bins beside it, (n, k), so that no part of it is lost.

        What knows the order of the bins reads the mean of a row; of the number's bin alone that
        would be the middle, up to half a bin away.
        """
        from ..core.ordinal import lay_between  # networks, which a reader of numbers needs not

        if self.said is None:
            return None
        silent = self.said.isnan()
        places = self.bins.places(torch.where(silent, self.bins.lower, self.said))
        rows = lay_between(places, self.bins.k)
        return rows.masked_fill(silent.unsqueeze(1), 0.0).to(self.x.dtype)

    @property
    def heard(self) -> Tensor:
        """The expert in four columns: the number, whether one was named, both ends of the set.

        On a scale of -1 to 1 between the bounds; (0, 0, -1, 1) says nothing. One column per bin
        would have to learn the order of the bins from few rows.
        """
        centre, half = self.bins.middle
        nothing = torch.zeros(len(self), dtype=torch.float64, device=self.x.device)
        place, spoken, low, high = nothing, nothing, nothing - 1, nothing + 1
        if self.said is not None:
            spoken = (~self.said.isnan()).double()
            place = torch.where(self.said.isnan(), 0.0, (self.said - centre) / half)
        if self.sets is not None:
            low, high = (
                (end(t.nan_to_num(nan=fill), 1) - centre) / half
                for end, t, fill in (
                    (torch.amin, self.sets.lower, self.bins.upper),
                    (torch.amax, self.sets.upper, self.bins.lower),
                )
            )
        return torch.stack([place, spoken, low, high], 1).to(self.x.dtype)

    def inputs(self, *, hears: bool) -> Tensor:
        """What the network sees: the features, and where it hears what the expert says."""
        if not hears:
            return self.x
        if self.x.ndim != 2:
            raise FedloreError(
                f"hearing in order needs rows of features, got shape {tuple(self.x.shape)}"
            )
        return torch.cat([self.x, self.heard], 1)

    def examples(
        self, *, ordinal: float = 0.0, hears: bool = False, between: bool = False
    ) -> Examples:
        """The rows as classes; with `ordinal` > 0 the loss aims at neighbouring bins as well.

        The target is then a normal around y, cut off at the bounds and integrated over each bin,
        with σ = `ordinal` times the width of the bin that y is in: the histogram loss of Imani
        and White (2018), Improving Regression Performance with Distributional Losses.
        With `between` numbers are shared by the bins beside them, for what knows their order.
        """
        y = None if self.y is None else self.bins.encode(self.y, clip=True)
        target = None
        if ordinal > 0 and self.y is not None and y is not None:
            edges = self.y.new_tensor(self.bins.edges)
            target = normal(self.y, ordinal * (edges[1:] - edges[:-1])[y], self.bins)
            target = target.to(self.x.dtype)
        elif between and self.y is not None:
            from ..core.ordinal import lay_between

            target = lay_between(self.bins.places(self.y), self.bins.k).to(self.x.dtype)
        prior = self.between if between else self.prior
        x = self.inputs(hears=hears)
        return Examples(x, y, prior, self.allowed, target, self.signs, self.trust)


def normal(centre: Tensor, spread: float | Tensor, bins: Bins, sets: Sets | None = None) -> Tensor:
    """The mass of a normal in each bin's part of S(x), rows sum to 1 (or 0: out of reach).

    `centre` and `spread` are (n,); the result is (n, k) in float64.
    """
    if sets is None:
        sets = Sets.whole(len(centre), bins.lower, bins.upper, like=centre)
    lower, upper = bins.pieces(sets)  # (n, k, s)
    c = centre[:, None, None]
    sd = torch.as_tensor(spread, dtype=lower.dtype, device=lower.device).reshape(-1, 1, 1)
    a, b = (lower - c) / sd, (upper - c) / sd
    # by symmetry both ends are taken on the left, where differences of Φ keep their digits
    flip = a > 0
    a, b = torch.where(flip, -b, a), torch.where(flip, -a, b)
    mass = torch.special.ndtr(b) - torch.special.ndtr(a)
    mass = torch.where(lower.isnan(), 0.0, mass).sum(2)
    total = mass.sum(1, keepdim=True)
    return torch.where(total > 0, mass / torch.where(total > 0, total, 1.0), 0.0)


def rmse(predicted: Tensor, y: Tensor) -> float:
    """The root of the mean squared error."""
    return float((predicted.double() - y.double()).square().mean().sqrt())


def mae(predicted: Tensor, y: Tensor) -> float:
    """The mean absolute error."""
    return float((predicted.double() - y.double()).abs().mean())


def r2(predicted: Tensor, y: Tensor) -> float:
    """The share of the labels' variance that is explained; 0 where they do not vary."""
    y = y.double()
    total = float((y - y.mean()).square().sum())
    return 1 - float((predicted.double() - y).square().sum()) / total if total > 0 else 0.0


def number_violation(predicted: Tensor, sets: Sets) -> float:
    """POV: the share of decoded numbers outside S(x), without tolerance; a NaN says nothing."""
    return float((~sets.holds(predicted) & ~predicted.isnan()).double().mean())


def coverage(regions: Sets, y: Tensor) -> float:
    """The share of labels that lie in their prediction regions."""
    return float(regions.holds(y).double().mean())


def width(regions: Sets) -> float:
    """The mean length of the regions, gaps not counted."""
    return float(regions.length.mean())


#: What people call a score that has a short name in rows.
_NAMES = {"ta": "right", "pov": "answers outside the range", "nll": "log-loss"}


def show_scores(scores: Mapping[str, float]) -> dict[str, str]:
    """Scores by the names that people know, as text; a log-loss that has no end is named too."""
    shown = {_NAMES.get(name, name): f"{value:.4f}" for name, value in scores.items()}
    if "ta" in scores and "nll" not in scores:
        shown[_NAMES["nll"]] = "infinite"
    return shown


def all_scores(predicted: Tensor, y: Tensor, sets: Sets | None = None) -> dict[str, float]:
    """The scores of point predictions, by name; `pov` where there is a range."""
    found = {"rmse": rmse(predicted, y), "mae": mae(predicted, y), "r2": r2(predicted, y)}
    if sets is not None:
        found["pov"] = number_violation(predicted, sets)
    return found


def region_scores(regions: Sets, y: Tensor) -> dict[str, float]:
    """Coverage and width of prediction regions."""
    return {"coverage": coverage(regions, y), "width": width(regions)}


def quantile_score(quantiles: Tensor, y: Tensor, levels: Sequence[float]) -> float:
    """CRPS, in units of the number, from evenly spaced quantiles (n, q): twice the pinball loss.

    >>> import torch
    >>> quantile_score(torch.tensor([[3.0]]), torch.tensor([1.0]), [0.5])
    2.0
    """
    missed = y.double().unsqueeze(1) - quantiles.double()
    level = missed.new_tensor(levels)
    return 2.0 * float((missed * (level - (missed < 0).double())).mean())
