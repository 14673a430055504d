"""The cells an expert writes: `> 12`, `[8..12)`, `in A, B`, `not C`, `-`; classes and sets of them.

A condition on numbers is a union of spans. The ends of a span are cuts: places just before or just
after a number, so open and closed ends, unions and complements need no special cases.

Rows are compared in single precision: a threshold is rounded as the data were, and `x > 12` begins
at the number after 12 (`first_values`, which everybody asks).
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..errors import KnowledgeError, unknown
from .schema import Feature

_FAULT = "table"  # the code of errors raised here

TableKind = Literal["predict", "range"]

LONGEST = 1_000  # characters in a cell
MOST_ITEMS = 100  # entries in a list


class Cut(NamedTuple):
    """A place on the number line just before (False) or just after (True) a number."""

    value: float
    after: bool


class Span(NamedTuple):
    """All numbers between two cuts."""

    start: Cut
    stop: Cut


Closed = tuple[float, float]  # the first and the last number, both included
START, STOP = Cut(-math.inf, False), Cut(math.inf, True)


@dataclass(frozen=True)
class NumberSpans:
    """A union of spans, in order, none touching another."""

    spans: tuple[Span, ...]
    chosen: ClassVar[tuple[int, ...]] = ()  # it names no level


@dataclass(frozen=True)
class Levels:
    """Some levels of a categorical feature, by index, in order."""

    chosen: tuple[int, ...]
    spans: ClassVar[tuple[Span, ...]] = ()  # it names no number


Condition = NumberSpans | Levels


class Validity(NamedTuple):
    """The days on which something holds."""

    since: date | None = None  # the first of them; None: from the beginning
    until: date | None = None  # the first on which it holds no more; None: without end

    def holds(self, day: date) -> bool:
        return (self.since is None or self.since <= day) and (
            self.until is None or day < self.until
        )

    def within(self, other: "Validity") -> "Validity":
        """The days of both."""
        starts = [day for day in (self.since, other.since) if day is not None]
        ends = [day for day in (self.until, other.until) if day is not None]
        return Validity(max(starts, default=None), min(ends, default=None))

    @property
    def empty(self) -> bool:
        return self.since is not None and self.until is not None and self.until <= self.since


ALWAYS = Validity()

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_COMPARISON = re.compile(rf"(<=|>=|<|>|=)?\s*({_NUMBER})")
_BETWEEN = re.compile(rf"([\[(]?)\s*({_NUMBER})\s*\.\.(?!\.)\s*({_NUMBER})\s*([\])]?)")
_ENDS: dict[str, tuple[bool | None, bool | None]] = {
    "<": (None, False),
    "<=": (None, True),
    ">": (True, None),
    ">=": (False, None),
    "=": (False, True),
}
_LIST = re.compile(r"(in|not)\s+(.*)", re.IGNORECASE | re.DOTALL)
_ITEM = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]*?)\s*(?:,|\Z)')
_COMMA = re.compile(r"[0-9],[0-9]")
_TYPED = str.maketrans({"≤": "<=", "≥": ">=", "−": "-", "–": "-", "\u00a0": " "})
_PLAIN = re.compile(r"\w+(?:[ .+/-]\w+)*")  # a name that needs no quotes
_SHARE = r"(\d+(?:[.,]\d+)?|[.,]\d+)"
_DECIMAL = re.compile(_SHARE)
_PERCENT = re.compile(rf"{_SHARE}\s*%")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CASES = re.compile(r"(?:in\s+)?(\d+)\s*(?:of|in|out of|/)\s*(\d+)(?:\s+cases)?", re.IGNORECASE)


def parse_condition(text: str, feature: Feature) -> Condition | None:
    """The condition a cell states on a feature; None where any value will do."""
    plain = _tidy(text)
    if plain in ("", "-"):
        return None
    if feature.levels:
        return Levels(_choose(plain, feature.levels, f"level of '{feature.name}'"))
    plain = plain.translate(_TYPED).strip()
    if plain == "-":
        return None
    listed = _LIST.fullmatch(plain)
    if _COMMA.search(plain):
        raise KnowledgeError(
            f"cannot tell in {short(text)} whether the comma is a decimal mark: write numbers with "
            "a point (0.9), and lists with a space after the comma (in 3, 5)"
        )
    items = _items(listed[2]) if listed else [plain]
    spans = join_spans(_span(item, text, feature) for item in items)
    if listed and listed[1].lower() == "not":
        spans = rest_of(spans)
    if not spans:
        raise KnowledgeError(f"no number satisfies {short(text)}")
    return NumberSpans(spans)


def parse_outcome(text: str, classes: Sequence[str], kind: TableKind) -> tuple[int, ...]:
    """The classes an outcome cell names, in order: one for a prediction, a set for a range."""
    plain = _tidy(text)
    if not plain:
        raise KnowledgeError(f"the outcome is empty: name a class ({_some(classes)})")
    if plain in classes:
        return (classes.index(plain),)
    if kind == "predict":
        return (_name(plain, classes, "class"),)
    if plain.lower() in ("all", "any"):
        return tuple(range(len(classes)))
    return _choose(plain, classes, "class", ordered=True)


def parse_set(text: str) -> tuple[Closed, ...]:
    """The closed intervals that an outcome names: `[55..65]`, `>= 40`, `in 5..15, 18..20`."""
    said = parse_condition(text, Feature("outcome"))  # numbers: an outcome has no levels
    if said is None:
        return ((-math.inf, math.inf),)
    for start, stop in said.spans:
        if (start.after and start != START) or (not stop.after and stop != STOP):
            raise KnowledgeError(
                f"sets of numbers have their ends: write [8..12], >= 8 or <= 12, got '{text}'"
            )
    return tuple((start.value, stop.value) for start, stop in said.spans)


def format_condition(condition: Condition | None, feature: Feature) -> str:
    """A cell that parses back to the condition."""
    if condition is None:
        return ""
    if condition.chosen:
        return _pick(condition.chosen, feature.levels)
    if condition.spans == (Span(START, STOP),):
        return "in <= 0, > 0"  # any number, but not a missing one
    texts = [format_span(span) for span in condition.spans]
    if len(texts) == 1:
        return texts[0]
    return "in " + ", ".join(text.removeprefix("= ") for text in texts)


def format_outcome(outcome: Sequence[int], classes: Sequence[str], kind: TableKind) -> str:
    """A cell that parses back to the outcome."""
    if kind == "predict":
        return bare_name(classes[outcome[0]])
    if len(outcome) == len(classes) and "all" not in classes:
        return "all"
    ends = [classes[outcome[0]], classes[outcome[-1]]]
    if len(outcome) > 2 and outcome[-1] - outcome[0] + 1 == len(outcome):
        if all(_PLAIN.fullmatch(end) for end in ends):
            return "..".join(ends)
    return _pick(outcome, classes, start="")


def format_span(span: Span) -> str:
    """`> 12`, `= 3`, `[8..12)`."""
    (low, open_low), (high, closed_high) = span
    if math.isinf(low):
        return f"{'<=' if closed_high else '<'} {number(high)}"
    if math.isinf(high):
        return f"{'>' if open_low else '>='} {number(low)}"
    if low == high:
        return f"= {number(low)}"
    return f"{'(' if open_low else '['}{number(low)}..{number(high)}{']' if closed_high else ')'}"


def first_values(numbers: Any, after: Any) -> Any:
    """The smallest value at or beyond cuts, given in the precision of the rows: x > 12 is
    x >= next(12). What is too large for the precision lies beyond all its finite numbers."""
    above = np.nextafter(numbers, np.full_like(numbers, np.inf))
    return np.where(after | (numbers == -np.inf), above, numbers)


def single(value: float) -> float:
    """The nearest number of single precision, infinite beyond the largest."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@np.errstate(over="ignore")
