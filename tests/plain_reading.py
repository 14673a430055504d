"""Knowledge files read a second time, in plain Python, one row at a time: what brute force asks.

Nothing of fedlore is imported. Read are tables and formulas of classes and numbers, and how they
combine; anything else is `Unread`. A row on which rounding would decide is `Unsure`.
"""

import ast
import csv
import io
import math
import operator
import re
import struct
import tomllib
from dataclasses import dataclass
from functools import cached_property


class Unread(Exception):
    """Knowledge of a kind that this reader does not have."""


class Unsure(Exception):
    """A row that lies on an edge up to rounding, or that misses a value."""


class Refused(Exception):
    """A row to which the knowledge has no answer."""


def single(value):
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_BELOW = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
          "=": operator.eq, "": operator.eq}  # fmt: skip


def holds(cell, value, levels=()):
    """Whether a condition, as its author wrote it, holds for a value."""
    cell = cell.strip()
    if cell in ("", "-"):
        return True
    if cell.startswith("not "):
        return not holds("in " + cell[4:], value, levels)
    if cell.startswith("in "):
        return any(holds(part, value, levels) for part in re.split(r",(?![^\[(]*[\])])", cell[3:]))
    if levels:
        if cell not in levels:
            raise Unread(cell)
        if value >= len(levels):  # one that nobody named
            raise Unsure
        return value == levels.index(cell)
    if found := re.fullmatch(rf"(<=|>=|<|>|=|)\s*({_NUMBER})", cell):
        return _BELOW[found[1]](value, single(float(found[2])))
    if found := re.fullmatch(rf"([\[(])\s*({_NUMBER})\.\.({_NUMBER})\s*([\])])", cell):
        low, high = single(float(found[2])), single(float(found[3]))
        above = value >= low if found[1] == "[" else value > low
        return above and (value <= high if found[4] == "]" else value < high)
    if found := re.fullmatch(rf"({_NUMBER})\.\.({_NUMBER})", cell):
        return single(float(found[1])) <= value <= single(float(found[2]))
    raise Unread(cell)


_TWO = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
        ast.Div: operator.truediv, ast.Pow: operator.pow}  # fmt: skip
_ORDER = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
          ast.Eq: operator.eq, ast.NotEq: operator.ne}  # fmt: skip
_CALLS = {"sqrt": math.sqrt, "abs": abs, "exp": math.exp, "log": math.log, "log10": math.log10,
          "min": min, "max": max}  # fmt: skip


def compute(text, values):
    """A formula's number, or truth; Refused where it has none, Unsure on a comparison's edge."""
    try:
        found = _walk(ast.parse(text.strip(), mode="eval").body, values)
    except (ArithmeticError, ValueError):
        raise Refused from None
    except (SyntaxError, KeyError) as error:
        raise Unread(text) from error
    if isinstance(found, complex) or found != found:
        raise Refused
    if abs(found) > 3.4e38:  # in which precision is it computed?
        raise Unsure
    return found


def _walk(node, values):
    match node:
        case ast.Constant():
            return float(node.value)
        case ast.Name():
            if math.isnan(values[node.id]):
                raise Unsure
            return values[node.id]
        case ast.BinOp():
            return _TWO[type(node.op)](_walk(node.left, values), _walk(node.right, values))
        case ast.UnaryOp():
            inner = _walk(node.operand, values)
            return not inner if isinstance(node.op, ast.Not) else -inner
        case ast.BoolOp():
            every = [_walk(part, values) for part in node.values]
            return all(every) if isinstance(node.op, ast.And) else any(every)
        case ast.Compare(ops=[op], comparators=[right]):
            a, b = _walk(node.left, values), _walk(right, values)
            plain = all(isinstance(n, ast.Constant | ast.Name) for n in (node.left, right))
            if plain:  # as in a cell
                return _ORDER[type(op)](single(a), single(b))
            if abs(a - b) <= 1e-5 * max(abs(a), abs(b), 1):
                raise Unsure
            return _ORDER[type(op)](a, b)
        case ast.Call(func=ast.Name(id="where"), args=[truth, yes, no]):
            return _walk(yes if _walk(truth, values) else no, values)
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS[name](*(_walk(part, values) for part in node.args))
    raise Unread(ast.dump(node))


