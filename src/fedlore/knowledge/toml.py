"""Plain values as TOML text; reading it back with tomllib gives the same values."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import KnowledgeError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dump(values: Mapping[str, Any], path: str = "") -> str:
    """A document, or the part of one below `path`: scalars and lists first, then tables."""
    lines, below = [], []
    for key, value in values.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        if isinstance(value, Mapping):
            below.append(f"[{name}]\n{dump(value, name)}")
        elif _is_tables(value):
            below += [f"[[{name}]]\n{dump(part, name)}" for part in value]
        else:
            lines.append(f"{_key(key)} = {_value(value)}\n")
    return "\n".join(["".join(lines), *below] if lines else below)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, but TOML also wants DEL escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise KnowledgeError(f"cannot write a {type(value).__name__} to a file")
