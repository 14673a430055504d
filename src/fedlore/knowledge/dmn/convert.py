"""Decision tables of a DMN file as knowledge folders, and what of them has no counterpart."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import KnowledgeError
from ...kernel.cells import bare_name, number, short
from ...kernel.document import FILE, dump
from ...kernel.schema import Feature
from ...kernel.sheets import EXTRAS, OUTCOMES
from ..files import feature_values
from ..tables.sheets import csv_bytes
from .feel import Literal, Tests, kind_of, level_of, parse_list, parse_literal, parse_tests
from .parse import DmnColumn, DmnFile, DmnRule, DmnTable

TABLE = "rules.csv"
#: What a hit policy of DMN is called here, where one rule speaks.
_POLICIES = {"UNIQUE": "unique", "ANY": "unique", "FIRST": "first", "PRIORITY": "priority"}
_LISTS = ("COLLECT", "RULE ORDER", "OUTPUT ORDER")
_RESERVED = {*OUTCOMES, *EXTRAS}
_EXTRAS = ("rule", "note", "confidence", "from", "until")


@dataclass(frozen=True)
class Imported:
    """One output of a decision table: its knowledge folder, or why there is none."""

    name: str  # decision, and output where there are several
    members: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    rules: int = 0
    fault: str = ""  # why it has no counterpart at all
    remarks: tuple[str, ...] = ()  # what of it has none, or means another thing here


def import_tables(file: DmnFile) -> list[Imported]:
    """Every output of every decision table; tables that fedlore wrote are one knowledge again."""
    if file.tables and all("hit" in table.own for table in file.tables):
        return [_import_own(file.tables)]
    found = []
    for table in file.tables:
        several = len(table.outputs) > 1
        for place, output in enumerate(table.outputs):
            name = f"{table.name}, {output.name}" if several else table.name
            try:
                found.append(_import(table, place, name))
            except KnowledgeError as error:
                found.append(Imported(name, fault=str(error)))
        if not table.outputs:
            found.append(Imported(table.name, fault="it has no output"))
    return found


def _import_own(tables: Sequence[DmnTable]) -> Imported:
    """The tables of one knowledge file, as fedlore wrote them."""
    try:
        parts = [_import(table, 0, table.name) for table in tables]
    except KnowledgeError as error:
        return Imported(tables[0].name, fault=str(error))
    members = dict(parts[0].members)
    values = tomllib.loads(members.pop(FILE).decode())
    for key in ("predict", "range"):
        values.pop(key, None)
    for place, part in enumerate(parts, 1):
        document = tomllib.loads(part.members[FILE].decode())
        if document["features"] != values["features"]:
            return Imported(tables[0].name, fault="its tables have other inputs, one than another")
        side = "predict" if "predict" in document else "range"
        sources = values.setdefault(side, {"sources": []})["sources"]
        name = TABLE if len(parts) == 1 else f"rules-{place}.csv"
        sources.append(document[side]["sources"][0] | {"table": name})
        members[name] = part.members[TABLE]
    if len(parts) > 1:
        members.pop(TABLE, None)
    values["card"] = {"note": "from a DMN file"}
    members[FILE] = dump(values).encode()
    remarks = dict.fromkeys(words for part in parts for words in part.remarks)
    return Imported(tables[0].name, members, sum(p.rules for p in parts), remarks=tuple(remarks))


def _import(table: DmnTable, place: int, name: str) -> Imported:
    if not table.rules:
        raise KnowledgeError("it has no rules")
    if not table.inputs:
        raise KnowledgeError("it has no inputs")
    remarks: list[str] = []
    table = replace(
        table, inputs=tuple(_named(one, i, remarks) for i, one in enumerate(table.inputs))
    )
    tests = [_column(table, i, column) for i, column in enumerate(table.inputs)]
    features = _features(table, tests, remarks)
    answers = _Answers.of(table, place, remarks)
    rows = []
    for row, rule in enumerate(table.rules):
        cells = {
            feature.name: _cell(test[row], feature, rule)
            for feature, test in zip(features, tests, strict=True)
        }
        rows.append(cells | answers.cells(row) | _notes(table, rule))
    rows += answers.last
    used = [key for key in _EXTRAS if any(row.get(key) for row in rows)]
    first = "priority" if answers.hit == "priority" else None
    header = [*(f.name for f in features), "then", *([first] if first else []), *used]
    lines = [header, *([row.get(key, "") for key in header] for row in rows)]
    if table.asks:
        asked = ", ".join(f"'{one}'" for one in table.asks)
        remarks.append(f"takes in the answer of {asked}: here it is a column like others")
    hit = {"hit": answers.hit}
    values: dict[str, Any] = {
        **answers.values,
        "features": [feature_values(one) for one in features],
        "card": {"note": f"from the DMN decision '{table.name}'"},
        answers.side: {"sources": [{"table": TABLE, **hit}]},
    }
    members = {FILE: dump(values).encode(), TABLE: csv_bytes(lines)}
    return Imported(name, members, len(rows), remarks=tuple(remarks))


# inputs


def _named(column: DmnColumn, place: int, remarks: list[str]) -> DmnColumn:
    """An input by its expression, or by its label where it has none."""
    if column.name:
        return column
    label = re.sub(r"\s*\[[^\[\]]*\]$", "", column.label)
    if not label:
        raise KnowledgeError(f"input {place + 1} has neither an expression nor a label")
    remarks.append(f"input {place + 1} has no expression: its label '{label}' names the column")
    return replace(column, name=label)


def _column(table: DmnTable, place: int, column: DmnColumn) -> list[Tests | None]:
    """The tests of a column, rule by rule."""
    if re.fullmatch(r"[^\W\d][\w .'’-]*", column.name) is None:
        raise KnowledgeError(
            f"input {place + 1} is the expression {short(column.name)}: a column here is a value "
            "of the row as it comes"
        )
    if column.kind not in ("", "number", "string", "boolean"):
        raise KnowledgeError(f"input '{column.name}' is of the type {short(column.kind)}, and not "
                             "a number, a string or a boolean")  # fmt: skip
    found = []
    for row, rule in enumerate(table.rules, 1):
        try:
            found.append(parse_tests(rule.tests[place]))
        except KnowledgeError as error:
            raise KnowledgeError(f"rule {row}, input '{column.name}': {error}") from None
    return found


def _features(
    table: DmnTable, tests: Sequence[Sequence[Tests | None]], remarks: list[str]
) -> list[Feature]:
    names: list[str] = []
    found = []
    for column, some in zip(table.inputs, tests, strict=True):
        name = named_as(column.name)
        while name in names or name in _RESERVED:
            name += "_"
        names.append(name)
        if [one.name for one in table.inputs].count(column.name) > 1:
            raise KnowledgeError(f"the input '{column.name}' stands there twice")
        found.append(_feature(column, name, [one for one in some if one is not None], remarks))
    return found


def _feature(column: DmnColumn, name: str, tests: Sequence[Tests], remarks: list[str]) -> Feature:
    title = None if column.name == name else column.name
    if title in _RESERVED:  # a column of rules is called so here
        title = None
        remarks.append(f"input '{column.name}' is called '{name}' here, in rules and in rows")
    unit = re.search(r"\[([^\[\]]*)\]\s*$", column.label)
    named = list(dict.fromkeys(value for one in tests for value in one.values))
    kinds = {kind_of(value) for value in named} | {"number" for one in tests if one.spans}
    kind = column.kind or (kinds.pop() if len(kinds) == 1 else "")
    if not kind:
        raise KnowledgeError(
            f"input '{column.name}' names values of several types"
            if kinds
            else f"input '{column.name}' has no type, and no rule says one"
        )
    span, listed = _limits(column, remarks)
    if kind == "number":
        low, high = span or (-math.inf, math.inf)
        return Feature(name, unit[1] if unit else "", low, high, column=title)
    if kind == "boolean":
        return Feature(name, levels=("false", "true"), column=title)
    levels = list(dict.fromkeys(map(level_of, listed or named)))
    extra = [level_of(value) for value in named if level_of(value) not in levels]
    if not listed or extra:
        shown = ", ".join(map(repr, extra or levels)) or "none"
        remarks.append(
            f"input '{column.name}' does not list all its values: its levels are those that rules "
            f"name ({shown[:200]}), and a row with another one is refused"
        )
    if not levels + extra:
        raise KnowledgeError(f"input '{column.name}' names no value at all")
    return Feature(name, levels=(*levels, *extra), column=title)


def _limits(
    column: DmnColumn, remarks: list[str]
) -> tuple[tuple[float, float] | None, Sequence[Literal]]:
    """The scope or the levels that a column allows."""
    try:
        tests = parse_tests(column.values)
        if tests is None:
            return None, ()
        if tests.values and not tests.negated:
            return None, tests.values
        (span,) = tests.spans
        if not tests.negated and span.start.value < span.stop.value:
            return (span.start.value, span.stop.value), ()
    except (KnowledgeError, ValueError):
        pass
    remarks.append(f"the limits {short(column.values)} of '{column.name}' are no range or list")
    return None, ()


def _cell(test: Tests | None, feature: Feature, rule: DmnRule) -> str:
    if test is None:
        return ""
    try:
        return test.cell(feature)
    except KnowledgeError as error:
        raise KnowledgeError(f"the rule in line {rule.line}, '{feature.name}': {error}") from None


def named_as(text: str) -> str:
    """A word of letters, digits and _.

    >>> named_as("Credit Score"), named_as("Applicant.Age")
    ('Credit_Score', 'Applicant_Age')
    """
    found = re.sub(r"\W+", "_", text).strip("_")
    return found if found.isidentifier() else f"x_{found}"


# answers


@dataclass
class _Answers:
    """The outcomes of a table, rule by rule, and how they are combined."""

    side: str  # predict or range
    hit: str
    values: dict[str, Any]  # classes and label, or the target
    texts: list[str]  # the outcome of each rule, as a cell
    priorities: list[float] | None = None
    last: list[dict[str, str]] = field(default_factory=list)  # where no other rule applies

    def cells(self, row: int) -> dict[str, str]:
        found = {"then": self.texts[row]}
        return (
            found if self.priorities is None else found | {"priority": number(self.priorities[row])}
        )

    @staticmethod
    def of(table: DmnTable, place: int, remarks: list[str]) -> _Answers:
        output = table.outputs[place]
        if "hit" in table.own:
            return _own_answers(table, output)
        outcomes = [_outcome(rule, place, row) for row, rule in enumerate(table.rules, 1)]
        usual = parse_literal(output.default) if output.default else None
        kinds = {kind_of(value) for value in [*outcomes, *([] if usual is None else [usual])]}
        if len(kinds) > 1:
            raise KnowledgeError(f"output '{output.name}' has values of several types")
        ranked = _ranked(output)
        values = _answer_values(output, [*outcomes, *([] if usual is None else [usual])], ranked)
        texts = [_text(value) for value in outcomes]
        hit, priorities = _policy(table, outcomes, ranked, remarks)
        side = "range" if hit == "union" else "predict"
        if side == "range" and "target" in values:
            texts = [f"= {text}" for text in texts]
        found = _Answers(side, hit, values, texts, priorities)
        if usual is not None:
            found.add_default(_text(usual), remarks)
        return found

    def add_default(self, text: str, remarks: list[str]) -> None:
        """A last rule that applies wherever no other does."""
        if self.side == "range":
            raise KnowledgeError("a default beside a list of answers has no counterpart")
        last = {"then": text, "note": "the default of the DMN table"}
        if self.hit == "unique":
            self.hit = "first"
            remarks.append("has a default: here its rules are asked in order, and that one last")
        if self.priorities is not None:
            last["priority"] = number(max(self.priorities) + 1)
        self.last = [last]


def _outcome(rule: DmnRule, place: int, row: int) -> Literal:
    text = rule.outputs[place]
    if text in ("", "-", "null"):
        raise KnowledgeError(f"rule {row} has no output: here each rule names an answer")
    try:
        return parse_literal(text)
    except KnowledgeError as error:
        raise KnowledgeError(f"the output of rule {row}: {error}") from None


def _ranked(output: DmnColumn) -> list[Literal]:
    """The values of an output in the order of priority, where it lists them."""
    try:
        return parse_list(output.values) if output.values else []
    except KnowledgeError:
        return []


def _policy(
    table: DmnTable, outcomes: Sequence[Literal], ranked: Sequence[Literal], remarks: list[str]
) -> tuple[str, list[float] | None]:
    """The hit policy here, and the priority of each rule where there is one."""
    if len(table.outputs) > 1 and table.hit in ("PRIORITY", "OUTPUT ORDER"):
        raise KnowledgeError(f"{table.hit} over several outputs at once has no counterpart")
    if table.hit == "PRIORITY":
        if not ranked or not set(outcomes) <= set(ranked):
            raise KnowledgeError("PRIORITY needs a list of output values that names every output")
        return "priority", [float(ranked.index(value) + 1) for value in outcomes]
    if table.hit == "COLLECT" and table.aggregation:
        if table.aggregation not in ("MIN", "MAX") or kind_of(outcomes[0]) != "number":
            raise KnowledgeError(
                f"COLLECT with {table.aggregation[:20]} reckons with the outputs of several rules: "
                "only MIN and MAX of numbers have a counterpart"
            )
        sign = 1.0 if table.aggregation == "MIN" else -1.0
        return "priority", [sign * float(value) for value in outcomes]
    if table.hit in _LISTS:
        order = "" if table.hit == "COLLECT" else ", without their order"
        remarks.append(
            f"{table.hit} answers a list: here it is the set of possible answers{order}; where no "
            "rule applies everything is possible, and in DMN the list is empty"
        )
        return "union", None
    if table.hit == "UNIQUE":
        remarks.append("UNIQUE: here rules that apply together may agree, as under ANY")
    return _POLICIES[table.hit], None


def _answer_values(
    output: DmnColumn, outcomes: Sequence[Literal], ranked: Sequence[Literal]
) -> dict[str, Any]:
    """Classes and their label, or the target of a number."""
    label = named_as(output.name)
    if kind_of(outcomes[0]) == "number":
        numbers = [float(value) for value in outcomes]
        low, high = min(numbers), max(numbers)
        return {"target": {"name": label, "lower": low, "upper": high if high > low else low + 1.0}}
    if kind_of(outcomes[0]) == "boolean":
        return {"label": label, "classes": ["false", "true"]}
    known = [*(str(value) for value in ranked if kind_of(value) == "string"), *map(str, outcomes)]
    classes = list(dict.fromkeys(known))
    if len(classes) < 2:
        raise KnowledgeError(f"output '{output.name}' has one value only: there is nothing to tell")
    return {"label": label, "classes": classes}


def _text(value: Literal) -> str:
    """An outcome as a cell."""
    if kind_of(value) == "number":
        return number(float(value))
    return bare_name(level_of(value))


def _own_answers(table: DmnTable, output: DmnColumn) -> _Answers:
    """Outcomes as fedlore wrote them: cells in quotes."""
    own = table.own
    side, hit = own.get("side", ""), own["hit"]
    outcomes = [parse_literal(rule.outputs[0]) for rule in table.rules]
    texts = [_text(one) if side == "predict" else str(one) for one in outcomes]
    values: dict[str, Any] = {"label": own.get("label", output.name)}
    if "lower" in own:
        values = {"target": {"name": own.get("label", output.name)}}
        values["target"] |= {key: float(own[key]) for key in ("lower", "upper") if key in own}
    else:
        values["classes"] = [level_of(value) for value in parse_list(output.values)]
    if side not in ("predict", "range"):
        raise KnowledgeError("what fedlore wrote beside the table is not what it writes")
    return _Answers(side, hit, values, texts)


def _notes(table: DmnTable, rule: DmnRule) -> dict[str, str]:
    """Annotations: those of fedlore's own in their columns, all others as a note."""
    named = itertools.zip_longest(table.annotations, rule.notes, fillvalue="")
    found: dict[str, str] = {}
    rest = []
    for title, text in named:
        if "hit" in table.own and title in _EXTRAS:
            found[title] = text
        elif text:
            rest.append(" ".join(text.split()))
    if rest:
        found["note"] = "; ".join(filter(None, (found.get("note", ""), *rest)))[:900]
    return found


def safe_folder(name: str, taken: Iterable[str]) -> str:
    """A folder for one of several tables."""
    found = re.sub(r"[^\w-]+", "-", name).strip("-")[:60] or "table"
    while found in taken:
        found += "-2"
    return found
