"""All sources of a knowledge file at once, combined as they will act, over the whole scope.

Boxes in which a rule is sure to hold are dropped; the others are cut where a condition of a table
begins or ends, and halved where a formula is too wide (branch and bound, as `formulas.search`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.tensors import torch
from ...kernel.schema import Schema
from ..formulas.formula import Formula
from ..formulas.grading import Grading
from ..formulas.proofs import never_exceeds
from ..formulas.search import Verdict, points
from .over import (
    Corners,
    Flags,
    GradedOver,
    LimitsOver,
    Over,
    PredictionOver,
    RangeOver,
    before_single,
)
from .single import scope_box

TOGETHER = 20_000  # boxes
_BATCH = 1_024
_Pair = tuple[Corners, Corners]


@dataclass(frozen=True, eq=False)
class AllSources:
    """The sources of a file as they act: ranges joined or intersected, predictions in order."""

    schema: Schema
    ranges: Sequence[RangeOver] = ()
    predictions: Sequence[PredictionOver] = ()
    alternatives: bool = False  # one range is enough
    empty: str = "error"
    averaged: bool = False  # all predictions speak, not the first one alone

    def never_refused(self, budget: int = TOGETHER) -> Verdict:
        """Whether in every row of the scope the ranges leave a class, and refuse none."""
        needed = len(self.ranges) > 1 and not self.alternatives and self.empty == "error"

        def holds(low: Corners, high: Corners) -> Flags:
            safe = np.all([one.safe(low, high) for one in self.ranges], axis=0)
            if needed:
                safe &= np.all([one.sure(low, high) for one in self.ranges], axis=0).any(1)
            return np.asarray(safe)

        def broken(x: Corners) -> Flags:
            rows, refused = self._range(x)
            return refused | ~rows.any(1)

        return self._decide(holds, broken, self.ranges, budget)

    def never_disagrees(self, budget: int = TOGETHER) -> Verdict:
        """Whether in every row of the scope no prediction is refused, for rules that disagree."""

        def holds(low: Corners, high: Corners) -> Flags:
            return np.asarray(np.all([one.safe(low, high) for one in self.predictions], axis=0))

        def broken(x: Corners) -> Flags:
            return np.asarray(np.any([one.says(x)[1] for one in self.predictions], axis=0))

        return self._decide(holds, broken, self.predictions, budget)

    def never_apart(self, budget: int = TOGETHER) -> Verdict:
        """Whether in every row of the scope all ranges share a class, whatever `empty` says."""

        def holds(low: Corners, high: Corners) -> Flags:
            return np.asarray(np.all([one.sure(low, high) for one in self.ranges], axis=0).any(1))

        def broken(x: Corners) -> Flags:
            return ~np.asarray(np.all([one.says(x)[0] for one in self.ranges], axis=0).any(1))

        return self._decide(holds, broken, self.ranges, budget)

    def stays_inside(self, budget: int = TOGETHER) -> Verdict:
        """Whether in every row of the scope the prediction stays in the range by itself."""

        def holds(low: Corners, high: Corners) -> Flags:
            fine = np.ones(len(low), bool)
            spoken = np.zeros(len(low), bool)
            for one in self.predictions:
                fine &= spoken | self._is_inside(one, low, high)
                if not self.averaged:
                    spoken |= one.speaks(low, high)
            return fine

        return self._decide(holds, self.leaves, [*self.predictions, *self.ranges], budget)

    def leaves(self, x: Corners) -> Flags:
        """The rows whose prediction leaves their range, (n,)."""
        rows, refused = self._range(x)
        return np.asarray((self._prediction(x) & ~rows).any(1) & ~refused)

    def _is_inside(self, one: PredictionOver, low: Corners, high: Corners) -> Flags:
        may = one.may(low, high)
        parts = [
            (~(may & ~two.sure(low, high)).any(1)) | _between(one, two, low, high)
            for two in self.ranges
        ]
        if not self.alternatives:
            return np.asarray(np.all(parts, axis=0))
        joined = np.any([two.sure(low, high) for two in self.ranges], axis=0)
        return np.asarray(np.any(parts, axis=0) | ~(may & ~joined).any(1))

    def _range(self, x: Corners) -> tuple[Flags, Flags]:
        parts = [one.says(x) for one in self.ranges]
        refused = np.any([wrong for _, wrong in parts], axis=0)
        if self.alternatives:
            return np.asarray(np.any([rows for rows, _ in parts], axis=0)), refused
        rows = np.asarray(np.all([rows for rows, _ in parts], axis=0))
        none = ~np.asarray(rows.any(1))
        if len(parts) > 1 and self.empty == "error":
            return rows, refused | none
        if len(parts) > 1:
            instead = parts[0][0] if self.empty == "first" else np.ones_like(rows)
            rows = np.where(none[:, None], instead, rows)
        return rows, refused

    def _prediction(self, x: Corners) -> Flags:
        rows = np.zeros((len(x), len(self.schema.classes)), bool)
        for one in self.predictions:
            said = one.says(x)[0]
            rows |= said if self.averaged else said & ~rows.any(1, keepdims=True)
        return rows

    def _decide(
        self,
        holds: Callable[[Corners, Corners], Flags],
        broken: Callable[[Corners], Flags],
        sources: Sequence[Over],
        budget: int,
    ) -> Verdict:
        box = scope_box(self.schema)
        cuts = [_cuts(sources, column) for column in range(len(box))]
        hints = sorted({cut for some in cuts for cut in some.tolist()})
        found = self._first(broken, points(box, hints).numpy())
        if found is not None:
            return Verdict("refuted", found)
        low, high = np.array(box, np.float64).T[:, None]
        halved = sorted({column for one in sources for column in one.columns})
        looked = 0
        while len(low):
            if looked > budget:
                return Verdict("unknown", boxes=looked)
            part = slice(max(len(low) - _BATCH, 0), None)  # the newest first: little memory
            a, b = low[part], high[part]
            low, high = low[: part.start], high[: part.start]
            looked += len(a)
            unsure = ~holds(a, b)
            a, b = a[unsure], b[unsure]
            if not len(a):
                continue
            found = self._first(broken, np.concatenate([a, b, _middle(a, b)]))
            if found is not None:
                return Verdict("refuted", found, looked)
            weight = np.sum([one.unsettled(a, b) for one in sources], axis=0)
            halves = self._halve(weight, cuts, halved, (a, b))
            if halves is None:
                return Verdict("unknown", boxes=looked)
            low, high = np.concatenate([low, halves[0]]), np.concatenate([high, halves[1]])
        return Verdict("proved", boxes=looked)

    def _first(self, broken: Callable[[Corners], Flags], x: Corners) -> tuple[float, ...] | None:
        x = self._round(x)
        bad = np.flatnonzero(broken(x))
        return tuple(x[bad[0]].tolist()) if len(bad) else None

    def _round(self, x: Corners) -> Corners:
        """Rows as they come: in single precision, levels by their number."""
        rows = x.astype(np.float32).astype(np.float64)
        for column, feature in enumerate(self.schema.features):
            if feature.levels:
                rows[:, column] = np.rint(rows[:, column])
        return rows

    def _halve(
        self, weight: Corners, cuts: Sequence[Corners], halved: Sequence[int], boxes: _Pair
    ) -> _Pair | None:
        """Every box in two, at a threshold where a table is open; None where one cannot be."""
        low, high = boxes
        rows, at = np.arange(len(low)), np.full_like(low, np.nan)
        for column in np.flatnonzero(weight.any(0)).tolist():
            some = cuts[column]
            begin = np.searchsorted(some, low[:, column], side="right")
            end = np.searchsorted(some, high[:, column], side="right")
            at[:, column] = some[np.minimum((begin + end) // 2, len(some) - 1)]
            weight[end <= begin, column] = 0.0
        free = ~(weight > 0).any(1)
        if free.any():  # no table is open: the widest feature of a formula
            middle, sides = _middle(low, high), np.array(scope_box(self.schema))
            span = np.arcsinh(sides[:, 1]) - np.arcsinh(sides[:, 0])
            width = (np.arcsinh(high) - np.arcsinh(low)) / np.where(span > 0, span, 1.0)
            width = np.where((middle <= low) | (middle > high), 0.0, width)
            for column in halved:
                weight[free, column] = width[free, column]
                at[free, column] = middle[free, column]
        if not (weight > 0).any(1).all():
            return None
        which = weight.argmax(1)
        cut = at[rows, which]
        levels = np.array([bool(feature.levels) for feature in self.schema.features])[which]
        below = np.where(levels, cut - 1, [before_single(value) for value in cut])
        upper_low, lower_high = low.copy(), high.copy()
        upper_low[rows, which], lower_high[rows, which] = cut, below
        return np.concatenate([low, upper_low]), np.concatenate([lower_high, high])


def _between(one: PredictionOver, two: RangeOver, low: Corners, high: Corners) -> Flags:
    """Boxes in which a formula stays between those of a range: what they share cancels."""
    kept = np.ones(len(low), bool)
    if not isinstance(one, GradedOver) or not isinstance(two, LimitsOver):
        return ~kept
    if one.graded.edges != two.limits.edges:
        return ~kept
    corners = torch.from_numpy(low), torch.from_numpy(high)
    grading = Grading(one.graded.edges)
    if isinstance(two.limits.lower, Formula):
        kept &= never_exceeds(two.limits.lower, one.formula, *corners, grading).numpy()
    if isinstance(two.limits.upper, Formula):
        kept &= never_exceeds(one.formula, two.limits.upper, *corners, grading).numpy()
    return kept


def _cuts(sources: Sequence[Over], column: int) -> NDArray[np.float64]:
    found = {cut for one in sources for cut in one.cuts(column)}
    return np.array(sorted(found), np.float64)


def _middle(low: Corners, high: Corners) -> Corners:
    """The middle of each side, by order of magnitude where it is far from 0."""
    with np.errstate(over="ignore"):
        far = np.sinh((np.arcsinh(low) + np.arcsinh(high)) / 2)
    middle = np.where(np.abs(low) + np.abs(high) > 1e6, far, low / 2 + high / 2)
    return np.asarray(np.clip(middle.astype(np.float32).astype(np.float64), low, high))
