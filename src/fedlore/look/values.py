"""Whatever is told to programs and pages, in what JSON has."""

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def plain_values(value: object) -> Any:
    """A result in what JSON has: paths are text, numbers that are none are null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain_values(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain_values(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
