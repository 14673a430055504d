"""JSON to tensors, strictly: rows, and what was measured of them; what is wrong is named."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.rows.strict import LARGEST_VALUE, Unusable, excerpt, strict_values
from ...kernel.schema import Feature, Schema
from ..monitor.record import MeasuredRows


@dataclass(frozen=True)
class Reader:
    """How the rows of one bundle are read from JSON."""

    schema: Schema
    most: int  # rows in one request

    def read(self, body: bytes) -> Tensor:
        """One row or a list of rows, each an object of features, -> (n, d) float64."""
        values = strict_values(read_objects(body, self.most), self.schema)
        return torch.tensor(values, dtype=torch.float64)


def read_objects(body: bytes, most: int) -> list[Any]:
    """What a body holds, one value or a list of at most so many."""
    parsed = _parse(body)
    rows = parsed if isinstance(parsed, list) else [parsed]
    if not rows:
        raise Unusable("there are no rows")
    if len(rows) > most:
        raise Unusable(f"a request may have {most} rows, this one has {len(rows)}")
    return rows


def _parse(body: bytes) -> Any:
    """Strict JSON in UTF-8: no NaN, no Infinity, no name twice; every number is a float."""
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_constant=_no_constant,
            parse_int=float,
            object_pairs_hook=_once,
        )
    except Unusable:
        raise
    except UnicodeDecodeError:
        raise Unusable("the body is not UTF-8") from None
    except RecursionError:
        raise Unusable("the body is nested too deeply") from None
    except ValueError as error:
        raise Unusable(f"the body is not JSON: {excerpt(str(error))}") from None


def row_schema(schema: Schema) -> dict[str, Any]:
    """JSON Schema of one row; a feature with a title of its own goes by that or by its name."""
    names = {title: schema.features[schema.column(name)] for title, name in schema.titles.items()}
    ways = [([name], title) for title, name in schema.titles.items() if title != name]
    ways += [([f.name for f in parts], title) for title, parts in schema.dates.items()]
    measures = {f.name: f.own for f in schema.features if f.own is not None}
    ways += [([name], own.name) for name, own in measures.items()]
    absent = set(schema.absent)
    either: list[dict[str, Any]] = [
        {"not": {"required": [*own, title]}}  # one of them at most
        if absent & set(own)
        else {"oneOf": [{"required": own}, {"required": [title]}]}
        for own, title in ways
    ]
    optional = {name for own, _ in ways for name in own} | absent
    properties = {title: _property(feature) for title, feature in names.items()}
    for title, parts in schema.dates.items():
        blank = all(feature.may_miss for feature in parts)
        properties[title] = {"type": ["string", "null"] if blank else "string", "format": "date"}
    properties |= {own.name: _property(own) for own in measures.values()}
    return {
        "type": "object",
        "title": "Row",
        "properties": properties,
        "required": [name for name in schema.names if name not in optional],
        **({"allOf": either} if either else {}),
        "additionalProperties": False,
    }


def _property(feature: Feature) -> dict[str, Any]:
    words = []
    if feature.unit:
        words.append(f"in {feature.unit}")
    if math.isfinite(feature.low) or math.isfinite(feature.high):
        words.append(f"scope {feature.low:g} to {feature.high:g}")
    about = {"description": ", ".join(words)} if words else {}
    if feature.levels and feature.other:
        return {"type": ["string", "null"] if feature.may_miss else "string", **about}
    if feature.levels:
        if feature.may_miss:
            return {"enum": [*feature.levels, None], **about}
        return {"type": "string", "enum": list(feature.levels), **about}
    kinds: str | list[str] = ["number", "null"] if feature.may_miss else "number"
    return {"type": kinds, "minimum": -LARGEST_VALUE, "maximum": LARGEST_VALUE, **about}


def _once(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = excerpt(next(name for name in names if names.count(name) > 1))
        raise Unusable(f"the column '{twice}' is there twice", column=twice)
    return found


def _no_constant(word: str) -> float:
    raise Unusable(f"{word} is not a number in JSON")


_TEXT = "^[ -~]{0,40}$"  # what a day or a lot may be: it is shown on terminals


@dataclass(frozen=True)
class MeasuredReader:
    """How measured rows of one bundle are read from JSON."""

    schema: Schema
    number: bool  # whether a number is predicted, not a class
    most: int  # rows in one request
    in_lots: bool = False  # whether each row names its lot

    def read(self, body: bytes) -> MeasuredRows:
        """One object with `row`, `measured` and perhaps `day`, or a list of such objects."""
        records = [self._open(one, i) for i, one in enumerate(read_objects(body, self.most), 1)]
        values = strict_values([one["row"] for one in records], self.schema)
        labels = [self._label(one["measured"], i) for i, one in enumerate(records, 1)]
        days = [_text(one.get("day", ""), i, "day") for i, one in enumerate(records, 1)]
        lots = [_text(one.get("lot"), i, "lot") for i, one in enumerate(records, 1) if self.in_lots]
        kind = torch.float64 if self.number else torch.long
        x, y = torch.tensor(values).float(), torch.tensor(labels, dtype=kind)
        return MeasuredRows(x, y, days, lots if self.in_lots else None)

    def _open(self, record: Any, row: int) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise Unusable(f"row {row} must be an object with row, measured and perhaps day", row)
        needed = ("row", "measured", *(("lot",) if self.in_lots else ()))
        for name in needed:
            if name not in record:
                raise Unusable(f"row {row}: '{name}' is missing", row, name)
        for name in record:
            if name not in (*needed, "day"):
                shown, known = excerpt(name), ", ".join((*needed, "day"))
                raise Unusable(f"row {row}: unknown key '{shown}'; known: {known}", row)
        return record

    def _label(self, label: Any, row: int) -> float:
        name, classes = self.schema.label, self.schema.classes
        if self.number:
            if isinstance(label, float) and abs(label) <= LARGEST_VALUE:
                return label
            wanted = f"a number within ±{LARGEST_VALUE:g}"
        else:
            if isinstance(label, str) and label in classes:
                return classes.index(label)
            wanted = f"one of {', '.join(classes)}"
        shown = f"'{excerpt(label)}'" if isinstance(label, str) else excerpt(repr(label))
        raise Unusable(f"row {row}: the measured {name} must be {wanted}, got {shown}", row, name)


def measured_schema(schema: Schema, *, number: bool, in_lots: bool = False) -> dict[str, Any]:
    """JSON Schema of one measured row."""
    bounds = {"type": "number", "minimum": -LARGEST_VALUE, "maximum": LARGEST_VALUE}
    label = bounds if number else {"type": "string", "enum": list(schema.classes)}
    return {
        "type": "object",
        "title": "Measured",
        "properties": {
            "row": row_schema(schema),
            "measured": label,
            "day": {"type": "string", "pattern": _TEXT},
            **({"lot": {"type": "string", "pattern": _TEXT}} if in_lots else {}),
        },
        "required": ["row", "measured", *(("lot",) if in_lots else ())],
        "additionalProperties": False,
    }


def _text(text: Any, row: int, name: str) -> str:
    if not isinstance(text, str) or re.fullmatch(_TEXT[1:-1], text) is None:
        raise Unusable(f"row {row}: {name} must be text of at most 40 ASCII characters", row, name)
    return text
