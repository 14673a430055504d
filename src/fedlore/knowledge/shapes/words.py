"""What a site's shapes promise, in words: as a whole, and of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...words import Reason
from ...words.en import SAME_RANGE
from ..models import Knowledge
from .shape import FeatureShape

if TYPE_CHECKING:
    from torch import Tensor


def promised_shapes(known: Knowledge) -> list[str]:
    """Each shape, and between which rows it holds where not between all of its region."""
    return [f"{shape}{'' if kept else SAME_RANGE}" for shape, kept in _each(known)]


def shape_reasons(known: Knowledge, x: Tensor, inside: Tensor) -> list[list[Reason]]:
    """Of each row which shapes hold in it and what that means; `inside` are rows of the scope."""
    found: list[list[Reason]] = [[] for _ in range(len(x))]
    if known.shapes is None:
        return found
    for shape, kept in _each(known):
        value = x[:, known.shapes.schema.column(shape.feature)]
        here = known.shapes.region(shape, x) & ~value.isnan() & inside
        args = {"shape": str(shape), "feature": shape.feature, "sign": shape.sign, "kept": kept}
        holds, silent = Reason("shape", args), Reason("shape-silent", args)
        for some, speaks in zip(found, here.tolist(), strict=True):
            some.append(holds if speaks else silent)
    return found


def _each(known: Knowledge) -> list[tuple[FeatureShape, bool]]:
    """Each shape, and whether the range keeps it over the whole scope."""
    if known.shapes is None or known.orders is None:
        return []
    return [(s, found.kept) for s, found in zip(known.shapes, known.orders.ranges, strict=True)]
