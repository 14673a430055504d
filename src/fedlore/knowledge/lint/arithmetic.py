"""Formulas checked over the whole declared scope, without data: what an expert should know."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import KnowledgeError
from ...kernel.findings import Finding, Place
from ...kernel.knowledge import scope_of
from ...kernel.prove import always_defined, never_crossed, never_reached, stays_between
from ...kernel.schema import Schema
from ...kernel.search import BUDGET, Verdict
from ..bridge import tree_of
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula, Grading


def lint_formulas(
    predict: GradedFormula | None = None,
    limits: FormulaRange | None = None,
    *,
    place: Place | None = None,
    budget: int = BUDGET,
) -> list[Finding]:
    """All that is wrong or odd in a prediction formula, a pair of limits, and the two together.

    What is no formula (a simulation, say) cannot be looked into and is passed over.
    """
    found: list[Finding | None] = []
    spot = place or Place()
    graded = predict if predict and isinstance(predict.formula, Formula) else None
    if graded:
        found += _prediction(graded, spot, budget)
    if limits:
        found += _limits(limits, spot, budget)
        if graded and isinstance(graded.formula, Formula) and _readable(limits):
            verdict = stays_between(
                graded.formula.tree,
                (tree_of(limits.lower), tree_of(limits.upper)),
                scope_of(_schema(graded).features),
                same_edges(graded, limits),
                budget,
            )
            found.append(
                report_verdict(verdict, Finding("error", "outside-range", spot), _schema(graded))
            )
    return [finding for finding in found if finding is not None]


def _prediction(graded: GradedFormula, place: Place, budget: int) -> Iterator[Finding | None]:
    schema = _schema(graded)
    formula = graded.formula
    assert isinstance(formula, Formula)  # for the type checker
    yield _find_undefined(formula, "prediction", place, budget)
    grading = Grading(graded.edges)
    edges, scope = np.array(graded.edges, np.float32), scope_of(schema.features)
    for grade, verdict in enumerate(never_reached(formula.tree, edges, scope, budget)):
        name, (low, high) = schema.classes[grade], grading.interval(grade)
        if verdict.status == "proved":
            yield Finding(
                "warning",
                "unreached",
                place,
                {"name": name, "low": low, "high": high},
            )
        elif verdict.status == "unknown":
            yield gave_up(Finding("warning", "unreached", place, {"name": name}))


def _limits(limits: FormulaRange, place: Place, budget: int) -> Iterator[Finding | None]:
    for name, side in (("lower", limits.lower), ("upper", limits.upper)):
        if isinstance(side, Formula):
            yield _find_undefined(side, name, place, budget)
    if isinstance(limits.lower, Formula) and isinstance(limits.upper, Formula):
        yield report_verdict(
            never_crossed(
                limits.lower.tree,
                limits.upper.tree,
                scope_of(limits.lower.schema.features),
                budget,
            ),
            Finding("error", "empty-range", place, case="limits"),
            limits.lower.schema,
        )


def _find_undefined(formula: Formula, of: str, place: Place, budget: int) -> Finding | None:
    return report_verdict(
        always_defined(formula.tree, scope_of(formula.schema.features), budget),
        Finding("warning", "undefined", place, {"formula": formula.text}, of),
        formula.schema,
    )


def report_verdict(verdict: Verdict, refuted: Finding, schema: Schema) -> Finding | None:
    """What a verdict means to an expert: nothing, a row that shows it, or that it is open."""
    if verdict.status == "proved":
        return None
    if verdict.example is None:
        return gave_up(refuted)
    row = dict(zip(schema.names, _plain(schema, verdict.example), strict=True))
    return replace(refuted, counterexample=row)


def gave_up(open_one: Finding, odd: object = None) -> Finding:
    """What could not be decided, for want of boxes or because a model cannot be looked into."""
    about = f"{open_one.kind}/{open_one.case}" if open_one.case else open_one.kind
    args = {**open_one.args, "about": about}
    if odd is None:
        return Finding("info", "gave-up", open_one.place, args, "boxes")
    args["model"] = type(odd).__name__
    return Finding("info", "gave-up", open_one.place, args, "model")


def _plain(schema: Schema, row: tuple[float, ...]) -> list[float | str]:
    """A row as an expert would write it: levels by name."""
    return [
        feature.levels[round(value)] if feature.levels else value
        for feature, value in zip(schema.features, row, strict=True)
    ]


def same_edges(graded: GradedFormula, limits: FormulaRange) -> NDArray[np.float32]:
    """The edges between classes of a prediction and its range, as rows are held against them."""
    if limits.edges != graded.edges:
        raise KnowledgeError(
            f"prediction and range must have the same edges, got {graded.edges} and {limits.edges}"
        )
    return np.array(graded.edges, np.float32)


def _readable(limits: FormulaRange) -> bool:
    return all(side is None or isinstance(side, Formula) for side in (limits.lower, limits.upper))


def _schema(graded: GradedFormula) -> Schema:
    assert isinstance(graded.formula, Formula)  # for the type checker
    return graded.formula.schema
