"""Knowledge about numbers, and the door where it becomes sets, and classes.

A P-KM names a number, an R-KM a closed set S(x) of numbers (Fan et al. 2022, appendix C). Both are
lifted to classes once; S(x) is kept, because only it can say what a class may be decoded to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from ...answers import Bins, Sets
from ...core.still import without_gradient
from ...core.tensors import torch
from ...errors import FedloreError, KnowledgeError
from ...kernel.schema import Schema
from ..card import Card
from ..combine import AllOf
from ..door import hide_others
from ..missing import allow, find_lacking, hear
from ..models import Knowledge
from ..policies import Outside
from ..protocols import Number, RangeModel
from ..rowtrust import RowTrust, find_trust
from ..shapes.shape import SiteShapes
from ..shapes.verdicts import Orders, ears_for
from .measured import Measured
from .told import Told

if TYPE_CHECKING:
    from torch import Tensor

NumberConflict = Literal["abstain", "project", "error"]
EmptySet = Literal["error", "all"]


@dataclass(frozen=True)
class Numbers:
    """One site's knowledge about a number and how far it is trusted. It never leaves the site."""

    prediction: Number | None = None  # g_p
    range: RangeModel | None = None  # g_r
    trust: float = 0.0  # λ in the paper, in [0, 1]
    reliance: float | None = None  # λ at prediction, where it should differ from training
    spread: float | None = None  # σ: the P-KM as a normal around its number, not one bin
    outside: Outside = "error"  # a training label outside its set: refuse, widen or drop
    conflict: NumberConflict = (
        "abstain"  # a P-KM's number outside the set: silence, move it, or refuse
    )
    empty: EmptySet = "error"  # nothing is left within the bounds: refuse, or allow all
    schema: Schema | None = None  # what the columns are called, where a file says so
    card: Card | None = None
    shapes: SiteShapes | None = None  # in which direction features move the number
    row_trust: RowTrust | None = None  # λ at prediction row by row, where it is not one number

    def __post_init__(self) -> None:
        Knowledge(  # the same rules
            trust=self.trust,
            reliance=self.reliance,
            outside=self.outside,
            shapes=self.shapes,
            row_trust=self.row_trust,
        )
        for name, value, kinds in (
            ("conflict", self.conflict, get_args(NumberConflict)),
            ("empty", self.empty, get_args(EmptySet)),
        ):
            if value not in kinds:
                raise KnowledgeError(f"{name} must be one of {', '.join(kinds)}, got '{value}'")
        if isinstance(self.range, AllOf) and self.range.empty != self.empty:  # one policy for both
            object.__setattr__(self, "range", replace(self.range, empty=self.empty))
        if self.shapes is not None and self.shapes.bounds is None:
            raise KnowledgeError(
                "shapes of a number need its bounds: SiteShapes(..., bounds=(0, 100))"
            )
        if self.spread is not None and not 0.0 < self.spread < float("inf"):
            raise KnowledgeError(f"spread must be a positive number, got {self.spread:g}")

    @property
    def trust_at_prediction(self) -> float:
        """λ at prediction; none where the prediction is not shown to move as the shapes say."""
        if self.orders is not None and not self.orders.hears_prediction:
            return 0.0
        return self.trust if self.reliance is None else self.reliance

    @property
    def orders(self) -> Orders | None:
        """Whether range and prediction move the way the shapes say; None without shapes."""
        if self.shapes is None:
            return None
        from ..shapes.standing import orders_of_numbers  # here: it knows all kinds of sources

        return orders_of_numbers(self, self.shapes)

    def lift(self, bins: Bins) -> Knowledge:
        """The same knowledge about classes, for everything that knows classes only."""
        return Knowledge(
            None if self.prediction is None else _PointClasses(self, bins),
            None if self.range is None else _RangeClasses(self, bins),
            self.trust,
            self.reliance,
            "widen" if self.outside == "widen" else "error",
        )

    @without_gradient
    def examine(self, data: Measured, bins: Bins, *, training: bool = True) -> Told:
        """Evaluate both models once, within the bounds, and apply the policies.

        Labels outside their set matter in training only; of test rows they are counted.
        """
        x = hide_others(data.x, self.schema)
        said = None if self.prediction is None else _point(hear(self.prediction, x), len(data))
        sets = None if self.range is None else self._sets(x, bins)
        moved = 0
        if said is not None:
            said, moved = self._within(said, sets, bins)
        signs = None
        if self.shapes is not None and self.orders is not None:
            signs = ears_for(self.shapes.signs(x), self.orders)
        trust = find_trust(self.row_trust, self.orders, x)
        told = Told(data.x, data.y, said, sets, bins, moved, self.spread, signs, trust)
        if not training or data.y is None:
            return told
        bins.encode(data.y)  # refuses what is not finite or beyond the bounds
        out = told.missed
        if out.any() and self.outside == "error":
            row = int(out.nonzero()[0])
            raise KnowledgeError(
                f"{int(out.sum())} labels lie outside their set, first row {row} with "
                f"{float(data.y[row])!r} (policy outside = error; widen and drop are the "
                "alternatives)"
            )
        if self.outside == "drop" and out.any():
            if out.all():
                raise FedloreError("every label is outside its set: nothing is left to learn")
            return told[~out]
        return told

    def _sets(self, x: Tensor, bins: Bins) -> Sets:
        assert self.range is not None
        found = allow(self.range, x)
        if not isinstance(found, Sets) or len(found) != len(x):
            raise KnowledgeError(f"the R-KM must give Sets for {len(x)} rows, got {_what(found)}")
        inside = found.to(x.device).clip(bins.lower, bins.upper)
        none = inside.empty
        if none.any() and self.empty == "error":
            row = int(none.nonzero()[0])
            ends = f"{found.lower[row].tolist()} to {found.upper[row].tolist()}"
            raise KnowledgeError(
                f"a set must hold a number in [{bins.lower!r}, {bins.upper!r}]: "
                f"{int(none.sum())} do not, first row {row} is {ends} (policy empty = error; "
                "all is the alternative)"
            )
        if self.empty == "all":  # where a value is missing nothing may be left, as well
            none = none | find_lacking(self.range, x)
            inside = inside.join(_where(none, bins)) if none.any() else inside
        return inside

    def _within(self, said: Tensor, sets: Sets | None, bins: Bins) -> tuple[Tensor, int]:
        """The P-KM's numbers, those outside set or bounds silenced or moved, and their count."""
        limits = Sets.whole(len(said), bins.lower, bins.upper, like=said) if sets is None else sets
        conflicts = ~said.isnan() & ~limits.holds(said)
        if not conflicts.any():
            return said, 0
        if self.conflict == "error":
            row = int(conflicts.nonzero()[0])
            raise KnowledgeError(
                f"the P-KM leaves the set in {int(conflicts.sum())} rows, first row {row} with "
                f"{float(said[row])!r}"
            )
        moved = limits.nearest(said) if self.conflict == "project" else torch.nan
        return torch.where(conflicts, moved, said), int(conflicts.sum())


