"""How well knowledge and data agree, counted."""

from __future__ import annotations

from dataclasses import dataclass

from ..answers.axis import find_outside
from ..core.examples import Examples


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
            parts.append(f"P-KM right on {self.hits:.1%}, silent on {self.abstained}")
        if self.conflicts:
            parts.append(f"P-KM outside the range on {self.conflicts}")
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
