"""What a site's shapes find of its own knowledge: asked once for the same sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...answers import Bins
from ...core.examples import Examples
from ..numbers.measured import Measured
from .inside import classes_inside, numbers_inside
from .order import Ask, BothSides, ShapeStand
from .shape import SiteShapes
from .verdicts import Orders

if TYPE_CHECKING:
    from torch import Tensor


def orders_of_classes(known: Any, shapes: SiteShapes) -> Orders:
    """The verdicts on a `Knowledge`, its policies included."""
    bare = replace(known, shapes=None, outside="widen")

    def ask(x: Tensor) -> BothSides:
        told = bare.annotate(Examples(x))
        return told.allowed, told.prior

    def inside() -> bool:
        strict = known.conflict == "error"  # such a row is refused
        return strict or classes_inside(known.prediction, known.range, shapes.schema)

    return _once(known, shapes, ask, inside)


def orders_of_numbers(known: Any, shapes: SiteShapes) -> Orders:
    """The verdicts on a `Numbers`, its policies included."""
    assert shapes.bounds is not None
    bare, bins = replace(known, shapes=None), Bins(*shapes.bounds, 2)

    def ask(x: Tensor) -> BothSides:
        told = bare.examine(Measured(x), bins, training=False)
        return told.sets, told.said

    def inside() -> bool:
        moved = known.conflict in ("error", "project")  # what is moved in keeps its order
        return moved or numbers_inside(known.prediction, known.range, bins)

    return _once(known, shapes, ask, inside)


def _once(known: Any, shapes: SiteShapes, ask: Ask, inside: Callable[[], bool]) -> Orders:
    """The verdicts on sources that were not looked at before."""
    policies = (known.conflict, getattr(known, "empty", ""))
    for prediction, limits, rules, orders in shapes.verdicts:
        if prediction is known.prediction and limits is known.range and rules == policies:
            found: Orders = orders
            return found
    strict = getattr(known, "empty", "error") == "error"
    found = ShapeStand(shapes, known.prediction, known.range, ask, inside, strict).orders()
    shapes.verdicts.append((known.prediction, known.range, policies, found))
    return found
