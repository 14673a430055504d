"""One row tried on the draft: which rules apply, which lose and why, what is allowed and expected.

The draft answers through the functions that training and `predict` use.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ..data.rows.strict import Unusable, strict_values
from ..errors import FedloreError, KnowledgeError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.findings.checkup import Checkup
from ..knowledge.missing import has_prediction, hide_others
from ..knowledge.rowtrust import trust_reasons
from ..knowledge.soft import split_prediction
from ..knowledge.sources.catalog import parts_of
from ..knowledge.sources.reasons import missing_reasons, reasons_of
from ..knowledge.sources.table import rule_text
from ..knowledge.tables.table import Table
from ..models.answers import in_scope
from ..words import phrase
from .answers import DraftAnswers, answer_draft, ask_once, name_values, rule_tables, usable
from .checks import judge
from .edits import edit_toml
from .grids import RuleGrid, sources_in


def judge_rest(members: Mapping[str, bytes]) -> tuple[Checkup, str]:
    """The same; where one part keeps the file from being used, of the others, and which it was.

    It serves to try rows on a file under way. What is saved, signed or compared is the whole file.
    """
    checkup = judge(members)
    if checkup.knowledge is not None or FILE not in members:
        return checkup, ""
    for path, name in _parts(members):
        try:
            text = edit_toml(members[FILE].decode("utf-8-sig"), path, None)
        except (FedloreError, UnicodeDecodeError):
            continue
        rest = judge(ChainMap({FILE: text.encode()}, cast(dict[str, bytes], members)))
        if rest.knowledge is not None:
            return rest, name
    return checkup, ""


def _parts(members: Mapping[str, bytes]) -> Iterator[tuple[list[str | int], str]]:
    """What a file can do without: where it stands, and what a person calls it."""
    try:
        values = toml_in(*files_at(members))
    except FedloreError:
        return
    for key in ("shape", "trust", "examples"):
        if key in values:
            yield [key], f"[{key}]"
    for side in ("range", "predict"):
        for place, source in enumerate(sources_in(values, side)):
            name = next((str(v) for v in source.values() if isinstance(v, str)), "")
            yield [side, "sources", place], f"[{side}] source {place + 1} {name}".strip()


def read_row(row: Mapping[str, str | float | None], schema: Schema) -> Tensor:
    """One row as it was typed, (1, d) float32; a decimal comma is a point."""
    levels = {feature.name: bool(feature.levels) for feature in schema.features}
    said = {name: _typed(value, levels.get(name, False)) for name, value in row.items()}
    try:
        values = strict_values([said], schema)
    except Unusable as error:
        raise KnowledgeError(str(error).removeprefix("row 1, ").removeprefix("row 1: ")) from None
    return torch.tensor(values, dtype=torch.float32)


def _typed(value: str | float | None, level: bool) -> str | float | None:
    if not isinstance(value, str):
        return value if level or value is None else float(value)
    text = value.strip()
    try:
        number = text.replace(",", ".") if text.count(",") == 1 else text
        return text or None if level else float(number)
    except ValueError:
        return text or None


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
    heard = answer_draft(checkup, x)
    rows = hide_others(x, schema)
    refused = bool(heard.refused[0])
    return {
        "row": name_values(schema, x[0].tolist()),
        "in_scope": bool(in_scope(schema, x)[0]),
        "refused": _refusal(known, x) if refused else "",
        "rules": _rules(known, rows, grids),
        "why": [] if refused else _words(known, rows, heard),
        **heard.row(),
    }


def _refusal(known: Knowledge, x: Tensor) -> str:
    """What the knowledge itself says where it has no answer."""
    try:
        ask_once(known, x)
    except KnowledgeError as error:
        return str(error)
    return ""


def _words(known: Knowledge, rows: Tensor, heard: DraftAnswers) -> list[str]:
    """The lines of `predict --why` that come from the knowledge."""
    said, allowed = known.answers.asked
    found = [
        *reasons_of(known.range, rows, allowed)[0],
        *reasons_of(known.prediction, rows, said)[0],
    ]
    torn = bool((heard.expert[0] == -1) & ~heard.silent[0]) and known.line is None
    for one in trust_reasons(known, rows, known.trust_at_prediction):
        if one is not None and not heard.silent[0] and not (torn and one.args["trust"] == 0):
            found.append(one)
    found += missing_reasons((known.range, known.prediction), rows, known.require_schema())[0]
    return list(map(str, found))


def _rules(known: Knowledge, rows: Tensor, grids: Sequence[RuleGrid]) -> list[dict[str, Any]]:
    """Every rule that hits or may hit, with what becomes of it."""
    lines: list[dict[str, Any]] = []
    limits = _hitting_limits(known, rows)
    spoken = ""  # who spoke first among several experts
    expert, mostly = split_prediction(known.prediction)
    parts = parts_of(expert)
    for source in (expert,) if parts is None else parts:
        for model, table in rule_tables(source):
            found = _predicting(table, rows, grids, spoken, limits, text=model.of_number)
            lines += _with_shares(found, model)
        if not spoken and known.line is None and _speaks(source, rows):
            names = [table.name for model, table in rule_tables(source) if model is table]
            spoken = names[0] if names else "a formula"
    for model, table in rule_tables(known.range):
        lines += _limiting(table, rows, grids, text=model.of_number)
    for model, table in rule_tables(*mostly):
        found = _limiting(replace(table, policy="union"), rows, grids, text=False)
        weighing = [one | {"state": _WEIGHS.get(one["state"], one["state"])} for one in found]
        lines += _with_shares(weighing, model)
    return lines


def _hitting_limits(known: Knowledge, rows: Tensor) -> list[tuple[str, set[int]]]:
    """The rules of the range that hit a row, each with the classes it leaves."""
    return [
        (f"{table.name} {table.label(index)}", set(table.rules[index].outcome))
        for model, table in rule_tables(known.range)
        if not model.of_number
        for index in table.hits(rows)[0].nonzero().flatten().tolist()
    ]


def _with_shares(lines: list[dict[str, Any]], model: Any) -> list[dict[str, Any]]:
    """The same rules, each with the share of cases in which it holds, where it says one."""
    if not model.confidences:
        return lines
    shares = {
        model.table.label(i): phrase("part.cases", confidence=c)
        for i, c in enumerate(model.confidences)
    }
    return [one | {"text": one["text"] + shares[one["label"]]} for one in lines]


def _speaks(model: Any, rows: Tensor) -> bool:
    try:
        return bool(has_prediction(model, rows).any())
    except KnowledgeError:
        return False


def _predicting(
    table: Table,
    rows: Tensor,
    grids: Sequence[RuleGrid],
    spoken: str,
    limits: Sequence[tuple[str, set[int]]],
    *,
    text: bool,
) -> list[dict[str, Any]]:
    """What becomes of each rule; one that names nothing but what the range forbids is not heard."""
    hits, open_ = table.hits(rows)[0].tolist(), table.undecided(rows)[0].tolist()
    hitting = [index for index in table.order if hits[index]]
    outcomes = {table.rules[index].outcome for index in hitting}
    lines = []
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
        elif against := [name for name, left in limits if not left & {*table.rules[index].outcome}]:
            state, because = "unheard", against[0]
        lines.append(_rule(table, index, grids, state, because, text=text))
    return lines


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
    lines = []
    for index in range(len(table.rules)):
        if hits[index] or open_[index]:
            full = len(table.rules[index].outcome) == every and not text
            state = "limits" if not full else "allows"
            state = "clashes" if empty and not full else state
            state = state if hits[index] else "undecided"
            lines.append(_rule(table, index, grids, state, "", text=text))
    return lines


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
