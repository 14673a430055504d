"""Decision tables as they are stored: cells into spans of single-precision numbers, and sets.

A threshold is rounded to single precision as the data were; a span is then two numbers, both
included, and `x > 12` begins at the number after 12.
"""

import csv
import io
import re
from dataclasses import dataclass

import numpy as np

from ..errors import KnowledgeError
from .schema import Feature

Span = tuple[float, float]  # first and last number, both in single precision and included

_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?")
_INSIDE = re.compile(r"([\[(]?)\s*([^\s.][^\s]*?)\s*\.\.\s*([^\s]+?)\s*([\])]?)")
_COMPARE = re.compile(r"(<=|>=|<|>|=)?\s*(.+)")
_LISTED = re.compile(r"(in|not)\s+(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """Spans for some columns (a level is the span of its index), and the classes named."""

    spans: dict[int, tuple[Span, ...]]
    classes: frozenset[int]
    priority: float = 0.0
    confidence: float | None = None  # below 1 where it holds in most cases only


def read_rules(
    text: str, columns: tuple[Feature, ...], classes: tuple[str, ...], outcome: str | None
) -> tuple[list[Rule], bool]:
    """The rules of a CSV table, and whether it has a column of priorities."""
    lines = _lines(text)
    names = [column.name for column in columns]
    roles = [_role(title, names, outcome) for title in lines[0]]
    rules = []
    for line in lines[1:]:
        spans: dict[int, tuple[Span, ...]] = {}
        named, priority, confidence = None, 0.0, None
        for role, cell in zip(roles, line, strict=False):
            if isinstance(role, int):
                found = condition(cell, columns[role])
                if found is not None:
                    spans[role] = found
            elif role == "then":
                named = outcomes(cell, classes)
            elif role == "priority":
                priority = float(cell.strip().removeprefix("=").strip())
            elif role == "confidence" and cell.strip():
                confidence = _number(cell.strip())
        if not named:
            raise KnowledgeError("a rule names no class")
        rules.append(Rule(spans, named, priority, confidence))
    return rules, "priority" in roles


def _lines(text: str) -> list[list[str]]:
    """The rows of a CSV table, its titles first."""
    head = text.removeprefix("\ufeff").partition("\n")[0]
    mark = max(",;\t", key=head.count)
    lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=mark))
    lines = [line for line in lines if any(cell.strip() for cell in line)]
    if len(lines) < 2:
        raise KnowledgeError("a table has no rules")
    return lines


def read_outcomes(text: str, names: list[str], outcome: str | None) -> list[str]:
    """The different outcomes of a table as they are written, in their order."""
    lines = _lines(text)
    place = [_role(title, names, outcome) for title in lines[0]].index("then")
    return list(dict.fromkeys(line[place].strip() for line in lines[1:] if len(line) > place))


def read_pairs(text: str) -> tuple[tuple[float, float], ...]:
    """The closed intervals that an outcome names, `[55..65]`, `>= 40`, `in 5..15, 18..20`."""
    plain = text.strip().replace("≤", "<=").replace("≥", ">=").replace("−", "-").replace("–", "-")
    if plain in ("", "-"):
        return ((-np.inf, np.inf),)
    listed = _LISTED.fullmatch(plain)
    if listed and listed[1].lower() == "not":
        raise KnowledgeError(f"the outcome {text!r} has no ends")
    return tuple(_pair(item) for item in (_split(listed[2]) if listed else [plain]))


def _pair(item: str) -> tuple[float, float]:
    inside = _INSIDE.fullmatch(item)
    if inside and ".." in item:
        if "(" in inside[1] or ")" in inside[4]:
            raise KnowledgeError(f"the outcome {item!r} has an open end")
        return _number(inside[2]), _number(inside[3])
    compared = _COMPARE.fullmatch(item)
    if not compared or compared[1] in ("<", ">"):
        raise KnowledgeError(f"the outcome {item!r} is no closed interval")
    value = _number(compared[2])
    return (-np.inf if compared[1] == "<=" else value), (np.inf if compared[1] == ">=" else value)


def _role(title: str, names: list[str], outcome: str | None) -> int | str:
    plain = title.strip()
    if outcome is not None and plain == outcome:
        return "then"
    name = re.sub(r"\s*\[[^\[\]]*\]$", "", plain)
    if name in names:
        return names.index(name)
    lower = name.lower()
    if outcome is None and lower in ("then", "outcome", "range"):
        return "then"
    if lower in ("priority", "confidence", "rule", "note", ""):
        return lower
    raise KnowledgeError(f"a table has a column '{title}' that is no feature")


def condition(cell: str, column: Feature) -> tuple[Span, ...] | None:
    """The spans of a cell; None where any value will do."""
    plain = cell.strip()
    if plain in ("", "-"):
        return None
    if column.levels:
        chosen = _names(plain, column.levels, ordered=False)
        return tuple((float(level), float(level)) for level in sorted(chosen))
    plain = plain.replace("≤", "<=").replace("≥", ">=").replace("−", "-").replace("–", "-")
    listed = _LISTED.fullmatch(plain)
    items = _split(listed[2]) if listed else [plain]
    spans = _join([_span(item) for item in items])
    if listed and listed[1].lower() == "not":
        spans = _rest(spans)
    return tuple(spans)


def outcomes(cell: str, classes: tuple[str, ...]) -> frozenset[int]:
    """The classes that an outcome cell names."""
    plain = cell.strip()
    if plain in classes:
        return frozenset([classes.index(plain)])
    if plain.lower() in ("all", "any"):
        return frozenset(range(len(classes)))
    return frozenset(_names(plain, classes, ordered=True))


def single(value: float) -> float:
    """The nearest number of single precision."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def after(value: float) -> float:
    """The next number of single precision."""
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def before(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))


