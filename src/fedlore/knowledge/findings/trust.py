"""What becomes of λ row by row: regions without a row, and regions that the site's rows contradict.

How often the expert is right in a region is counted on the site's own labelled rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...answers import Measured
from ...core.examples import Examples
from ...core.tensors import torch
from ...kernel.findings import Finding, Place
from ..models import Knowledge
from ..regions import RowRegion

if TYPE_CHECKING:
    from torch import Tensor

_ROWS = 10  # on either side, to say anything
_SURE = 3.0  # standard errors from which rows contradict


def lint_trust(known: Knowledge, place: Place) -> Iterator[Finding]:
    """What can be said of [trust] without data."""
    rows = known.row_trust
    if rows is None:
        return
    if known.prediction is None:
        yield Finding("warning", "trust-unused", place)
    for number, region in enumerate(rows.regions, 1):
        whole = RowRegion("", rows.schema)
        if RowRegion(region.where, rows.schema).find_meeting(whole).status == "proved":
            args = {"number": number, "region_text": region.where}
            yield Finding("warning", "trust-empty", place, args)


def _missed(known: Knowledge, data: Examples | Measured) -> Tensor:
    """By how much the expert misses each label, (n,), NaN where he is silent.

    Of classes 1 - what he gives the label, of a number how far his own lies from it.
    """
    axis, calm = known.answers, replace(known, outside="widen", conflict="abstain")
    said, _ = axis.read(calm.annotate(data, axis, training=False))
    if said is None or data.y is None:
        return torch.full((len(data),), torch.nan)
    if known.line is not None:
        return (said - data.y).abs()
    right = said.gather(1, data.y.unsqueeze(1)).squeeze(1)
    return torch.where(axis.speaks(said), 1.0 - right, torch.nan)


def check_trust(known: Knowledge, data: Examples | Measured, file: str) -> Iterator[Finding]:
    """Regions with more trust than elsewhere in which the expert is worse than elsewhere."""
    rows = known.row_trust
    if rows is None:
        return
    missed = _missed(known, data)
    for trust, region in rows.stated_regions:
        inside, spoken = region.holds(data.x), ~missed.isnan()
        here, there = missed[inside & spoken], missed[~inside & spoken]
        if min(len(here), len(there)) < _ROWS:
            continue
        more = float(here.mean() - there.mean())
        error = float(here.var() / len(here) + there.var() / len(there)) ** 0.5
        away = trust - known.trust_at_prediction
        if away * more > 0 and abs(more) > _SURE * error:
            args = {
                "trust": trust,
                "region_text": region.where,
                "usual": known.trust_at_prediction,
                "rows": len(here),
                "others": len(there),
                "here": float(here.mean()),
                "there": float(there.mean()),
                "worse": more > 0,
            }
            yield Finding("warning", "trust-data", Place(file), args)
