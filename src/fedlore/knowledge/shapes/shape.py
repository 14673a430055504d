"""What an expert says first: "more ash never helps". A direction for a feature, or a part of it.

Inside its region, with everything else equal, more of the feature never moves the site's
distribution over ordered answers the other way (first-order dominance). An arch or a valley has
two directions, one on each side of where it turns. Of a number that is concave or convex the slope
has one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ...core.tensors import torch, without_gradient
from ...errors import KnowledgeError
from ...kernel.cells import single
from ...kernel.document import BENDING, TURNING, FeatureShape, Piece
from ...kernel.schema import Schema
from ...words import Reason, phrase
from ..regions import RowRegion

if TYPE_CHECKING:
    from torch import Tensor


OrderStatus = Literal["constant", "ordered", "broken", "unknown"]
RANK: tuple[OrderStatus, ...] = ("constant", "ordered", "unknown", "broken")  # the worst last
#: Two rows that differ in one feature alone, or three of which the middle one breaks a bend.
Pair = tuple[tuple[float, ...], ...]

_EARS: dict[OrderStatus, float] = {
    "constant": 0.0,  # it may enter with any sign
    "ordered": 1.0,  # it enters with its own
    "unknown": math.nan,  # it is withheld
    "broken": math.nan,
}


@dataclass(frozen=True)
class SiteShapes:
    """All shapes that a site declares, checked against its columns and its answers."""

    shapes: tuple[FeatureShape, ...]
    schema: Schema
    bounds: tuple[float, float] | None = None  # of an answer that is a number

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", tuple(self.shapes))
        if not self.shapes:
            raise KnowledgeError("there must be at least one shape")
        for place, shape in enumerate(self.shapes, 1):
            try:
                self._check(shape)
            except KnowledgeError as error:
                raise KnowledgeError(f"[shape] source {place}: {error}") from None

    def __iter__(self) -> Iterator[FeatureShape]:
        return iter(self.shapes)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the features that have a shape, ascending."""
        return tuple(sorted({self.schema.column(shape.feature) for shape in self.shapes}))

    @without_gradient
    def signs(self, x: Tensor) -> Tensor:
        """In which direction each feature of each row moves the answer, and where it turns.

        (n, 3d): of each feature -1, 0 or 1, where it turns as it is before; then both ends of the
        turn, in raw units, NaN where there is none.
        """
        way, start, end = torch.zeros_like(x), *x.new_full((2, *x.shape), torch.nan)
        for shape in self.binding:
            if shape.bend:
                continue
            column, here = self.schema.column(shape.feature), self.region(shape, x)
            way[:, column] = torch.where(here, float(shape.pieces[0].sign), way[:, column])
            if shape.turns:
                for ends, turn in ((start, shape.turns[0]), (end, shape.turns[-1])):
                    ends[:, column] = torch.where(here, single(turn), ends[:, column])
        return torch.cat([way, start, end], 1)

    @property
    def binding(self) -> tuple[FeatureShape, ...]:
        """Those that answers are held to: all but those of which rows have to say the turn."""
        return tuple(shape for shape in self.shapes if not shape.lacks_turn)

    @property
    def bends(self) -> tuple[FeatureShape, ...]:
        """Those that are concave or convex: no network is held to them, linear members are."""
        return tuple(shape for shape in self.shapes if shape.bend)

    @property
    def directed(self) -> SiteShapes | None:
        """Those that a network can keep, which have a direction."""
        rest = tuple(shape for shape in self.shapes if not shape.bend)
        return replace(self, shapes=rest) if rest else None

    @property
    def pieces(self) -> tuple[tuple[FeatureShape, Piece], ...]:
        """Every shape with each of its pieces."""
        return tuple((shape, piece) for shape in self.shapes for piece in shape.pieces)

    def region(self, shape: FeatureShape, x: Tensor, piece: Piece | None = None) -> Tensor:
        """The rows in which a shape, or a piece of it, holds, (n, d) -> (n,) bool.

        Not where that is undefined.
        """
        here = self.place(shape).holds(x)
        if piece is None or not piece.side:
            return here
        on_it: Tensor = piece.covers(x[:, self.schema.column(shape.feature)].float())
        return here & on_it

    def place(self, shape: FeatureShape) -> RowRegion:
        """Where a shape holds."""
        return self._regions.setdefault(shape.where, RowRegion(shape.where, self.schema))

    @cached_property
    def verdicts(self) -> list[Any]:
        """What was found of the sources around these shapes, so that it is worked out once."""
        return []

    @cached_property
    def _regions(self) -> dict[str, RowRegion]:
        return {}

    def _check(self, shape: FeatureShape) -> None:
        feature = self.schema.features[self.schema.column(shape.feature)]
        if feature.levels:
            raise KnowledgeError(
                f"'{shape.feature}' has levels, which have no more and no less: a shape is for a "
                "number"
            )
        if self.bounds is None and not self.schema.ordered:
            plain = shape.effect in ("raises", "lowers")
            does = shape.effect if plain else f"has a shape ({shape.effect}) over"
            raise KnowledgeError(
                f"'{shape.feature}' {does} what has no order: say ordered = true where the "
                "classes rise from the first to the last"
            )
        if shape.bend and self.bounds is None:
            raise KnowledgeError(
                f"'{shape}' is for a number, since classes lie in an order without distances: say "
                f"raises or lowers (with where, if in a part), or "
                f"{'arch' if shape.effect == 'concave' else 'valley'}"
            )
        if shape.bend and shape.where:
            raise KnowledgeError(
                f"'{shape}': the models that can be held to a bend know no regions; leave where "
                "out, or say raises or lowers there"
            )
        low, high = single(feature.low), single(feature.high)
        for turn in shape.turns:
            if not low < single(turn) < high:
                raise KnowledgeError(
                    f"'{shape}' turns outside its scope, which is {feature.low:g} to "
                    f"{feature.high:g}: correct turns_at, or say raises or lowers where only one "
                    "side of the turn lies in the scope"
                )
        if shape.where:
            self.place(shape).check()
        self._check_region(shape)
        for other in self.shapes[: self.shapes.index(shape)]:
            if other.feature == shape.feature:
                both = {other.effect, shape.effect}
                if both & {*BENDING} and both & {"raises", "lowers"}:
                    continue  # it rises, and ever less so
                same = (other.effect, other.turns) == (shape.effect, shape.turns)
                if not same or shape.lacks_turn:  # rows may say two turns
                    self._check_apart(other, shape)

    def _check_region(self, shape: FeatureShape) -> None:
        """A region that moves with another shape's feature would jump where that one moves."""
        shaped = {other.feature for other in self.shapes} - {shape.feature}
        for column in self.place(shape).columns:
            name = self.schema.names[column]
            if name in shaped:
                raise KnowledgeError(
                    f"its region '{shape.where}' looks at '{name}', which has a shape itself: what "
                    f"'{shape.feature}' adds would jump as '{name}' moves"
                )

    def _check_apart(self, one: FeatureShape, two: FeatureShape) -> None:
        """Refuse both directions at once, in a row of the scope."""
        both = f"'{two.feature}' raises and lowers"
        if {one.effect, two.effect} & {*TURNING, *BENDING}:
            both = f"'{one}' and '{two}' are two shapes of one feature"
        if not one.where or not two.where:
            raise KnowledgeError(f"{both} in the same rows")
        unsure = f"{both}, and '{one.where}' cannot be told apart from '{two.where}'"
        there = self.place(two)
        self.place(one).check_apart(there, f"{both} in the same rows", unsure, code="shape")