@dataclass(frozen=True)
class _PointClasses:
    """The P-KM on classes."""

    numbers: Numbers
    bins: Bins

    def __call__(self, x: Tensor, /) -> Tensor:
        prior = self.numbers.examine(Measured(x), self.bins).prior
        assert prior is not None
        return prior


@dataclass(frozen=True)
class _RangeClasses:
    """The R-KM on classes."""

    numbers: Numbers
    bins: Bins

    def __call__(self, x: Tensor, /) -> Tensor:
        allowed = replace(self.numbers, prediction=None).examine(Measured(x), self.bins).allowed
        assert allowed is not None
        return allowed


def _point(said: Tensor, rows: int) -> Tensor:
    if said.shape != (rows,) or not said.is_floating_point():
        raise KnowledgeError(
            f"the P-KM must give one number per row, shape ({rows},): got {said.dtype} of shape "
            f"{tuple(said.shape)}"
        )
    wide = said.double()
    return torch.where(wide.isfinite(), wide, torch.nan)  # undefined: the expert is silent


def _where(rows: Tensor, bins: Bins) -> Sets:
    """All of the bounds for some rows, nothing for the others."""
    every = Sets.whole(len(rows), bins.lower, bins.upper, like=rows)
    silent = ~rows.unsqueeze(1)
    return Sets(
        every.lower.masked_fill(silent, torch.nan), every.upper.masked_fill(silent, torch.nan)
    )


def _what(found: object) -> str:
    return f"{len(found)} rows" if isinstance(found, Sets) else type(found).__name__
