"""What a site's shapes promise, in words: as a whole, and of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..models import Knowledge
from ..numbers.numbers import Numbers
from .shape import FeatureShape

if TYPE_CHECKING:
    from torch import Tensor

_SAME = " between rows of the same range"  # where the range itself does not move so


def promised_shapes(known: Knowledge | Numbers) -> list[str]:
    """Each shape, and between which rows it holds where not between all of its region."""
    return [f"{shape}{'' if kept else _SAME}" for shape, kept in _each(known)]


def shape_lines(known: Knowledge | Numbers, x: Tensor, inside: Tensor) -> list[list[str]]:
    """Of each row which shapes hold in it and what that means; `inside` are rows of the scope."""
    lines: list[list[str]] = [[] for _ in range(len(x))]
    if known.shapes is None:
        return lines
    for shape, kept in _each(known):
        value = x[:, known.shapes.schema.column(shape.feature)]
        here = known.shapes.region(shape, x) & ~value.isnan() & inside
        way = "lowers" if shape.sign > 0 else "raises"
        holds = f"'{shape}' holds here: more {shape.feature} never {way} the answer"
        holds += "" if kept else _SAME
        for line, speaks in zip(lines, here.tolist(), strict=True):
            line.append(holds if speaks else f"'{shape}' does not speak here")
    return lines


def _each(known: Knowledge | Numbers) -> list[tuple[FeatureShape, bool]]:
    """Each shape, and whether the range keeps it over the whole scope."""
    if known.shapes is None or known.orders is None:
        return []
    return [(s, found.kept) for s, found in zip(known.shapes, known.orders.ranges, strict=True)]