def shape_values(shapes: Iterable[FeatureShape]) -> list[dict[str, Any]]:
    """Shapes as entries of a file."""
    found = []
    for s in shapes:
        turns = list(s.turns) if isinstance(s.turns_at, tuple) else s.turns_at
        entry = {"feature": s.feature, "effect": s.effect, "turns_at": turns, "where": s.where}
        entry["estimated"] = s.estimated or None
        found.append({key: value for key, value in entry.items() if value not in (None, "")})
    return found


@dataclass(frozen=True)
class OrderFound:
    """What is known of one side along one feature."""

    status: OrderStatus
    pair: Pair | None = None  # rows that break it
    said: tuple[float, float] | None = None  # of a bend: what the middle row says, and the line

    @property
    def kept(self) -> bool:
        return self.status in ("constant", "ordered")


@dataclass(frozen=True)
class Orders:
    """Range and prediction along each shape that is held."""

    ranges: tuple[OrderFound, ...]
    predictions: tuple[OrderFound, ...]
    bent: tuple[bool, ...] = ()  # which of them are bends

    @property
    def range(self) -> OrderStatus:
        """Along the directions."""
        found = zip(self.ranges, self.bent, strict=True)
        return _worst(order.status for order, bent in found if not bent)

    @property
    def range_stays(self) -> bool:
        """Whether the ends of the range are the same all along the bends."""
        found = zip(self.ranges, self.bent, strict=True)
        return all(order.status == "constant" for order, bent in found if bent)

    @property
    def prediction_stays(self) -> bool:
        """Whether what the expert says is the same all along the bends."""
        found = zip(self.predictions, self.bent, strict=True)
        return all(order.status == "constant" for order, bent in found if bent)

    @property
    def prediction(self) -> OrderStatus:
        return _worst(order.status for order in self.predictions)

    @property
    def hears_prediction(self) -> bool:
        """Whether the expert's word may count: it moves the way all shapes say."""
        return all(order.kept for order in self.predictions)


