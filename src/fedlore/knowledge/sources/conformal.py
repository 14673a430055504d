"""Calibrated statistical ranges: sets of classes, or an interval around a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import KnowledgeError
from ..conformal import ConformalInterval, ConformalRange, ConformalScore
from .kind import Asked, Setting, SourceKind


@dataclass(frozen=True)
class Calibration:
    """[conformal] of a source: what was measured, and on whose predictions."""

    alpha: float  # the share of labels it may miss
    scorer: dict[str, Any]  # a source of soft predictions, or of numbers
    score: ConformalScore = "lac"  # least ambiguous sets, or adaptive ones
    thresholds: tuple[float, ...] = ()  # one per class; written by `fedlore calibrate`
    rows: int = 0  # how many it was calibrated on


@dataclass(frozen=True)
class ConformalEntry:
    """The key of a calibrated range."""

    conformal: Calibration


def _read(entry: ConformalEntry, asked: Asked, setting: Setting) -> Any:
    found = entry.conformal
    if asked == "set":
        if len(found.thresholds) != 1:
            raise KnowledgeError(
                f"a conformal interval has one threshold, its radius, got {len(found.thresholds)}"
            )
        point = setting.inner(found.scorer, "number", setting)
        return ConformalInterval(point, found.thresholds[0], found.alpha, found.rows)
    scorer = setting.inner(found.scorer, "prediction", setting)
    if len(found.thresholds) != len(setting.schema.classes):
        raise KnowledgeError(
            f"a conformal range needs {len(setting.schema.classes)} thresholds, got "
            f"{len(found.thresholds)}: write them with fedlore calibrate"
        )
    return ConformalRange(scorer, found.thresholds, found.alpha, found.score, found.rows)


CONFORMAL = SourceKind(
    name="conformal",
    entry=ConformalEntry,
    models=(ConformalRange, ConformalInterval),
    asked=("range", "set"),
    read=_read,
    write=lambda model, inner: {"conformal": model.entry() | {"scorer": inner(model.scorer)}},
    words=lambda model, x: model.reasons(x),
    lint=lambda model, place: (),  # that it is statistical is said once for all ranges
    inside=lambda model: (model.scorer,),
)
