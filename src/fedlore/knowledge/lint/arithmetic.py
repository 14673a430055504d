"""Formulas checked over the whole declared scope, without data: what an expert should know."""

from collections.abc import Iterator

from ...kernel.findings import Finding, Place, Severity
from ...kernel.schema import Schema
from ..formulas.formula import Formula
from ..formulas.grading import FormulaRange, GradedFormula, Grading
from ..formulas.proofs import always_defined, never_crossed, never_reached, stays_within
from ..formulas.search import BUDGET, Verdict


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
        if graded and _readable(limits):
            verdict = stays_within(graded, limits, budget=budget)
            found.append(
                report_verdict(
                    verdict,
                    "error",
                    "outside-range",
                    "the prediction leaves the range",
                    schema=_schema(graded),
                    place=spot,
                    suggestion="correct the prediction or widen the range",
                )
            )
    return [finding for finding in found if finding is not None]


def _prediction(graded: GradedFormula, place: Place, budget: int) -> Iterator[Finding | None]:
    schema = _schema(graded)
    formula = graded.formula
    assert isinstance(formula, Formula)  # for the type checker
    yield _find_undefined(formula, "the prediction abstains", place, budget)
    grading = Grading(graded.edges)
    for grade, verdict in enumerate(never_reached(graded, budget=budget)):
        name, (low, high) = schema.classes[grade], grading.interval(grade)
        if verdict.status == "proved":
            yield Finding(
                "warning",
                "unreached",
                f"no row of the scope is predicted to be '{name}' ({low:g} to {high:g})",
                place,
                suggestion="check the edges and the units of the features",
            )
        elif verdict.status == "unknown":
            yield gave_up(f"whether any row is predicted to be '{name}'", place)


def _limits(limits: FormulaRange, place: Place, budget: int) -> Iterator[Finding | None]:
    for name, side in (("lower", limits.lower), ("upper", limits.upper)):
        if isinstance(side, Formula):
            yield _find_undefined(side, f"the {name} limit does not limit", place, budget)
    if isinstance(limits.lower, Formula) and isinstance(limits.upper, Formula):
        yield report_verdict(
            never_crossed(limits, budget=budget),
            "error",
            "empty-range",
            "the lower limit exceeds the upper one",
            schema=limits.lower.schema,
            place=place,
            suggestion="correct the limits, or bound one by the other with min or max",
        )


def _find_undefined(formula: Formula, so: str, place: Place, budget: int) -> Finding | None:
    return report_verdict(
        always_defined(formula, budget=budget),
        "warning",
        "undefined",
        f"'{formula.text}' has no value, so {so}",
        schema=formula.schema,
        place=place,
        suggestion="narrow the scope, or guard it: where(x > 0, log(x), ...)",
    )


def report_verdict(
    verdict: Verdict,
    severity: Severity,
    code: str,
    message: str,
    *,
    schema: Schema,
    place: Place,
    suggestion: str,
) -> Finding | None:
    """What a verdict means to an expert: nothing, a row that shows it, or that it is open."""
    if verdict.status == "proved":
        return None
    if verdict.example is None:
        return gave_up(f"whether {message} somewhere", place)
    row = dict(zip(schema.names, _plain(schema, verdict.example), strict=True))
    where = ", ".join(f"{name} {_short(value)}" for name, value in row.items())
    return Finding(
        severity,
        code,
        f"{message}, for example where {where}",
        place,
        counterexample=row,
        suggestion=suggestion,
    )


def gave_up(what: str, place: Place, odd: object = None) -> Finding:
    """What could not be decided, for want of boxes or because a model cannot be looked into."""
    if odd is None:
        why, suggestion = "too many boxes", "narrow the scope, or allow a larger budget"
    else:
        why = f"a {type(odd).__name__} cannot be looked into"
        suggestion = "say it as a table or a formula"
    message = f"gave up: {why} to decide {what}"
    return Finding("info", "gave-up", message, place, suggestion=suggestion)


def _plain(schema: Schema, row: tuple[float, ...]) -> list[float | str]:
    """A row as an expert would write it: levels by name."""
    return [
        feature.levels[round(value)] if feature.levels else value
        for feature, value in zip(schema.features, row, strict=True)
    ]


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _readable(limits: FormulaRange) -> bool:
    return all(side is None or isinstance(side, Formula) for side in (limits.lower, limits.upper))


def _schema(graded: GradedFormula) -> Schema:
    assert isinstance(graded.formula, Formula)  # for the type checker
    return graded.formula.schema
