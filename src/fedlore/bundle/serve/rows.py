"""JSON to tensors, strictly: whatever is not a finite number or a known level is named."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import FedloreError
from ...knowledge.schema import Feature, Schema

LARGEST = 1e30  # of a feature: well inside float32


class Unusable(FedloreError):
    """A body that cannot be read, with the row (from 1) and the column where it went wrong."""

    def __init__(self, message: str, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


@dataclass(frozen=True)
class Reader:
    """How the rows of one bundle are read from JSON."""

    schema: Schema
    most: int  # rows in one request
    blanks: bool = False  # whether null stands for a missing number; it becomes NaN

    def read(self, body: bytes) -> Tensor:
        """One row or a list of rows, each an object of features, -> (n, d) float64."""
        said = parse(body)
        rows = said if isinstance(said, list) else [said]
        if not rows:
            raise Unusable("there are no rows")
        if len(rows) > self.most:
            raise Unusable(f"a request may have {self.most} rows, this one has {len(rows)}")
        values = [self._row(row, place) for place, row in enumerate(rows, 1)]
        return torch.tensor(values, dtype=torch.float64)

    def _row(self, said: Any, row: int) -> list[float]:
        if not isinstance(said, dict):
            raise Unusable(f"row {row} must be an object of columns, got {_kind(said)}", row)
        values = []
        for feature in self.schema.features:
            if feature.name not in said:
                text = f"row {row}: the column '{feature.name}' is missing"
                raise Unusable(text, row, feature.name)
            values.append(self._value(said[feature.name], feature, row))
        if len(said) > len(values):
            extra = next(name for name in said if name not in self.schema.names)
            shown = _short(extra)
            raise Unusable(f"row {row}: there is no column '{shown}'", row, shown)
        return values

    def _value(self, said: Any, feature: Feature, row: int) -> float:
        def refuse(text: str) -> Unusable:
            return Unusable(f"row {row}, column '{feature.name}': {text}", row, feature.name)

        if said is None and self.blanks and not feature.levels:
            return math.nan
        if said is None or (isinstance(said, str) and not said.strip()):
            raise refuse("the value is missing")
        if feature.levels:
            if not isinstance(said, str):
                raise refuse(f"must be one of {', '.join(feature.levels)}, got {_kind(said)}")
            if said not in feature.levels:
                raise refuse(f"must be one of {', '.join(feature.levels)}, got '{_short(said)}'")
            return float(feature.levels.index(said))
        if not isinstance(said, float):  # JSON's whole numbers are read as floats too
            raise refuse(f"must be a number, got {_kind(said)}")
        if not abs(said) <= LARGEST:
            raise refuse(f"must lie within ±{LARGEST:g}, got {said:g}")
        return said


def parse(body: bytes) -> Any:
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
        raise Unusable(f"the body is not JSON: {_short(str(error))}") from None


def row_schema(schema: Schema, *, blanks: bool = False) -> dict[str, Any]:
    """JSON Schema of one row."""
    return {
        "type": "object",
        "title": "Row",
        "properties": {f.name: _property(f, blanks) for f in schema.features},
        "required": list(schema.names),
        "additionalProperties": False,
    }


def _property(feature: Feature, blanks: bool) -> dict[str, Any]:
    words = []
    if feature.unit:
        words.append(f"in {feature.unit}")
    if math.isfinite(feature.low) or math.isfinite(feature.high):
        words.append(f"scope {feature.low:g} to {feature.high:g}")
    about = {"description": ", ".join(words)} if words else {}
    if feature.levels:
        return {"type": "string", "enum": list(feature.levels), **about}
    kinds: str | list[str] = ["number", "null"] if blanks else "number"
    return {"type": kinds, "minimum": -LARGEST, "maximum": LARGEST, **about}


def _once(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = _short(next(name for name in names if names.count(name) > 1))
        raise Unusable(f"the column '{twice}' is there twice", column=twice)
    return found


def _no_constant(word: str) -> float:
    raise Unusable(f"{word} is not a number in JSON")


def _kind(said: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", float: "a number", bool: "a boolean"}
    return names.get(type(said), "null")


def _short(text: str) -> str:
    """What may be shown of a stranger's text: little, and always encodable."""
    return text[:60].encode("utf-8", "replace").decode()
