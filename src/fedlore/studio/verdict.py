"""One row tried on the draft: which rules apply, which lose and why, what is allowed and expected.

The draft answers through the functions that training and `predict` use.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..data.rows.strict import Unusable, strict_values
from ..errors import FedloreError, KnowledgeError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.findings.checkup import Checkup
from ..knowledge.missing import hear, hide_others
from ..knowledge.soft import Softened
from ..knowledge.sources.catalog import leaves, parts_of
from ..knowledge.sources.reasons import missing_reasons, reasons_of
from ..knowledge.sources.table import is_of_number, rule_text
from ..knowledge.tables.soft import SoftTable
from ..knowledge.tables.table import Table
from ..models.answers import in_scope
from ..words.en import case_words
from .grids import RuleGrid


@dataclass(frozen=True)
class Heard:
    """What the knowledge says of n rows; numbers have `low` and `high` in place of `allowed`."""

    expert: Tensor  # (n,): a class, -1 where he is silent; or a number, NaN where he is
    allowed: Tensor | None  # (n, k) bool
    low: Tensor | None  # (n,)
    high: Tensor | None
    refused: Tensor  # (n,) bool: the rules contradict each other there
    prior: Tensor | None = None  # (n, k)


def usable(checkup: Checkup) -> tuple[Knowledge, Schema]:
    """The knowledge of a checkup, or a sentence why there is none."""
    known = checkup.knowledge
    if known is None or known.schema is None:
        first = next((f for f in checkup.findings if f.severity == "error"), None)
        why = "" if first is None else f" ({first.place}: {first.message})"
        raise KnowledgeError(f"the rules cannot be used yet: mend the errors first{why}")
    return known, known.schema


def read_row(row: Mapping[str, str | float | None], schema: Schema) -> Tensor:
    """One row as it was typed, (1, d) float32; a decimal comma is a point."""
    said: dict[str, Any] = {}
    levels = {feature.name: bool(feature.levels) for feature in schema.features}
    for name, value in row.items():
        said[name] = _typed(value, levels.get(name, False))
    try:
        values = strict_values([said], schema)
    except Unusable as error:
        raise KnowledgeError(str(error).removeprefix("row 1, ").removeprefix("row 1: ")) from None
    return torch.tensor(values, dtype=torch.float32)


def _typed(value: str | float | None, level: bool) -> str | float | None:
    if isinstance(value, str) and not level:
        text = value.strip()
        try:
            return float(text.replace(",", ".") if text.count(",") == 1 else text)
        except ValueError:
            return text or None
    if isinstance(value, str):
        return value.strip() or None
    return float(value) if value is not None and not level else value


@torch.no_grad()
def hear_knowledge(checkup: Checkup, x: Tensor) -> Heard:
    """What the knowledge says of rows; where it contradicts itself the others are still told."""
    known, schema = usable(checkup)
    refused = torch.zeros(len(x), dtype=torch.bool)
    for table in tables_in(checkup):
        refused |= _clashes(table, x)
    good = (~refused).nonzero().flatten()
    parts = list(_ask_parts(known, x, good, refused))
    n, k = len(x), len(schema.classes)
    if known.line is not None:
        ends = [torch.full((n,), torch.nan, dtype=torch.float64) for _ in range(3)]
        for rows, found in parts:
            for end, value in zip(ends, found, strict=True):
                end[rows] = value.double()
        return Heard(ends[0], None, ends[1], ends[2], refused)
    expert = torch.full((n,), -1, dtype=torch.int64)
    allowed, prior = torch.ones(n, k, dtype=torch.bool), torch.zeros(n, k)
    for rows, (said, may) in parts:
        prior[rows], allowed[rows] = said.float(), may
        expert[rows] = torch.where(said.sum(1) > 0, said.argmax(1), -1)
    allowed[refused] = False
    return Heard(expert, allowed, None, None, refused, prior)


def _ask_parts(
    known: Knowledge, x: Tensor, rows: Tensor, refused: Tensor
) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """The answers by parts that can be answered; rows that cannot are marked, found by halving."""
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        if not len(part):
            continue
        try:
            yield part, ask_once(known, x[part])
        except KnowledgeError:
            if len(part) == 1:
                refused[part] = True
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]


def ask_once(known: Knowledge, x: Tensor) -> tuple[Tensor, ...]:
    """The answers to rows, all of them or none: what is contradicted is raised."""
    if known.bins is None:
        k = len(known.require_schema().classes)
        found = known.annotate(Examples(x), known.answers)
        prior = torch.zeros(len(x), k) if found.prior is None else found.prior
        every = torch.ones(len(x), k, dtype=torch.bool)
        return prior, every if found.allowed is None else found.allowed
    rows = known.annotate(Measured(x), training=False)
    said = torch.full((len(x),), torch.nan) if rows.said is None else rows.said
    if rows.sets is None:
        return (
            said,
            torch.full_like(said, known.bins.lower),
            torch.full_like(said, known.bins.upper),
        )
    low = rows.sets.lower.nan_to_num(torch.inf).amin(1)
    high = rows.sets.upper.nan_to_num(-torch.inf).amax(1)
    return said, low, high


def _clashes(table: Table, x: Tensor) -> Tensor:
    """Rows on which a table refuses to answer, as far as whole rows show it, (n,) bool."""
    if table.policy not in ("intersect", "unique"):
        return torch.zeros(len(x), dtype=torch.bool)
    hits = table.hits(x).float()
    outcomes = torch.zeros(len(table.rules), len(table.schema.classes))
    for index, rule in enumerate(table.rules):
        outcomes[index, list(rule.outcome)] = 1.0
    if table.policy == "intersect":
        return (hits @ (1.0 - outcomes) > 0).all(1)
    return (hits @ outcomes > 0).sum(1) > 1


def tables_in(checkup: Checkup) -> list[Table]:
    """The decision tables whose rules speak of classes."""
    known = checkup.knowledge
    if known is None or known.line is not None:
        return []
    return [model for model in leaves(known.prediction, known.range) if isinstance(model, Table)]


def tried_row(row: Mapping[str, str | float | None], checkup: Checkup) -> Tensor:
    """The row a person tries, refused in a sentence where it is none."""
    _, schema = usable(checkup)
    try:
        return read_row(row, schema)
    except FedloreError as error:
        raise KnowledgeError(f"this row cannot be tried: {error}") from None


_WEIGHS = {"limits": "weighs"}  # what a rule does that holds in most cases only


@torch.no_grad()
def judge_row(checkup: Checkup, x: Tensor, grids: Sequence[RuleGrid]) -> dict[str, Any]:
    """Everything about one row, (1, d), as plain values."""
    known, schema = usable(checkup)
    heard = hear_knowledge(checkup, x)
    rows = hide_others(x, schema)
    refused = bool(heard.refused[0])
    told: dict[str, Any] = {
        "row": {
            f.name: _value(float(v), f.levels) for f, v in zip(schema.features, x[0], strict=True)
        },
        "in_scope": bool(in_scope(schema, x)[0]),
        "refused": _refusal(known, x) if refused else "",
        "rules": _rules(known, rows, grids),
        "why": [] if refused else _words(known, rows),
    }
    if known.line is not None:
        assert heard.low is not None and heard.high is not None
        said = float(heard.expert[0])
        ends = {"low": float(heard.low[0]), "high": float(heard.high[0])}
        return told | {"expert": None if said != said else said, "allowed": None, **ends}
    assert heard.allowed is not None and heard.prior is not None
    place = int(heard.expert[0])
    soft = ((heard.prior[0] > 0) & (heard.prior[0] < 1)).any()
    return told | {
        "expert": None if place < 0 else schema.classes[place],
        "chances": dict(zip(schema.classes, heard.prior[0].tolist(), strict=True))
        if soft
        else None,
        "allowed": [
            c for c, may in zip(schema.classes, heard.allowed[0].tolist(), strict=True) if may
        ],
    }


def _value(value: float, levels: Sequence[str]) -> float | str | None:
    if value != value:
        return None
    if levels:
        return levels[int(value)] if value < len(levels) else "?"
    return float(f"{value:.7g}")  # what float32 holds of a number that was typed


def _refusal(known: Knowledge, x: Tensor) -> str:
    """What the knowledge itself says where it has no answer."""
    try:
        ask_once(known, x)
    except KnowledgeError as error:
        return str(error)
    return ""


def _words(known: Knowledge, rows: Tensor) -> list[str]:
    """The lines of `predict --why` that come from the knowledge."""
    said, allowed = known.answers.asked
    found = [
        *reasons_of(known.range, rows, allowed)[0],
        *reasons_of(known.prediction, rows, said)[0],
    ]
    if known.row_trust is not None and known.prediction is not None:
        found += filter(None, known.row_trust.reasons(rows, known.trust_at_prediction))
    found += missing_reasons((known.range, known.prediction), rows, known.require_schema())[0]
    return list(map(str, found))


def _rules(known: Knowledge, rows: Tensor, grids: Sequence[RuleGrid]) -> list[dict[str, Any]]:
    """Every rule that hits or may hit, with what becomes of it."""
    told: list[dict[str, Any]] = []
    spoken = ""  # who spoke first among several experts
    said: Any = known.prediction
    expert, mostly = (said.expert, said.ranges) if isinstance(said, Softened) else (said, ())
    for source in _sources(expert):
        for model in leaves(source):
            table = getattr(model, "table", model)
            if isinstance(table, Table):
                found = _predicting(table, rows, grids, spoken, text=is_of_number(model))
                told += _with_shares(found, model)
        if not spoken and known.line is None and _speaks(source, rows):
            names = [m.place.file for m in leaves(source) if isinstance(m, Table)]
            spoken = names[0] if names else "a formula"
    for model in leaves(known.range):
        table = getattr(model, "table", model)
        if isinstance(table, Table):
            told += _limiting(table, rows, grids, text=is_of_number(model))
    for model in mostly:
        if isinstance(model, SoftTable):
            found = _limiting(replace(model.table, policy="union"), rows, grids, text=False)
            weighing = [one | {"state": _WEIGHS.get(one["state"], one["state"])} for one in found]
            told += _with_shares(weighing, model)
    return told


def _with_shares(told: list[dict[str, Any]], model: Any) -> list[dict[str, Any]]:
    """The same rules, each with the share of cases in which it holds, where it says one."""
    if not isinstance(model, SoftTable):
        return told
    shares = {model.table.label(i): case_words(c) for i, c in enumerate(model.confidences)}
    return [one | {"text": one["text"] + shares[one["label"]]} for one in told]


def _sources(model: Any) -> tuple[Any, ...]:
    parts = parts_of(model)
    return (model,) if parts is None else parts


def _speaks(model: Any, rows: Tensor) -> bool:
    try:
        return bool((hear(model, rows) > 0).any())
    except KnowledgeError:
        return False


def _predicting(
    table: Table, rows: Tensor, grids: Sequence[RuleGrid], spoken: str, *, text: bool
) -> list[dict[str, Any]]:
    hits, open_ = table.hits(rows)[0].tolist(), table.undecided(rows)[0].tolist()
    hitting = [index for index in table.order if hits[index]]
    outcomes = {table.rules[index].outcome for index in hitting}
    told = []
    for index in table.order:
        if not hits[index] and not open_[index]:
            continue
        state, because = "speaks", ""
        if not hits[index]:
            state, because = "undecided", "missing"
        elif table.policy == "unique" and len(outcomes) > 1:
            state, because = "clashes", "unique"
        elif table.policy != "unique" and index != hitting[0]:
            state, because = "loses", table.label(hitting[0])
        elif spoken:
            state, because = "loses", spoken
        told.append(_rule(table, index, grids, state, because, text=text))
    return told


def _limiting(
    table: Table, rows: Tensor, grids: Sequence[RuleGrid], *, text: bool
) -> list[dict[str, Any]]:
    hits, open_ = table.hits(rows)[0].tolist(), table.undecided(rows)[0].tolist()
    every = len(table.schema.classes)
    hitting = [index for index, hit in enumerate(hits) if hit]
    left = set(range(every))
    for index in hitting:
        left &= set(table.rules[index].outcome)
    empty = table.policy == "intersect" and not left and not text
    told = []
    for index in range(len(table.rules)):
        if hits[index] or open_[index]:
            full = len(table.rules[index].outcome) == every and not text
            state = "limits" if not full else "allows"
            state = "clashes" if empty and not full else state
            state = state if hits[index] else "undecided"
            told.append(_rule(table, index, grids, state, "", text=text))
    return told


def _rule(
    table: Table, index: int, grids: Sequence[RuleGrid], state: str, because: str, *, text: bool
) -> dict[str, Any]:
    rule = table.rules[index]
    found = next(
        (i for i, g in enumerate(grids) if (g.file, g.sheet) == (table.name, rule.place.sheet)),
        None,
    )
    row = (
        None if found is None or rule.place.row is None else rule.place.row - grids[found].first - 1
    )
    return {
        "grid": found,
        "row": row,
        "label": table.label(index),
        "file": table.name,
        "text": rule_text(rule, table.schema, table.kind, text=text),
        "note": rule.note,
        "state": state,
        "because": because,
    }
