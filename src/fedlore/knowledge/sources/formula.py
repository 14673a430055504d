"""Formulas: one that names a class or a number, two that bound it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ...errors import KnowledgeError
from ..formulas import Formula, FormulaRange, GradedFormula, SoftFormula
from ..intervals import Between
from ..soft import SoftFormulas
from .kind import (
    Asked,
    Setting,
    SourceKind,
    check_share,
    refuse_of_number,
)


@dataclass(frozen=True)
class FormulaEntry:
    """The keys of a formula that predicts."""

    formula: str  # arithmetic over feature names
    edges: tuple[float, ...] = ()  # cut numbers into classes
    spread: float | None = None  # makes it soft: the standard deviation of its error
    confidence: float | None = None  # makes it soft: the share of cases in which its class is right

    def __post_init__(self) -> None:
        check_share(self.confidence)


def _read(entry: FormulaEntry, asked: Asked, setting: Setting) -> Any:
    formula = Formula.parse(entry.formula, setting.schema)
    if asked == "number":
        refuse_of_number(entry.confidence)
        return formula
    edges = entry.edges or setting.edges
    if entry.spread is not None:
        if entry.confidence is not None:
            raise KnowledgeError("a formula has a spread or a confidence, this one has both")
        return SoftFormula(formula, edges, entry.spread)
    return _soften(GradedFormula(formula, edges), entry.confidence)


def _soften(model: Any, confidence: float | None) -> Any:
    """A model that is right in most cases only, or itself where it always is."""
    return model if confidence in (None, 1.0) else SoftFormulas(model, confidence)


FORMULA = SourceKind(
    name="formula",
    entry=FormulaEntry,
    models=(GradedFormula, SoftFormula, SoftFormulas, Formula),
    asked=("prediction", "number"),
    read=_read,
    write=lambda model, inner: model.entry(),
    words=lambda model, x: model.reasons(x),
    lint=lambda model, place: (),  # with the ranges beside it, in lint.checkup
)


@dataclass(frozen=True)
class LimitsEntry:
    """The keys of a range between two formulas, or beyond one."""

    lower: str | None = None  # a formula; None: no lower limit
    upper: str | None = None  # a formula; None: no upper limit
    edges: tuple[float, ...] = ()  # cut numbers into classes
    crossed: Literal["error", "all"] = "error"  # where lower > upper: refuse, or allow all
    confidence: float | None = None  # makes it soft: the share of cases in which it holds

    def __post_init__(self) -> None:
        check_share(self.confidence)


def _read_limits(entry: LimitsEntry, asked: Asked, setting: Setting) -> Any:
    lower, upper = (
        None if text is None else Formula.parse(text, setting.schema)
        for text in (entry.lower, entry.upper)
    )
    if asked == "set":
        refuse_of_number(entry.confidence)
        return Between(lower, upper)
    soft = entry.confidence not in (None, 1.0)  # where soft limits cross they say nothing
    crossed = "all" if soft else entry.crossed
    limits = FormulaRange(lower, upper, entry.edges or setting.edges, crossed)
    return _soften(limits, entry.confidence)


LIMITS = SourceKind(
    name="lower",
    entry=LimitsEntry,
    models=(FormulaRange, Between),
    asked=("range", "set"),
    read=_read_limits,
    write=lambda model, inner: model.entry(),
    words=lambda model, x: model.reasons(x),
    lint=lambda model, place: (),  # with the predictions beside it, in lint.checkup
)
