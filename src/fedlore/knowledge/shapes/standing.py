"""What a site's shapes find of its own knowledge: asked once for the same sources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...answers import Axis, Bins, Classes, Line
from .inside import classes_inside, numbers_inside
from .order import BothSides, ShapeStand
from .shape import SiteShapes
from .verdicts import Orders

if TYPE_CHECKING:
    from torch import Tensor


def orders_of(known: Any, shapes: SiteShapes) -> Orders:
    """The verdicts on a `Knowledge`, its policies included."""
    number = shapes.bounds is not None
    policies = (known.conflict, known.when_empty if number else "")
    for prediction, limits, rules, orders in shapes.verdicts:
        if prediction is known.prediction and limits is known.range and rules == policies:
            found: Orders = orders
            return found
    bare, bins = replace(known, shapes=None), Bins(*(shapes.bounds or (0.0, 1.0)), 2)
    axis: Axis = Line(bins) if number else Classes()

    def ask(x: Tensor) -> BothSides:
        said, allowed = axis.read(bare.annotate(axis.rows(x), axis, training=False))
        return allowed, said

    def inside() -> bool:
        if known.conflict in ("error", "project"):  # refused, or moved in, which keeps the order
            return True
        if number:
            return numbers_inside(known.prediction, known.range, bins)
        return classes_inside(known.prediction, known.range, shapes.schema)

    strict = not number or known.when_empty == "error"
    found = ShapeStand(shapes, known.prediction, known.range, ask, inside, strict).orders()
    shapes.verdicts.append((known.prediction, known.range, policies, found))
    return found
