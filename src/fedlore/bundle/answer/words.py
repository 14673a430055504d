"""What each piece of knowledge says about rows, in words: one list of lines for each row."""

from typing import Any

import torch
from torch import Tensor

from ...knowledge.combine import AllOf, AnyOf, Average, FirstOf
from ...knowledge.conformal import ConformalRange
from ...knowledge.confusion import Recalibrated
from ...knowledge.formulas.formula import Formula
from ...knowledge.formulas.grading import FormulaRange, GradedFormula, SoftFormula
from ...knowledge.numbers.conformal import ConformalInterval
from ...knowledge.numbers.ranges import Between, FirstSaid, Join, Meet
from ...knowledge.numbers.tables import IntervalTable, NumberTable
from ...knowledge.schema import Schema
from ...knowledge.tables.cells import format_condition, format_outcome
from ...knowledge.tables.table import Rule, Table

Lines = list[list[str]]


def number_text(value: float) -> str:
    """A number as a person would write it."""
    return f"{value:.6g}"


def range_words(model: Any, x: Tensor) -> Lines:
    """Which rules and formulas limit the classes of each row."""
    if model is None or not len(x):
        return _none(x)
    if isinstance(model, AllOf | AnyOf):
        return _together([range_words(part, x) for part in model.ranges], x)
    if isinstance(model, Table):
        return _rules(model, x, model.hits(x), every=len(model.schema.classes))
    if isinstance(model, FormulaRange):
        return _between(model.lower, model.upper, x)
    if isinstance(model, ConformalRange):
        level = f"statistical range at level {1 - model.alpha:.4g}"
        return [[f"{level}: {int(n)} of {len(model.thresholds)} classes"] for n in model(x).sum(1)]
    return [[f"a range given by a {type(model).__name__}"] for _ in range(len(x))]


def prediction_words(model: Any, x: Tensor) -> Lines:
    """What made the expert say what he says; nothing where he is silent."""
    if model is None or not len(x):
        return _none(x)
    if isinstance(model, Recalibrated):
        inner = prediction_words(model.expert, x)
        return [[f"{line} (heard through his confusion)" for line in some] for some in inner]
    if isinstance(model, FirstOf):
        return _first([(prediction_words(p, x), (p(x) > 0).any(1)) for p in model.predictions], x)
    if isinstance(model, Average):
        return _together([prediction_words(part, x) for part in model.predictions], x)
    if isinstance(model, Table):
        return _rules(model, x, _speaking(model, x))
    if isinstance(model, GradedFormula | SoftFormula):
        return _formula("expert's formula", model.formula, x)
    spoken = (model(x) > 0).any(1).tolist()
    return [[f"a prediction by a {type(model).__name__}"] if said else [] for said in spoken]


def set_words(model: Any, x: Tensor) -> Lines:
    """Which rules and formulas limit the number of each row."""
    if model is None or not len(x):
        return _none(x)
    if isinstance(model, Meet | Join):
        return _together([set_words(part, x) for part in model.ranges], x)
    if isinstance(model, IntervalTable):
        return _rules(model.table, x, model.table.hits(x), texts=True)
    if isinstance(model, Between):
        return _between(model.lower, model.upper, x)
    if isinstance(model, ConformalInterval):
        level = f"statistical interval at level {1 - model.alpha:.4g}"
        return [[f"{level}: {number_text(model.radius)} on either side"] for _ in range(len(x))]
    return [[f"a range given by a {type(model).__name__}"] for _ in range(len(x))]


def point_words(model: Any, x: Tensor) -> Lines:
    """What made the expert name his number."""
    if model is None or not len(x):
        return _none(x)
    if isinstance(model, FirstSaid):
        return _first([(point_words(p, x), p(x).isfinite()) for p in model.points], x)
    if isinstance(model, NumberTable):
        return _rules(model.table, x, _speaking(model.table, x), texts=True)
    if isinstance(model, Formula):
        return _formula("expert's formula", model, x)
    spoken = model(x).isfinite().tolist()
    return [[f"a prediction by a {type(model).__name__}"] if said else [] for said in spoken]


def rule_text(rule: Rule, schema: Schema, kind: str, *, text: bool = False) -> str:
    """`ash > 12 and sulphur <= 1 -> B..C`."""
    parts = []
    for column, condition in rule.conditions:
        feature = schema.features[column]
        cell = format_condition(condition, feature)
        link = " " if cell[:1] in "<>=" or cell.startswith(("in ", "not ")) else " = "
        parts.append(feature.name + (" in " if cell[:1] in "[(" else link) + cell)
    then = schema.classes[rule.outcome[0]] if text else ""
    outcome = then or format_outcome(rule.outcome, schema.classes, kind)  # type: ignore[arg-type]
    return f"{' and '.join(parts) or 'always'} -> {outcome}"


def _rules(
    table: Table, x: Tensor, hits: Tensor, *, every: int | None = None, texts: bool = False
) -> Lines:
    """A line per rule that hits; a rule that allows all `every` classes limits nothing."""
    said: dict[int, str] = {}  # most rules hit no row: only those that do are put into words
    lines = _none(x)
    for row, rule in hits.nonzero().tolist():
        if every is None or len(table.rules[rule].outcome) < every:
            if rule not in said:
                words = rule_text(table.rules[rule], table.schema, table.kind, text=texts)
                said[rule] = f"{table.name}, {table.label(rule)}: {words}"
            lines[row].append(said[rule])
    return lines


def _speaking(table: Table, x: Tensor) -> Tensor:
    """The rule whose word counts in each row, (n, rules) bool."""
    hits = table.hits(x)
    if table.policy == "unique":
        return hits
    order = torch.tensor(table.order)
    ranked = hits[:, order]
    first = ranked & (ranked.cumsum(1) == 1)
    return torch.zeros_like(hits).index_copy_(1, order, first)


def _between(lower: Any, upper: Any, x: Tensor) -> Lines:
    lines = _none(x)
    for name, side in (("at least", lower), ("at most", upper)):
        if isinstance(side, Formula):
            lines = _together([lines, _formula(name, side, x)], x)
        elif side is not None:
            found = side(x).tolist() if callable(side) else [float(side)] * len(x)
            lines = _together([lines, [[f"{name} {number_text(v)}"] for v in found]], x)
    return lines


def _formula(name: str, formula: Any, x: Tensor) -> Lines:
    text = getattr(formula, "text", type(formula).__name__)
    values = formula(x)
    return [
        [f"{name} {text} = {number_text(v)}"] if ok else []
        for v, ok in zip(values.tolist(), values.isfinite().tolist(), strict=True)
    ]


def _first(parts: list[tuple[Lines, Tensor]], x: Tensor) -> Lines:
    """The words of the first who is not silent."""
    lines = _none(x)
    left = torch.ones(len(x), dtype=torch.bool)
    for words, spoken in parts:
        for row in (left & spoken).nonzero().flatten().tolist():
            lines[row] = words[row]
        left &= ~spoken
    return lines


def _together(parts: list[Lines], x: Tensor) -> Lines:
    return [[line for part in parts for line in part[row]] for row in range(len(x))]


def _none(x: Tensor) -> Lines:
    return [[] for _ in range(len(x))]
