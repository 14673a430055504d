"""Models as the kernel sees them, so that what is asked over the whole scope is asked there."""

from collections.abc import Sequence
from typing import Any

from ..kernel.knowledge import Known
from ..kernel.schema import Schema
from ..kernel.sources import Side


def source_of(model: object) -> Any | None:
    """A source about classes; None where nothing can be said of it over a scope."""
    return getattr(model, "kernel_source", None)


def known_of(
    schema: Schema,
    predict: Sequence[Any],
    ranges: Sequence[Any],
    *,
    alternatives: bool = False,
    empty: str = "error",
    averaged: bool = False,
) -> Known:
    """Sources of the kernel as they act together; `alternatives`: of the ranges one is enough."""
    combine = "average" if averaged else "first"
    return Known(
        tuple(schema.features),
        tuple(schema.classes),
        0.0,
        "abstain",
        Side(list(predict), combine, weights=(1.0,) * len(predict)),
        Side(list(ranges), "any" if alternatives else "all", empty),
    )
