"""What a site does without, or measures in another way, and what that leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.tensors import torch
from ...kernel.findings import Finding, Place
from ...kernel.schema import Feature
from ..models import Knowledge
from ..sources.reasons import count_unapplied


def lint_absent(known: Knowledge, place: Place) -> Iterator[Finding]:
    """Each absent feature, and how many rules and formulas need it."""
    schema = known.require_schema()
    if not schema.absent:
        return
    nothing = torch.full((1, len(schema.features)), torch.nan)
    needed = count_unapplied((known.range, known.prediction), nothing)[0].tolist()
    for name in schema.absent:
        args = {"feature": name, "rules": needed[schema.column(name)]}
        yield Finding("info", "absent", Place(place.file, column=name), args)


def check_measure(feature: Feature, there: Any, said: Any, file: str) -> Iterator[Finding]:
    """Rows that have a feature and another measure of it, (n,) each, held against its error."""
    both = np.isfinite(there) & np.isfinite(said)
    if feature.own is None or not both.any():
        return
    off = (said - there)[both]
    far = np.abs(off) > feature.own.within * (1 + 1e-6)
    args = {"feature": feature.name, "own": feature.own.name, "within": feature.own.within}
    args |= {"count": int(far.sum()), "rows": len(off), "mean": float(off.mean())}
    args |= {"most": float(np.abs(off).max())}
    kind, case = ("warning", "off") if far.any() else ("info", "holds")
    yield Finding(kind, "measure", Place(file, column=feature.own.name), args, case)  # type: ignore[arg-type]
