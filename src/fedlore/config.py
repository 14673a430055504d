"""TOML tables as frozen dataclasses: an unknown key or a wrong type is an error that says so."""

import dataclasses
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from .errors import ConfigError, unknown

__all__ = ["build", "read_toml", "toml_fault"]

_T = TypeVar("_T")
_TYPES: Mapping[object, str] = {
    float: "a number",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    tuple: "a list in square brackets",
    dict: "a table",
}


def read_toml(path: str | Path) -> dict[str, Any]:
    """A TOML file as plain values."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read '{path}': {error.strerror}") from None
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not valid TOML: {toml_fault(data, error)}") from None


def toml_fault(data: bytes, error: Exception) -> str:
    """What is wrong with a TOML file, in words for the slips that people make.

    >>> toml_fault(b"trust = 0,3", tomllib.TOMLDecodeError("..."))
    'line 1: a number has a point and no comma: trust = 0.3'
    """
    lines = data.decode("utf-8-sig", "replace").rstrip().splitlines()
    found = re.search(r"line (\d+)", str(error))
    at = int(found[1]) if found else len(lines)
    for number, line in enumerate(lines, 1):
        if comma := re.fullmatch(r"\s*([\w.-]+)\s*=\s*([+-]?\d+),(\d+)\s*(#.*)?", line):
            plain = f"{comma[1]} = {comma[2]}.{comma[3]}"
            return f"line {number}: a number has a point and no comma: {plain}"
        twice = str(error).startswith(("Cannot overwrite", "Cannot declare"))
        if number == at and (words := _doubled(line) if twice else _slip(line)):
            return f"line {number}: {words}"
    return str(error)


def _doubled(line: str) -> str:
    """What to do about a key or table that stands there already."""
    name, equals, _ = (part.strip() for part in line.partition("="))
    if equals:
        return f"'{name}' is set twice: keep one of the two lines"
    if re.fullmatch(r"\[[\w.-]+\]", name):
        two = f"a table that may be repeated has two brackets: [{name}]"
        return f"{name[1:-1]} is set further up: keep one of the two, or, {two}"
    return f"{name} has another meaning further up: keep one of the two"


def _slip(line: str) -> str:
    """What is wrong with the line that a parser stumbled over; nothing where that is not clear."""
    name, equals, value = (part.strip() for part in line.partition("="))
    if set(line) & set("\u201c\u201d\u201e"):
        return 'these are not plain quotation marks: "text"'
    if equals and not value:
        return f"{name} has no value"
    if not equals and (colon := re.fullmatch(r"([\w-]+)\s*:\s*(.+)", name)):
        return f"a key and its value have = between them: {colon[1]} = {colon[2]}"
    if re.fullmatch(r"[+-]?(\.\d+|\d+\.)", value):
        return f"a number has digits on both sides of its point: {name} = 0.3"
    if re.fullmatch(r"(yes|no|on|off|True|False)\b.*", value):
        return f"it is true or false, in small letters: {name} = true"
    if re.fullmatch(r"[\d.]+ *%.*", value):
        return f"a share is a number between 0 and 1: {name} = 0.3"
    if "\\" in value and '"' in value:
        return "a backslash needs another before it in a text; a path may have / instead"
    if re.fullmatch(r"[^\W\d][\w -]*", value):
        return f'text stands in quotation marks: {name} = "{value}"'
    if re.fullmatch(r"[^\W\d][\w.-]*\.[a-z]+", value):
        return f'text stands in quotation marks: {name} = "{value}"'
    if re.search(r"[\[,]\s*[^\W\d]", re.sub(r'"[^"]*"', '""', value)):
        return f'texts in a list stand in quotation marks: {name} = ["…", "…"]'
    if re.search(r'"\s+"', value):
        return "a comma is missing between two texts"
    return ""


def build(cls: type[_T], values: Mapping[str, Any], where: str = "") -> _T:
    """An instance of a dataclass from a table, nested tables included.

    >>> from fedlore import Plan
    >>> build(Plan, {"epochs": 3, "lr": 1}).lr
    1.0
    >>> build(Plan, {"epoch": 3}, "plan")
    Traceback (most recent call last):
    fedlore.errors.ConfigError: [plan] unknown key 'epoch'; did you mean 'epochs'?
    """
    hints = typing.get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    place = f"[{where}] " if where else ""
    for name, value in values.items():
        if name not in fields:
            said = place + unknown("key", name, fields)
            if "sources" in fields and not said.endswith("?"):  # nor is it a slip of the pen
                said += f"; a source begins with the line [[{where}.sources]]"
            raise ConfigError(said)
        for key in _misplaced(value, hints[name], fields):
            raise ConfigError(
                f"{place}'{key}' stands below the line [{name}] and is read as a part of it: move "
                "it above the first line in brackets"
            )
    below = f"{where}." if where else ""
    ready = {name: _fit(value, hints[name], below + name) for name, value in values.items()}
    try:
        return cls(**ready)
    except ConfigError as error:
        raise ConfigError(place + str(error)) from None
    except TypeError as error:
        missing = str(error).split("argument")[-1].lstrip("s: ")
        raise ConfigError(f"{place}missing key {missing}") from None


def _misplaced(value: Any, hint: Any, fields: set[str]) -> list[str]:
    """Keys of a table that it does not know, and the table above it does."""
    kinds = [one for one in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(one)]
    if not isinstance(value, Mapping) or not kinds:
        return []
    known = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    return [key for key in value if key in fields - known]


def _fit(value: Any, hint: Any, where: str) -> Any:
    """The value in the type the field declares, or an error."""
    if hint is Any:
        return value
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        failures: list[ConfigError] = []
        for option in options:
            try:
                return _fit(value, option, where)
            except ConfigError as error:
                table = isinstance(value, Mapping) and dataclasses.is_dataclass(option)
                failures.insert(0 if table else len(failures), error)  # what was meant
        raise failures[0]
    if origin is typing.Literal:
        if value in options:
            return value
        raise ConfigError(f"{where} must be one of {', '.join(map(str, options))}, got {value!r}")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_fit(v, options[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {k: _fit(v, options[1], f"{where}.{k}") for k, v in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return build(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    exact = isinstance(hint, type) and origin is None and isinstance(value, hint)
    if exact and (hint is bool or not isinstance(value, bool)):  # True is no number here
        return value
    if hint in (int, float) and type(value) is str and _is_number(value):
        raise ConfigError(f"{where} must be a number, without quotation marks: {value}")
    wanted = _TYPES.get(hint) or _TYPES.get(origin) or getattr(hint, "__name__", hint)
    raise ConfigError(f"{where} must be {wanted}, got {value!r}")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) is not None
