"""Tables of knowledge as the decision tables of a DMN 1.3 file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ...errors import KnowledgeError
from ...kernel.cells import START, STOP, Condition, Span, number
from ...kernel.schema import Feature, Schema
from ..content import Packed, Where
from ..files import KnowledgeDocument, describe_day, pack_knowledge, read_document, setting_of
from ..models import Knowledge
from ..sources.catalog import open_source
from ..sources.table import own_name
from .convert import named_as
from .feel import quote
from .parse import OWN, VERSIONS

_SPACE = next(space for space, version in VERSIONS.items() if version == "1.3")
_HITS = {"first": "FIRST", "priority": "FIRST", "unique": "ANY"}


def write_dmn(where: Where, *, as_of: date | str | None = None) -> tuple[bytes, list[str]]:
    """The tables of a knowledge file, as of a day where rules have dates, and what was left out."""
    known = Knowledge.read(where, as_of=as_of)
    members = pack_knowledge(describe_day(known))
    document = read_document(members)
    setting, remarks = setting_of(document, Packed(members)), list(_unsaid(document))
    if known.timeline is not None:
        remarks.append(f"dates: these are the rules of {known.timeline.day} alone")
    decisions: list[str] = []
    for side, sources, asked in (
        ("predict", document.predict.sources, document.answers.asked[0]),
        ("range", document.range.sources, document.answers.asked[1]),
    ):
        for source in sources:
            if "table" in source:
                model = open_source(source, asked, setting)
                name = f"{side} {len(decisions) + 1}, {own_name(source['table'])}"
                decisions.append(_decision(name, side, model, document, len(decisions) + 1))
            else:
                kind, said = next((k, v) for k, v in source.items() if k != "columns")
                remarks.append(f"[{side}] {kind} = {str(said)[:60]!r}: only tables are written")
    if not decisions:
        raise KnowledgeError("there is no table to write: a DMN file holds decision tables alone")
    lines = "\n".join(decisions)
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<definitions xmlns="{_SPACE}" '
        f'xmlns:fedlore="{OWN}" id="knowledge" name="knowledge" namespace="{OWN}">\n'
        f"{lines}\n</definitions>\n"
    )
    return text.encode(), remarks


def _unsaid(document: KnowledgeDocument) -> Iterator[str]:
    """What of the file no decision table says."""
    if document.trusts.value or document.trusts.regions:
        yield "trust: a decision table is always followed"
    if document.predict.combine != "first":
        yield f"[predict] combine = '{document.predict.combine}': tables stand side by side"
    if len(document.range.sources) > 1:
        yield f"[range] combine = '{document.range.combine}': tables stand side by side"
    if document.shape.sources:
        yield "[shape]"
    for feature in document.features:
        said = {"missing": feature.may_miss, "other": feature.other, "date": bool(feature.date)}
        for key in (key for key, there in said.items() if there):
            yield f"'{key}' of the feature '{feature.name}'"


def _decision(name: str, side: str, model: Any, document: KnowledgeDocument, number_of: int) -> str:
    table, schema = model.table, document.schema
    own = {"side": side, "hit": "first" if table.policy == "priority" else table.policy}
    own["label"] = schema.label
    if document.target is not None:
        own |= {"lower": number(document.target.lower), "upper": number(document.target.upper)}
    own_text = "".join(f" fedlore:{key}={quoteattr(text)}" for key, text in own.items())
    cells = model.cells()
    notes = [title for title in ("rule", "note", "confidence") if title in cells[0]]
    numeric = model.of_number and side == "predict"
    lines = [
        f'  <decision id="decision{number_of}" name={quoteattr(name)}>',
        f'    <variable name={quoteattr(schema.label)} typeRef="{_type(numeric)}"/>',
        f'    <decisionTable id="table{number_of}" hitPolicy="{_HITS.get(table.policy, "COLLECT")}"'
        f"{own_text}>",
        *(_input(feature, number_of, place) for place, feature in enumerate(schema.features)),
        *_output(schema, side, number_of, number=document.target is not None, numeric=numeric),
        *(f"      <annotation name={quoteattr(title)}/>" for title in notes),
    ]
    for count, index in enumerate(table.order):
        row = dict(zip(cells[0], cells[index + 1], strict=True))
        conditions = dict(table.rules[index].conditions)
        tests = [_tests(conditions.get(c), f) for c, f in enumerate(schema.features)]
        said = _outcome(row["then"], table, index, side, numeric=numeric)
        parts = [
            *(f"<inputEntry><text>{escape(test)}</text></inputEntry>" for test in tests),
            f"<outputEntry><text>{escape(said)}</text></outputEntry>",
            *(f"<annotationEntry><text>{escape(row[t])}</text></annotationEntry>" for t in notes),
        ]
        lines.append(f'      <rule id="rule{number_of}-{count + 1}">{"".join(parts)}</rule>')
    return "\n".join([*lines, "    </decisionTable>", "  </decision>"])


def _type(numeric: bool) -> str:
    return "number" if numeric else "string"


def _input(feature: Feature, table: int, place: int) -> str:
    unit = f" [{feature.unit}]" if feature.unit else ""
    kind, limits = "number", ""
    if feature.levels:
        kind = "boolean" if _is_boolean(feature) else "string"
        limits = ", ".join(_level(level, feature) for level in feature.levels)
    elif math.isfinite(feature.low) and math.isfinite(feature.high):
        limits = f"[{_decimal(feature.low)}..{_decimal(feature.high)}]"
    elif math.isfinite(feature.low) or math.isfinite(feature.high):
        low = math.isfinite(feature.low)
        limits = f">= {_decimal(feature.low)}" if low else f"<= {_decimal(feature.high)}"
    values = f"<inputValues><text>{escape(limits)}</text></inputValues>" if limits else ""
    title = feature.column if feature.column and named_as(feature.column) == feature.name else ""
    return (
        f'      <input id="input{table}-{place + 1}" label={quoteattr(feature.name + unit)}>'
        f'<inputExpression typeRef="{kind}"><text>{escape(title or feature.name)}</text>'
        f"</inputExpression>{values}</input>"
    )


def _output(schema: Schema, side: str, table: int, *, number: bool, numeric: bool) -> Iterator[str]:
    values = "" if number else ", ".join(map(quote, schema.classes))
    inner = f"<outputValues><text>{escape(values)}</text></outputValues>" if values else ""
    yield (
        f'      <output id="output{table}" name={quoteattr(schema.label)} '
        f'typeRef="{_type(numeric)}">{inner}</output>'
    )


def _outcome(cell: str, table: Any, index: int, side: str, *, numeric: bool) -> str:
    """One answer as a literal; several as the text of their cell."""
    if side == "range":
        return quote(cell)
    if numeric:
        return _decimal(float(cell.lstrip("= ")))
    return quote(table.schema.classes[table.rules[index].outcome[0]])


def _tests(condition: Condition | None, feature: Feature) -> str:
    """A condition as unary tests."""
    if condition is None:
        return "-"
    if condition.chosen:
        return ", ".join(_level(feature.levels[index], feature) for index in condition.chosen)
    if condition.spans == (Span(START, STOP),):
        return "<= 0, > 0"  # any number, but not a missing one
    return ", ".join(map(_span, condition.spans))


def _span(span: Span) -> str:
    (low, open_low), (high, closed_high) = span
    if math.isinf(low):
        return f"{'<=' if closed_high else '<'} {_decimal(high)}"
    if math.isinf(high):
        return f"{'>' if open_low else '>='} {_decimal(low)}"
    if low == high:
        return _decimal(low)
    ends = "(" if open_low else "[", "]" if closed_high else ")"
    return f"{ends[0]}{_decimal(low)}..{_decimal(high)}{ends[1]}"


def _is_boolean(feature: Feature) -> bool:
    return feature.levels == ("false", "true")


def _level(level: str, feature: Feature) -> str:
    return level if _is_boolean(feature) else quote(level)


def _decimal(value: float) -> str:
    """A number without an exponent, which FEEL does not have.

    >>> _decimal(1e-7), _decimal(12.0)
    ('0.0000001', '12')
    """
    return format(Decimal(number(value)), "f")
