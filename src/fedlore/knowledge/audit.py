"""How well knowledge and data agree, counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..answers import Bins, Line, Measured
from ..answers.axis import find_outside
from ..answers.scores import rmse
from ..core.examples import Examples
from ..core.tensors import without_gradient


@dataclass(frozen=True)
class Audit:
    """Counts over one data set. Shares are fractions of the rows; None where it does not apply."""

    rows: int
    abstained: int = 0  # rows on which the P-KM says nothing, conflicts included
    conflicts: int = 0  # rows on which the P-KM left the range (and was silenced or restricted)
    outside: int = 0  # labels outside their range
    first_outside: int | None = None
    hits: float | None = None  # share of labels the P-KM gets right
    width: float | None = None  # mean number of classes the range allows
    classes: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.rows} rows"]
        if self.hits is not None:
            parts.append(f"the expert is right on {self.hits:.1%}, silent on {self.abstained}")
        if self.conflicts:
            parts.append(f"the expert names what the range forbids on {self.conflicts}")
        if self.width is not None:
            parts.append(f"range allows {self.width:.1f} of {self.classes} classes")
        if self.outside:
            parts.append(f"{self.outside} labels outside their range")
        return "; ".join(parts)


def count(data: Examples, *, conflicts: int = 0) -> Audit:
    """Count annotated examples."""
    y, prior, allowed = data.y, data.prior, data.allowed
    known = prior if prior is not None else allowed
    outside, first = 0, None
    if allowed is not None and y is not None:
        out = find_outside(allowed, y)
        outside = int(out.sum())
        first = int(out.nonzero()[0]) if outside else None
    hits = None
    if prior is not None and y is not None and len(data):
        # of classes that he holds to be equally likely one is as good as the other
        top = (prior > 0) & (prior >= prior.amax(1, keepdim=True) - 1e-6)
        right = (~find_outside(top, y)).float() / top.sum(1).clamp(min=1)
        hits = float(right.mean())
    return Audit(
        rows=len(data),
        abstained=0 if prior is None else int((prior == 0).all(1).sum()),
        conflicts=conflicts,
        outside=outside,
        first_outside=first,
        hits=hits,
        width=None if allowed is None or not len(data) else float(allowed.sum(1).float().mean()),
        classes=None if known is None else known.shape[1],
    )


@dataclass(frozen=True)
class NumberAudit:
    """Counts over one data set of measured numbers; None where it does not apply."""

    rows: int
    silent: int = 0  # rows on which the P-KM names no number, conflicts included
    conflicts: int = 0  # rows on which its number left the set
    outside: int = 0  # labels outside their set
    first_outside: int | None = None
    beyond: int = 0  # labels outside the bounds
    rmse: float | None = None  # of the P-KM where it speaks
    width: float | None = None  # mean length of the set
    span: float = 0.0  # of the bounds

    def __str__(self) -> str:
        parts = [f"{self.rows} rows"]
        if self.rmse is not None:
            parts.append(f"the expert misses by {self.rmse:.4g} (RMSE), silent on {self.silent}")
        if self.conflicts:
            parts.append(f"the expert's number lies outside the set on {self.conflicts}")
        if self.width is not None:
            parts.append(f"sets are {self.width:.4g} wide, the bounds {self.span:.4g}")
        if self.outside:
            parts.append(f"{self.outside} labels outside their set")
        if self.beyond:
            parts.append(f"{self.beyond} labels beyond the bounds")
        return "; ".join(parts)


@without_gradient
def audit_numbers(known: Any, data: Measured, bins: Bins) -> NumberAudit:
    """How well knowledge and measured numbers agree, counted."""
    lenient = replace(known, conflict="abstain" if known.conflict == "error" else known.conflict)
    told = lenient.annotate(data, Line(bins), training=False)
    out, said = told.missed, told.said
    y = data.numbers()
    spoken = None if said is None else ~said.isnan()
    heard = spoken is not None and bool(spoken.any())
    return NumberAudit(
        rows=len(data),
        silent=0 if spoken is None else int((~spoken).sum()),
        conflicts=told.conflicts,
        outside=int(out.sum()),
        first_outside=int(out.nonzero()[0]) if out.any() else None,
        beyond=int(((y < bins.lower) | (y > bins.upper)).sum()),
        rmse=rmse(said[spoken], y[spoken]) if heard and said is not None else None,
        width=None if told.sets is None else float(told.sets.length.mean()),
        span=bins.upper - bins.lower,
    )
