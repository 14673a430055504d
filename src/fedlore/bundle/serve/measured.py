"""What a laboratory delivers, as JSON: a row, what was measured of it, and the day."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.rows.strict import LARGEST_VALUE, Unusable, excerpt, strict_values
from ...kernel.schema import Schema
from .rows import read_objects, row_schema

_DAY = "^[ -~]{0,40}$"  # what a day may be: it is shown on terminals
_KEYS = ("row", "measured", "day")


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """n rows with their labels, as a file of labelled rows would give them."""

    x: Tensor  # (n, d) float32, raw units
    y: Tensor  # (n,) classes, or numbers in float64
    days: Sequence[str]  # n, empty where nobody said


@dataclass(frozen=True)
class MeasuredReader:
    """How measured rows of one bundle are read from JSON."""

    schema: Schema
    number: bool  # whether a number is predicted, not a class
    most: int  # rows in one request

    def read(self, body: bytes) -> MeasuredRows:
        """One object with `row`, `measured` and perhaps `day`, or a list of such objects."""
        said = [self._open(one, i) for i, one in enumerate(read_objects(body, self.most), 1)]
        values = strict_values([one["row"] for one in said], self.schema)
        labels = [self._label(one["measured"], i) for i, one in enumerate(said, 1)]
        days = [_day(one.get("day", ""), i) for i, one in enumerate(said, 1)]
        kind = torch.float64 if self.number else torch.long
        return MeasuredRows(torch.tensor(values).float(), torch.tensor(labels, dtype=kind), days)

    def _open(self, said: Any, row: int) -> dict[str, Any]:
        if not isinstance(said, dict):
            raise Unusable(f"row {row} must be an object with row, measured and perhaps day", row)
        for name in ("row", "measured"):
            if name not in said:
                raise Unusable(f"row {row}: '{name}' is missing", row, name)
        for name in said:
            if name not in _KEYS:
                shown = excerpt(name)
                raise Unusable(f"row {row}: there is no '{shown}' beside row, measured, day", row)
        return said

    def _label(self, said: Any, row: int) -> float:
        name, classes = self.schema.label, self.schema.classes
        if self.number:
            if isinstance(said, float) and abs(said) <= LARGEST_VALUE:
                return said
            wanted = f"a number within ±{LARGEST_VALUE:g}"
        else:
            if isinstance(said, str) and said in classes:
                return classes.index(said)
            wanted = f"one of {', '.join(classes)}"
        shown = f"'{excerpt(said)}'" if isinstance(said, str) else excerpt(repr(said))
        raise Unusable(f"row {row}: the measured {name} must be {wanted}, got {shown}", row, name)


def measured_schema(schema: Schema, *, number: bool) -> dict[str, Any]:
    """JSON Schema of one measured row."""
    bounds = {"type": "number", "minimum": -LARGEST_VALUE, "maximum": LARGEST_VALUE}
    label = bounds if number else {"type": "string", "enum": list(schema.classes)}
    return {
        "type": "object",
        "title": "Measured",
        "properties": {
            "row": row_schema(schema),
            "measured": label,
            "day": {"type": "string", "pattern": _DAY},
        },
        "required": ["row", "measured"],
        "additionalProperties": False,
    }


def _day(said: Any, row: int) -> str:
    if not isinstance(said, str) or re.fullmatch(_DAY[1:-1], said) is None:
        raise Unusable(f"row {row}: day must be text of at most 40 ASCII characters", row, "day")
    return said
