"""Formulas: one that names a class or a number, two that bound it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import KnowledgeError
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula, SoftFormula
from ..numbers.ranges import Between
from .kind import Asked, Lines, Setting, SourceKind
from .lines import between_lines, formula_lines

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FormulaEntry:
    """The keys of a formula that predicts."""

    formula: str  # arithmetic over feature names
    edges: tuple[float, ...] = ()  # cut numbers into classes
    spread: float | None = None  # makes it soft: the standard deviation of its error


def _read(entry: FormulaEntry, asked: Asked, setting: Setting) -> Any:
    formula = Formula.parse(entry.formula, setting.schema)
    if asked == "number":
        return formula
    edges = entry.edges or setting.edges
    if entry.spread is not None:
        return SoftFormula(formula, edges, entry.spread)
    return GradedFormula(formula, edges)


def _write(model: Any, inner: object) -> dict[str, Any] | None:
    if isinstance(model, Formula):
        return {"formula": model.text}
    if not isinstance(model.formula, Formula):
        return None
    said = {"formula": model.formula.text, "edges": model.edges}
    return said | ({"spread": model.spread} if isinstance(model, SoftFormula) else {})


def _words(model: Any, x: Tensor) -> Lines:
    formula = model if isinstance(model, Formula) else model.formula
    return formula_lines("expert's formula", formula, x)


FORMULA = SourceKind(
    name="formula",
    entry=FormulaEntry,
    models=(GradedFormula, SoftFormula, Formula),
    asked=("prediction", "number"),
    read=_read,
    write=_write,
    words=_words,
    lint=lambda model, place: (),  # with the ranges beside it, in lint.checkup
)


@dataclass(frozen=True)
class LimitsEntry:
    """The keys of a range between two formulas, or beyond one."""

    lower: str | None = None  # a formula; None: no lower limit
    upper: str | None = None  # a formula; None: no upper limit
    edges: tuple[float, ...] = ()  # cut numbers into classes
    crossed: Literal["error", "all"] = "error"  # where lower > upper: refuse, or allow all


def _read_limits(entry: LimitsEntry, asked: Asked, setting: Setting) -> Any:
    lower, upper = (
        None if text is None else Formula.parse(text, setting.schema)
        for text in (entry.lower, entry.upper)
    )
    if asked == "set":
        return Between(lower, upper)
    return FormulaRange(lower, upper, entry.edges or setting.edges, entry.crossed)


def _write_limits(model: FormulaRange | Between, inner: object) -> dict[str, Any] | None:
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


LIMITS = SourceKind(
    name="lower",
    entry=LimitsEntry,
    models=(FormulaRange, Between),
    asked=("range", "set"),
    read=_read_limits,
    write=_write_limits,
    words=lambda model, x: between_lines(model.lower, model.upper, x),
    lint=lambda model, place: (),  # with the predictions beside it, in lint.checkup
)
