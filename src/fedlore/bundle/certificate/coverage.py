"""Whether a range allows a class in every row of the scope, by the proofs that `lint` uses."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import KnowledgeError
from ...kernel.schema import Schema
from ...knowledge import Knowledge
from ...knowledge.combine import AllOf, AnyOf
from ...knowledge.formulas.formula import Formula
from ...knowledge.formulas.grading import FormulaRange
from ...knowledge.formulas.proofs import never_crossed
from ...knowledge.formulas.search import ProofStatus
from ...knowledge.lint.boxes import GaveUp, Meter
from ...knowledge.lint.logic import LINT_STEPS
from ...knowledge.lint.over import view_range
from ...knowledge.lint.pool import RulePool
from ...knowledge.lint.ranges import empty_range
from ...knowledge.lint.single import scope_box, single_table
from ...knowledge.lint.together import AllSources
from ...knowledge.sources.writing import kind_of_model
from ...knowledge.tables.table import Table
from .claims import Claim

_Found = tuple[ProofStatus, str, tuple[float, ...] | None]  # status, how, row


def never_empty(knowledge: Knowledge, schema: Schema) -> Claim:
    """The claim that no row of the scope is left without a class, or refused by the range."""
    model = knowledge.range
    if model is None:
        return Claim("never-empty", "proved", "there is no range: every class is allowed")
    parts: Sequence[Any] = model.ranges if isinstance(model, AllOf | AnyOf) else (model,)
    proofs = [_proof(part, f"[range] source {place}") for place, part in enumerate(parts, 1)]
    found = [proof(part, schema) for proof, part in zip(proofs, parts, strict=True)]
    if isinstance(model, AllOf) and model.empty == "error":
        found.append(_together(parts, schema))
    found = [_confirm(one, knowledge) for one in found]
    for status, how, row in sorted(found, key=lambda one: one[0] == "unknown"):
        if status != "proved":  # what is refuted comes before what is unknown
            return Claim("never-empty", status, how, row)
    return Claim("never-empty", "proved", "; ".join(dict.fromkeys(how for _, how, _ in found)))


def _table_alone(model: Table, schema: Schema) -> _Found:
    if model.policy == "union":
        return "proved", f"{model.name}: a union of non-empty sets, all where no rule hits", None
    return _tables([model])


def _limits_alone(model: FormulaRange, schema: Schema) -> _Found:
    if model.crossed == "all" or model.lower is None or model.upper is None:
        return "proved", "formulas: one end only, or everything where they cross", None
    found = never_crossed(model, scope_box(schema))
    words = {"proved": "lower <= upper", "refuted": "lower > upper", "unknown": "undecided"}
    how = f"formulas: {words[found.status]} by interval arithmetic, rounding included"
    return found.status, how, found.example


#: What shows of each kind of range that it leaves a class in every row.
PROOFS: dict[type, Callable[[Any, Schema], _Found]] = {
    Table: _table_alone,
    FormulaRange: _limits_alone,
}


def _proof(model: Any, place: str) -> Callable[[Any, Schema], _Found]:
    """The proof of a kind; one that has none, or holds a function, is refused."""
    kind = kind_of_model(model)
    found = PROOFS.get(type(model)) or (None if kind is None else kind.proof)
    sides = (model.lower, model.upper) if isinstance(model, FormulaRange) else ()
    if found is None or not all(s is None or isinstance(s, Formula) for s in sides):
        raise KnowledgeError(
            f"a certificate speaks of tables and formulas: {place} is a {type(model).__name__}"
        )
    return found


def _together(parts: Sequence[Any], schema: Schema) -> _Found:
    """Ranges that must not exclude each other."""
    tables = [part for part in parts if isinstance(part, Table)]
    views = [one for one in map(view_range, parts) if one is not None]
    other = [part for part in parts if type(part) not in PROOFS]
    if other:
        return "unknown", f"whether a {type(other[0]).__name__} leaves what others allow", None
    if len(tables) == len(parts):
        return _tables(tables)
    found = AllSources(schema, views).never_apart()
    words = {"proved": "share a class", "refuted": "exclude each other", "unknown": "undecided"}
    how = f"tables and formulas: {words[found.status]}, {found.boxes} boxes"
    return found.status, how, found.example


def _tables(tables: Sequence[Table]) -> _Found:
    known = [table for table in map(single_table, tables) if table is not None]
    names = ", ".join(table.name for table in tables)
    if not known:
        return "proved", f"{names}: no rule can hit", None
    try:
        pool = RulePool.of(known)
        clash = empty_range(pool, range(len(known)), Meter(LINT_STEPS))
    except GaveUp:
        return "unknown", f"{names}: too many steps to decide which ranges can be empty", None
    if clash is None:
        count = sum(len(table.rules) for table in known)
        return "proved", f"{names}: every box of cells between thresholds, {count} rules", None
    row = pool.domain.row(clash.box.runs())
    labels = " and ".join(pool.table(m).label(pool.members[m][1]) for m in clash.members)
    return "refuted", f"{names}: {labels} leave no class", _numbers(row, known[0].schema)


def _numbers(row: dict[str, float | str], schema: Schema) -> tuple[float, ...]:
    values = []
    for feature in schema.features:
        value = row[feature.name]
        values.append(float(feature.levels.index(str(value))) if feature.levels else float(value))
    return tuple(values)


def _confirm(found: _Found, knowledge: Knowledge) -> _Found:
    """A counterexample counts only where the range itself refuses that very row."""
    status, how, row = found
    if status != "refuted" or row is None or knowledge.range is None:
        return found
    x = torch.tensor([row], dtype=torch.float32)
    try:
        empty = not bool(knowledge.range(x).any())
    except KnowledgeError:
        empty = True
    if empty:
        return status, how, tuple(x[0].tolist())
    return "unknown", f"{how}, but not in single precision", None
