"""Formulas: one that names a class or a number, two that bound it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import KnowledgeError
from ...kernel.document import FormulaEntry, LimitsEntry
from ...words import Reason
from ..formulas import Formula, FormulaRange, GradedFormula, SoftFormula
from ..intervals import Between
from ..soft import SoftFormulas
from .kind import (
    Asked,
    Reasons,
    Setting,
    SourceKind,
    formula_reasons,
    limit_reasons,
    refuse_of_number,
)

if TYPE_CHECKING:
    from torch import Tensor


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


def _write(model: Any, inner: object) -> dict[str, Any] | None:
    if isinstance(model, SoftFormulas):
        one = model.model
        said = _write_limits(one) if isinstance(one, FormulaRange) else _write(one, inner)
        return None if said is None else said | {"confidence": model.confidence}
    if isinstance(model, Formula):
        return {"formula": model.text}
    if not isinstance(model.formula, Formula):
        return None
    said = {"formula": model.formula.text, "edges": model.edges}
    return said | ({"spread": model.spread} if isinstance(model, SoftFormula) else {})


def _words(model: Any, x: Tensor) -> Reasons:
    if isinstance(model, SoftFormulas):
        one, share = model.model, model.confidence
        plain = _limit_words(one, x) if isinstance(one, FormulaRange) else _words(one, x)
        return [
            [Reason("soft", {"inner": one, "confidence": share}) for one in some] for some in plain
        ]
    formula = model if isinstance(model, Formula) else model.formula
    return formula_reasons("expert", formula, x)


FORMULA = SourceKind(
    name="formula",
    entry=FormulaEntry,
    models=(GradedFormula, SoftFormula, SoftFormulas, Formula),
    asked=("prediction", "number"),
    read=_read,
    write=_write,
    words=_words,
    lint=lambda model, place: (),  # with the ranges beside it, in lint.checkup
)


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


def _write_limits(model: FormulaRange | Between) -> dict[str, Any] | None:
    sides = {"lower": model.lower, "upper": model.upper}
    texts = {key: side.text for key, side in sides.items() if isinstance(side, Formula)}
    written = all(side is None or isinstance(side, Formula) for side in sides.values())
    if isinstance(model, FormulaRange):
        return {**texts, "edges": model.edges, "crossed": model.crossed} if written else None
    if not written:
        raise KnowledgeError(
            "a Between with fixed numbers or functions cannot be written to a file: give its sides "
            "as formulas, Formula.parse('55', schema)"
        )
    return dict(texts)


def _limit_words(model: FormulaRange | Between, x: Tensor) -> Reasons:
    return limit_reasons(model.lower, model.upper, x)


LIMITS = SourceKind(
    name="lower",
    entry=LimitsEntry,
    models=(FormulaRange, Between),
    asked=("range", "set"),
    read=_read_limits,
    write=lambda model, inner: _write_limits(model),
    words=_limit_words,
    lint=lambda model, place: (),  # with the predictions beside it, in lint.checkup
)
