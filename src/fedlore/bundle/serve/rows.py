"""JSON to tensors, strictly: whatever is not a finite number or a known level is named."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...data.rows.strict import LARGEST_VALUE, Unusable, excerpt, strict_values
from ...kernel.schema import Feature, Schema


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
    said = _parse(body)
    rows = said if isinstance(said, list) else [said]
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
    twice = [[name, title] for title, name in schema.titles.items() if title != name]
    either = [{"oneOf": [{"required": [word]} for word in words]} for words in twice]
    return {
        "type": "object",
        "title": "Row",
        "properties": {title: _property(feature) for title, feature in names.items()},
        "required": [name for name in schema.names if name not in (words[0] for words in twice)],
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
        some = [*feature.levels, None] if feature.may_miss else list(feature.levels)
        return (
            {"enum": some, **about}
            if feature.may_miss
            else {"type": "string", "enum": some, **about}
        )
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
