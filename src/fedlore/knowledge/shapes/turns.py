"""Where an arch or a valley turns, when only the rows of a site can say.

A curve of second order beside the other columns, all of them linear: where its slope is surely
positive the answer rises, where it is surely negative it falls, and the turn lies between (Fieller
1954, Some problems in interval estimation: for one turn 95 %). Where the rows say nothing of a
side, nothing is promised there up to the end of the scope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.tensors import torch
from ...errors import KnowledgeError
from ...kernel.cells import after, before, single
from ...kernel.document import TURNING, FeatureShape
from ...kernel.schema import Feature
from .shape import SiteShapes

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 10  # more than columns, to say anything
_SURE = 2.0  # standard errors
_POINTS = 400  # between the smallest and the largest value


@dataclass(frozen=True)
class TurnFound:
    """What rows show of a turn."""

    rows: int
    before: float | None  # up to here the first direction is sure; None: nowhere
    behind: float | None  # from here on the second
    against: bool  # the rows surely turn the other way round

    def within(self, feature: Feature, shape: FeatureShape) -> FeatureShape:
        """The shape with the interval of its turn, where nothing is known up to the scope's end."""
        bottom, top = float(after(single(feature.low))), float(before(single(feature.high)))
        low = bottom if self.before is None else min(max(self.before, bottom), top)
        high = top if self.behind is None else min(max(self.behind, bottom), top)
        ends = (("before", self.before, feature.low), ("behind", self.behind, feature.high))
        for side, found, end in ends:
            if found is None and not math.isfinite(end):
                raise KnowledgeError(
                    f"the rows do not show '{shape}' {side} its turn, and the scope of "
                    f"'{shape.feature}' has no end there: say turns_at, or give the feature low "
                    "and high"
                )
        return replace(shape, turns_at=(low, high), estimated=True)


def find_turn(shapes: SiteShapes, shape: FeatureShape, x: Tensor, y: Tensor) -> TurnFound:
    """What labelled rows (n, d) show of the turn of a shape, in its region."""
    column = shapes.schema.column(shape.feature)
    inside = shapes.region(shape, x) & x.isfinite().all(1)
    x, y = x[inside].double(), y[inside].double()
    varied = x.std(0) > 0 if len(x) > 1 else torch.zeros(x.shape[1], dtype=torch.bool)
    if not bool(varied[column]) or len(x) < int(varied.sum()) + 1 + ROWS:
        raise KnowledgeError(
            f"{len(x)} rows are too few to show where '{shape}' turns: say turns_at = a number or "
            "an interval such as [1.2, 1.4]"
        )
    varied[column] = False
    scale, mean = x[:, column].std(), x[:, column].mean()
    place = (x[:, column] - mean) / scale  # (n,)
    others = x[:, varied] - x[:, varied].mean(0)
    others /= others.square().mean(0).sqrt()
    design = torch.cat([torch.stack([place, place.square(), torch.ones_like(place)], 1), others], 1)
    gram = torch.linalg.pinv(design.T @ design)
    weights = TURNING[shape.effect] * (gram @ design.T @ y)
    free = max(len(x) - design.shape[1], 1)
    noise = (y - design @ (TURNING[shape.effect] * weights)).square().sum() / free
    at = torch.linspace(float(place.min()), float(place.max()), _POINTS).double()
    along = torch.stack([torch.ones_like(at), 2 * at], 1)  # the slope is b + 2c·at
    slope = along @ weights[:2]
    error = (along @ gram[:2, :2] * along).sum(1).mul(noise).clamp(min=0).sqrt()
    up, down = slope > _SURE * error, slope < -_SURE * error
    rising, falling = int(up.long().cumprod(0).sum()), int(down.flip(0).long().cumprod(0).sum())
    ends = (mean + scale * at).tolist()
    return TurnFound(
        len(x),
        single(ends[rising - 1]) if rising else None,
        single(ends[-falling]) if falling else None,
        bool(down[0] & up[-1]),
    )


def place_turns(known: Any, x: Tensor, y: Tensor | None) -> Any:
    """Knowledge with the turns that its shapes leave open, as these rows show them."""
    shapes: SiteShapes | None = known.shapes
    if shapes is None or y is None or len(shapes.binding) == len(shapes.shapes):
        return known
    features = shapes.schema.features
    placed = tuple(
        find_turn(shapes, s, x, y).within(features[shapes.schema.column(s.feature)], s)
        if s.lacks_turn
        else s
        for s in shapes
    )
    return replace(known, shapes=replace(shapes, shapes=placed))


def take_turns(known: Any, old: SiteShapes | None) -> Any:
    """Knowledge with the turns that it leaves open as others have them for the same shape."""
    if known.shapes is None or old is None:
        return known
    found = {(s.feature, s.effect, s.where): s for s in old.binding if s.estimated}
    kept = tuple(
        found.get((s.feature, s.effect, s.where), s) if s.lacks_turn else s for s in known.shapes
    )
    return replace(known, shapes=replace(known.shapes, shapes=kept))


def refuse_unknown_turns(shapes: SiteShapes) -> None:
    """No model is held to what turns nobody knows where."""
    for shape in shapes:
        if shape.lacks_turn:
            raise KnowledgeError(
                f"nobody knows where '{shape}' turns: training estimates it from the labelled rows "
                "of a site; without them say turns_at = a number or an interval such as [1.2, 1.4]"
            )


def refuse_estimated(shapes: SiteShapes) -> None:
    """A turn that rows said moves with each of them, which no noise on gradients hides."""
    for shape in shapes:
        if shape.estimated:
            raise KnowledgeError(
                f"'{shape}' does not go with record level differential privacy, since a single row "
                "can move the turn and with it every gradient: say turns_at"
            )