def ears_for(signs: Tensor, orders: Orders) -> Tensor:
    """What is said of the features, with signs of the range's middle and the expert's place behind.

    The expert stands in the middle where he is silent, so his place keeps an order where both do.
    """
    middle = _EARS[orders.range]
    told = math.nan if middle != middle else max(middle, _EARS[orders.prediction])
    if _EARS[orders.prediction] != _EARS[orders.prediction]:
        told = math.nan
    if not orders.range_stays:  # one of its ends may bend as the shape says, its middle does not
        middle = math.nan
        # who bends as the shape says always speaks; nobody's place is the middle
        told = math.nan if orders.prediction == "constant" else told
    heard = signs.new_tensor([middle, told]).expand(len(signs), 2)
    return torch.cat([signs, heard], 1)


def refuse_bends(shapes: SiteShapes) -> None:
    """No network by itself is concave or convex, whatever its weights are."""
    for shape in shapes.bends:
        raise KnowledgeError(
            f"no network can be held to '{shape}': say recipe = \"lore\", where a site's linear "
            "members are, or raises, lowers or arch in place of it"
        )


def _worst(found: Iterable[OrderStatus]) -> OrderStatus:
    return max(found, key=RANK.index, default="constant")


def promised_shapes(known: Any) -> list[str]:
    """Each shape, and between which rows it holds where not between all of its region."""
    return [
        f"{shape}{'' if kept else phrase('part.same-range', 'en')}" for shape, kept in _each(known)
    ]


def shape_reasons(known: Any, x: Tensor, inside: Tensor) -> list[list[Reason]]:
    """Of each row which shapes hold in it and what that means; `inside` are rows of the scope."""
    found: list[list[Reason]] = [[] for _ in range(len(x))]
    if known.shapes is None:
        return found
    for shape, kept in _each(known):
        value = x[:, known.shapes.schema.column(shape.feature)]
        there = ~value.isnan() & inside
        args = {"shape": str(shape), "feature": shape.feature, "kept": kept}
        said = [Reason("shape-silent", args)] * len(x)
        if shape.bend:
            bent = Reason("shape-bent", args | {"bend": shape.bend})
            said = [bent if here else said[0] for here in there.tolist()]
        for piece in shape.pieces:
            here = (known.shapes.region(shape, x, piece) & there).nonzero()[:, 0].tolist()
            side = {"side": piece.side, "turn": piece.turn} if piece.side else {}
            for row in here:
                said[row] = Reason("shape", args | {"sign": piece.sign} | side)
        for some, one in zip(found, said, strict=True):
            some.append(one)
    return found


def _each(known: Any) -> list[tuple[FeatureShape, bool]]:
    """Each shape that is held, and whether the range keeps it over the whole scope."""
    if known.shapes is None or known.orders is None:
        return []
    both = zip(known.shapes.binding, known.orders.ranges, strict=True)
    return [(shape, found.kept) for shape, found in both]