def after(values: Any) -> Any:
    """The next number of single precision, or numbers."""
    single = np.asarray(values, np.float32)
    return np.nextafter(single, np.float32(np.inf)).astype(np.float64)[()]


def before(values: Any) -> Any:
    """The number of single precision before it."""
    return -after(-np.asarray(values))


def even_edges(lower: float, upper: float, count: int) -> tuple[float, ...]:
    """All edges of so many bins of equal widths, bounds included."""
    step = (upper - lower) / count  # ε in the paper
    between = (lower + i * step for i in range(1, count))
    return (float(lower), *between, float(upper))


def cut_line(ends: Iterable[float]) -> Any:
    """The line cut at all ends: pieces (p, 2), points and what lies between, in order."""
    finite = sorted({end for end in ends if math.isfinite(end)})
    starts = [-math.inf, *(end for end in finite for _ in (0, 1))]
    stops = [*(end for end in finite for _ in (0, 1)), math.inf]
    return np.array([starts, stops]).T


def first_single(cut: Cut) -> float:
    """The smallest number of single precision on the far side of a cut."""
    return float(first_values(np.float32(single(cut.value)), cut.after))


def spans_of(condition: Condition) -> tuple[Span, ...]:
    """The numbers that satisfy a condition; a level is the number of its index alone."""
    levels = (Span(Cut(float(i), False), Cut(float(i), True)) for i in condition.chosen)
    return condition.spans or tuple(levels)


