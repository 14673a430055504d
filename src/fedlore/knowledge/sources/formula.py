"""Formulas: one that names a class or a number, two that bound it."""

from __future__ import annotations

from typing import Any

from ...errors import KnowledgeError
from ...kernel.document import FormulaEntry, LimitsEntry
from ...kernel.measures import widen_limit
from ..formulas import Formula, FormulaRange, GradedFormula, SoftFormula
from ..intervals import Between
from ..soft import SoftFormulas
from .kind import (
    Asked,
    Setting,
    SourceKind,
    refuse_of_number,
)


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


def _read_limits(entry: LimitsEntry, asked: Asked, setting: Setting) -> Any:
    schema = setting.schema

    def side(text: str | None, way: int) -> Formula | None:
        if text is None:
            return None
        return Formula.parse(widen_limit(text, schema.features, setting.errors, way), schema)

    lower, upper = side(entry.lower, -1), side(entry.upper, 1)
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
