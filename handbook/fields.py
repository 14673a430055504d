"""The fields of a dataclass as a file may set them: type, default, and the comment beside each."""

import ast
import dataclasses
import functools
import inspect
import io
import math
import re
import textwrap
import tokenize
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """One key of a table of a file."""

    name: str
    kind: str  # its type, in words
    default: str  # as it would be written, "needed" where there is none
    meaning: str  # the comment beside it in the source
    below: tuple[type, ...]  # dataclasses whose keys stand in a table of this name


def keys_of(cls: type) -> list[Key]:
    """What a table may hold that becomes this dataclass, in the order of the source."""
    hints, said = typing.get_type_hints(cls), comments_of(cls)
    found = []
    for field in dataclasses.fields(cls):
        if field.init:
            inside = below(hints[field.name])
            told = [said[field.name], *(first_sentence(one) for one in inside)]
            kind = kind_of(hints[field.name])
            found.append(
                Key(field.name, kind, _default(field), next(filter(None, told), ""), inside)
            )
    return found


def first_sentence(thing: object) -> str:
    """How a docstring begins, without the name of the table that it is about."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r"^\[\w+\]: ", "", text).split(". ")[0].rstrip(".")


@functools.cache
def comments_of(cls: type) -> dict[str, str]:
    """Field -> the comment on its lines, from the class and those it inherits from."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if dataclasses.is_dataclass(one):
            found |= _own_comments(one)
    return {f.name: _from_metadata(f) or found.get(f.name, "") for f in dataclasses.fields(cls)}


def _from_metadata(field: Any) -> str:
    """What an algorithm says of a setting: the paper's symbol, and what it means."""
    about = field.metadata
    parts = (about.get("symbol"), about.get("meaning"))
    return ": ".join(part for part in parts if part)


def _own_comments(cls: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(cls))
    words = {
        token.start[0]: re.sub(r"^#:? *(type: ignore\[[^]]*\] *#? *)?", "", token.string).strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.AnnAssign):
            continue
        above = []
        line = node.lineno - 1
        while line in words and lines[line - 1].lstrip().startswith("#"):
            above.insert(0, words[line])
            line -= 1
        ensemble = [words[n] for n in range(node.lineno, (node.end_lineno or 0) + 1) if n in words]
        found[node.target.id] = " ".join((*above, *ensemble)).strip()
    return found


def kind_of(hint: Any) -> str:
    """A type as a reader of TOML would call it.

    >>> kind_of(tuple[int, ...] | None)
    'list of whole numbers'
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(kind_of(one) for one in options if one is not type(None))
    if origin is typing.Literal:
        return " or ".join(f'`"{one}"`' if isinstance(one, str) else f"`{one}`" for one in options)
    if origin is tuple:
        return f"list of {_PLURAL.get(kind_of(options[0]), kind_of(options[0]))}"
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        return "table"
    if dataclasses.is_dataclass(hint):
        return "table"
    return _NAMES.get(hint, "any value" if hint is Any else getattr(hint, "__name__", str(hint)))


def below(hint: Any) -> tuple[type, ...]:
    """The dataclasses inside a type."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return (hint,)
    return tuple(dict.fromkeys(one for part in typing.get_args(hint) for one in below(part)))


def written(value: Any) -> str:
    """A default as it would stand in a file; what a file cannot say, in words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, float) and math.isinf(value):
        return "`inf`" if value > 0 else "`-inf`"
    if isinstance(value, int | float):
        return f"`{value}`"
    if isinstance(value, tuple | list) and all(isinstance(v, str | int | float) for v in value):
        return f"`[{', '.join(written(v).strip('`') for v in value)}]`"
    return "its defaults" if value else "empty"


def _default(field: Any) -> str:
    if field.default is not MISSING:
        return written(field.default)
    if field.default_factory is not MISSING:
        made = field.default_factory()
        return "its defaults" if dataclasses.is_dataclass(made) else written(made)
    return "needed"


_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_PLURAL = {
    "text": "texts",
    "whole number": "whole numbers",
    "number": "numbers",
    "table": "tables",
}