@dataclass(frozen=True)
class Reading:
    """The texts of a site's knowledge; rows are dicts by the names of columns."""

    texts: dict
    day: str | None = None  # that rules with dates are read for

    @cached_property
    def said(self):
        return tomllib.loads(self.texts["knowledge.toml"])

    @cached_property
    def levels(self):
        return {f["name"]: f.get("levels", ()) for f in self.said["features"]}

    @cached_property
    def classes(self):
        return list(self.said.get("classes", ()))

    def allowed(self, row):
        """The places of the classes in the range, or a test of numbers; Refused where it is empty.

        None: nobody limits this row.
        """
        side = self.said.get("range", {})
        found = [self._limits(source, row) for source in side.get("sources", ())]
        spoken = [one for one in found if one is not None]
        if not self.classes:  # a number: tests of whether it may be
            every = any if side.get("combine", "all") == "any" else all
            if every is any and len(spoken) < len(found):
                return None
            return (lambda y: every(one(y) for one in spoken)) if spoken else None
        if not spoken or (side.get("combine", "all") == "any" and len(spoken) < len(found)):
            return None
        whole = set.union if side.get("combine", "all") == "any" else set.intersection
        left = whole(*spoken)
        if left:
            return left
        empty = side.get("empty", "error")
        if empty == "error":
            raise Refused
        return spoken[0] if empty == "first" else set(range(len(self.classes)))

    def _limits(self, source, row):
        if {*source} & {"confidence", "conformal", "learned", "interpolate", "trust"}:
            raise Unread(str(source))
        if "table" in source:
            hit = source.get("hit", "intersect")
            rules = [self._outcome(then) for then, _ in self._hits(source["table"], row)]
            if not rules:
                return None
            if not self.classes:
                every = {"intersect": all, "union": any}[hit]
                return lambda y: every(rule(y) for rule in rules)
            left = {"intersect": set.intersection, "union": set.union}[hit](*rules)
            if not left:
                raise Refused
            return left
        ends = [source.get(key) for key in ("lower", "upper")]
        low, high = (None if text is None else compute(text, row) for text in ends)
        if not self.classes:
            return lambda y: (low is None or y >= low - 1e-4) and (high is None or y <= high + 1e-4)
        first = 0 if low is None else _grade(low, source["edges"])
        last = len(self.classes) - 1 if high is None else _grade(high, source["edges"])
        if first > last:
            if source.get("crossed", "error") == "error":
                raise Refused
            return set(range(len(self.classes)))
        return set(range(first, last + 1))

    def _hits(self, name, row):
        rows = list(csv.DictReader(io.StringIO(self.texts[name])))
        if not rows or "confidence" in rows[0] or None in rows[0] or "then" not in rows[0]:
            raise Unread(name)
        names = {re.sub(r"\s*\[.*\]$", "", key): key for key in rows[0]}
        for rule in rows:
            first, end = (rule.get(key, "").strip(" -") and rule[key] for key in ("from", "until"))
            if (first and first > self.day) or (end and end <= self.day):
                continue
            cells = {n: rule[key] for n, key in names.items() if n in self.levels}
            if any(math.isnan(row[n]) and c.strip() not in ("", "-") for n, c in cells.items()):
                raise Unsure
            if all(holds(cell, row[n], list(self.levels[n])) for n, cell in cells.items()):
                yield rule["then"], rule.get("priority")

    def _outcome(self, then):
        """What a rule of a range allows: a set of places, or a test of numbers."""
        if not self.classes:
            return lambda y: holds(then, y) or holds(then, y - 1e-4) or holds(then, y + 1e-4)
        then, k = then.strip(), len(self.classes)
        if then == "all":
            return set(range(k))
        if then.startswith("not "):
            return set(range(k)) - self._outcome(then[4:])
        found = set()
        for part in then.removeprefix("in ").split(","):
            first, _, last = part.strip().partition("..")
            ends = sorted(self.classes.index(name) for name in (first, last or first))
            found |= set(range(ends[0], ends[1] + 1))
        return found

    def shapes(self):
        """Feature, 1 or -1, and where."""
        for one in self.said.get("shape", {}).get("sources", ()):
            yield one["feature"], 1 if one["effect"] == "raises" else -1, one.get("where", "")


def _grade(value, edges):
    if any(abs(value - edge) <= 1e-5 * max(abs(edge), 1) for edge in edges):
        raise Unsure
    return sum(value > edge for edge in edges)