def single_spans(condition: Condition) -> tuple[Closed, ...]:
    """The same in single precision; spans that touch there are one, those without a number gone."""
    found: list[Closed] = []
    for start, stop in spans_of(condition):
        first = -math.inf if start == START else first_single(start)
        last = math.inf if stop == STOP else before(first_single(stop))
        if first > last:
            continue
        if found and not condition.chosen and first <= after(found[-1][1]):
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def number(value: float) -> str:
    """The shortest text of a number that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")


def short(text: str) -> str:
    """A quoted cell, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def parse_confidence(text: str) -> float:
    """The share of cases in which a rule holds; an empty cell means always.

    >>> [parse_confidence(cell) for cell in ("0.9", "0,9", "90 %", "9 of 10", "")]
    [0.9, 0.9, 0.9, 0.9, 1.0]
    """
    plain = text.replace("\u00a0", " ").strip()
    if plain in ("", "-"):
        return 1.0
    if found := _DECIMAL.fullmatch(plain):
        value = _decimal(found[1])
    elif found := _PERCENT.fullmatch(plain):
        value = _decimal(found[1]) / 100
    elif (found := _CASES.fullmatch(plain)) and int(found[2]):
        value = int(found[1]) / int(found[2])
    else:
        raise KnowledgeError(
            f"a confidence is the share of cases in which the rule holds, such as 0.9, 90 % or "
            f"9 of 10, got {short(text)}"
        )
    return check_confidence(value, short(text))


def check_confidence(value: float, said: str) -> float:
    """A confidence as it stands, refused where it is no share of cases."""
    if value == 0:
        raise KnowledgeError(
            f"a rule with confidence {said} never holds: write what holds instead, or leave it out"
        )
    if not 0.0 < value <= 1.0:
        meant = f" ({number(value / 100)} is {number(value)} %)" if 1 < value <= 100 else ""
        raise KnowledgeError(f"a confidence must lie between 0 and 1, got {said}{meant}")
    return value


def parse_day(text: str) -> date:
    """A day as 2025-06-01, and in no other way."""
    try:
        if _DAY.fullmatch(text) is None:
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise KnowledgeError(f"{short(text)} is not a date: write it as 2025-06-01") from None


def _decimal(text: str) -> float:
    return float(text.replace(",", "."))


def _tidy(text: str) -> str:
    if len(text) > LONGEST:
        raise KnowledgeError(f"a cell may have {LONGEST} characters, {short(text)} has {len(text)}")
    return text.strip()


def _items(text: str) -> list[str]:
    items, position = [], 0
    while position <= len(text):
        found = _ITEM.match(text, position)
        if found is None or not found[1]:
            raise KnowledgeError(f"the list {short(text)} has an empty or broken entry")
        items.append(found[1])
        if len(items) > MOST_ITEMS:
            raise KnowledgeError(f"a list may have {MOST_ITEMS} entries, {short(text)} has more")
        if found.end() == len(text) and text[-1] != ",":
            break
        position = found.end()
    return items


