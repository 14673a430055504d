"""What a site does without: the features that it does not measure, and what that leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.tensors import torch
from ...kernel.findings import Finding, Place
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