def _span(item: str) -> Span:
    inside = _INSIDE.fullmatch(item)
    if inside and ".." in item:
        low, high = _number(inside[2]), _number(inside[3])
        first = _beyond(low, inside[1] == "(")
        return first, before(_beyond(high, inside[4] != ")"))
    compared = _COMPARE.fullmatch(item)
    if not compared:
        raise KnowledgeError(f"cannot read the condition {item!r}")
    sign, value = compared[1] or "=", _number(compared[2])
    first = -np.inf if sign in ("<", "<=") else _beyond(value, sign == ">")
    last = np.inf if sign in (">", ">=") else before(_beyond(value, sign in ("<=", "=")))
    return first, last


def _beyond(value: float, past: bool) -> float:
    """The first number of single precision on the far side of a threshold."""
    near = single(value)
    return after(near) if past or near == -np.inf else near


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise KnowledgeError(f"{text!r} is not a number")
    return float(text) + 0.0


def _join(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for first, last in sorted(spans):
        if first > last:
            continue  # nothing of it is left in single precision
        if found and first <= after(found[-1][1]):
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _rest(spans: list[Span]) -> list[Span]:
    """All numbers outside the spans."""
    left, start = [], -np.inf
    for first, last in spans:
        if start < first:
            left.append((start, before(first)))
        start = after(last) if last < np.inf else np.inf
    if not spans or spans[-1][1] < np.inf:
        left.append((start, np.inf))
    return left


def _split(text: str) -> list[str]:
    """The entries of a list; commas inside quotes belong to a name."""
    line: list[str] = next(csv.reader([text], skipinitialspace=True), [])
    quoted = re.findall(r'\s*("(?:[^"]|"")*"|[^,]*)\s*(?:,|$)', text)
    entries = [entry.strip() for entry in quoted[: len(line)]]
    if not entries or not all(entries):
        raise KnowledgeError(f"the list {text!r} has an empty entry")
    return entries


def _names(plain: str, names: tuple[str, ...], *, ordered: bool) -> set[int]:
    """Indices named by `A`, `= A`, `in A, B`, `not C`; of classes also `A, B` and `A..C`."""
    if plain in names:
        return {names.index(plain)}
    listed = _LISTED.fullmatch(plain)
    if listed or ordered:
        chosen: set[int] = set()
        for item in _split(listed[2] if listed else plain):
            ends = item.split("..")
            if ordered and item not in names and len(ends) == 2 and item[0] != '"':
                chosen |= set(range(_name(ends[0], names), _name(ends[1], names) + 1))
            else:
                chosen.add(_name(item, names))
    else:
        chosen = {_name(plain.removeprefix("="), names)}
    if listed and listed[1].lower() == "not":
        chosen = set(range(len(names))) - chosen
    if not chosen:
        raise KnowledgeError(f"{plain!r} names nothing")
    return chosen


def _name(text: str, names: tuple[str, ...]) -> int:
    plain = text.strip()
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        plain = plain[1:-1].replace('""', '"')
    if plain not in names:
        raise KnowledgeError(f"{plain!r} is none of {', '.join(names)}")
    return names.index(plain)