def _span(item: str, cell: str, feature: Feature) -> Span:
    if found := _COMPARISON.fullmatch(item):
        value = _number(found[2], cell)
        start, stop = _ENDS[found[1] or "="]  # whether an end lies after the number, None if far
        return Span(
            START if start is None else Cut(value, start),
            STOP if stop is None else Cut(value, stop),
        )
    found = _BETWEEN.fullmatch(item)
    if found is None or bool(found[1]) != bool(found[4]):
        raise KnowledgeError(
            f"cannot read {short(cell)} as a condition on '{feature.name}': write > 12, <= 0.9, "
            "= 3, 8..12, [8..12), in 3, 5, not 3, or - for any"
        )
    low, high = _number(found[2], cell), _number(found[3], cell)
    span = Span(Cut(low, found[1] == "("), Cut(high, found[4] != ")"))
    if span.start >= span.stop:
        raise KnowledgeError(
            f"the interval {short(cell)} is empty: the smaller number comes first, and a single "
            "number is written = 3"
        )
    return span


def _number(text: str, cell: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise KnowledgeError(f"the number in {short(cell)} is too large")
    return value + 0.0  # -0 and 0 are one number


def join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].stop:
            joined[-1] = Span(joined[-1].start, max(joined[-1].stop, span.stop))
        else:
            joined.append(span)
    return tuple(joined)


def rest_of(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    """All numbers that lie in none of the spans."""
    starts = (START, *(span.stop for span in spans))
    stops = (*(span.start for span in spans), STOP)
    return tuple(Span(a, b) for a, b in zip(starts, stops, strict=True) if a < b)


def _choose(
    plain: str, names: Sequence[str], what: str, *, ordered: bool = False
) -> tuple[int, ...]:
    """Indices named by `A`, `= A`, `in A, B`, `not C`; for ordered names also `A, B` and `A..C`."""
    if plain in names:
        return (names.index(plain),)
    listed = _LIST.fullmatch(plain)
    if listed or ordered:
        items = _items(listed[2] if listed else plain)
        chosen: set[int] = set()
        for item in items:
            chosen |= _interval(item, names) if ordered else {_name(item, names, what)}
        if listed and listed[1].lower() == "not":
            chosen = set(range(len(names))) - chosen
    else:
        chosen = {_name(plain.removeprefix("=").strip(), names, what)}
    if not chosen:
        raise KnowledgeError(f"no {what} satisfies {short(plain)}")
    return tuple(sorted(chosen))


def _interval(item: str, names: Sequence[str]) -> set[int]:
    ends = item.split("..")
    if item in names or len(ends) != 2 or item[0] == '"':
        return {_name(item, names, "class")}
    first, last = (_name(end.strip(), names, "class") for end in ends)
    if first > last:
        raise KnowledgeError(f"{short(item)} runs backwards: the classes are {_some(names)}")
    return set(range(first, last + 1))


def _name(text: str, names: Sequence[str], what: str) -> int:
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    name = text[1:-1].replace('""', '"') if quoted else text
    if name not in names:
        near = unknown(what, name if len(name) <= 60 else name[:57] + "...", names)
        raise KnowledgeError(near.replace("\n", " "))
    return names.index(name)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def bare_name(name: str) -> str:
    """A name as it stands where that is safe, else in quotes."""
    safe = _PLAIN.fullmatch(name) and not _LIST.fullmatch(name)
    if safe and name.lower() not in ("all", "any"):
        return name
    return '"' + name.replace('"', '""') + '"'


def _pick(chosen: Sequence[int], names: Sequence[str], start: str = "in ") -> str:
    """A list of names, or of those left out where that is shorter."""
    if len(chosen) == 1:
        return bare_name(names[chosen[0]])
    left_out = [index for index in range(len(names)) if index not in set(chosen)]
    if left_out and len(left_out) < len(chosen):
        return "not " + ", ".join(bare_name(names[index]) for index in left_out)
    return start + ", ".join(bare_name(names[index]) for index in chosen)
