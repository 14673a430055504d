"""Calibrated statistical ranges: sets of classes, or an interval around a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import KnowledgeError
from ...words import Reason
from ..conformal import ConformalInterval, ConformalRange, ConformalScore
from .kind import Asked, Reasons, Setting, SourceKind

if TYPE_CHECKING:
    from torch import Tensor


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


def _write(model: Any, inner: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    said: dict[str, Any]
    if isinstance(model, ConformalRange):
        said = {"alpha": model.alpha, "score": model.score, "rows": model.rows}
        said |= {"thresholds": list(model.thresholds)}
    else:
        said = {"alpha": model.alpha, "rows": model.rows, "thresholds": [model.radius]}
    return {"conformal": said | {"scorer": inner(_scorer(model))}}


def _scorer(model: Any) -> Any:
    return model.scorer if isinstance(model, ConformalRange) else model.point


def _words(model: Any, x: Tensor) -> Reasons:
    level = 1 - model.alpha
    if isinstance(model, ConformalRange):
        args = {"level": level, "classes": len(model.thresholds)}
        counts = model(x).sum(1).tolist()
        return [[Reason("conformal-classes", {**args, "allowed": int(n)})] for n in counts]
    said = Reason("conformal-number", {"level": level, "radius": model.radius})
    return [[said] for _ in range(len(x))]


CONFORMAL = SourceKind(
    name="conformal",
    entry=ConformalEntry,
    models=(ConformalRange, ConformalInterval),
    asked=("range", "set"),
    read=_read,
    write=_write,
    words=_words,
    lint=lambda model, place: (),  # that it is statistical is said once for all ranges
    inside=lambda model: (_scorer(model),),
)
