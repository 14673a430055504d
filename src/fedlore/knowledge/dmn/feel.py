"""FEEL, as far as cells of decision tables need it: literals and unary tests.

What is no comparison with a literal, no range, no list of these and no `not(...)` of them is an
expression, and has no counterpart in a cell here.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...errors import KnowledgeError
from ...kernel.cells import (
    START,
    STOP,
    Cut,
    Levels,
    NumberSpans,
    Span,
    format_condition,
    join_spans,
    rest_of,
    short,
)
from ...kernel.schema import Feature

Literal = float | str | bool
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?\s*(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?!\w))
    |(?P<op><=|>=|!=|<|>|=|\?)
    |(?P<mark>\.\.|[\[\](),-])
    |(?P<word>[^\W\d][\w ]*?(?=\s*(?:[\])(,]|\.\.|$)))
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{6}|["\\ntr\'])')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'"}
MOST_TOKENS = 5_000


class Token(NamedTuple):
    kind: str
    text: str


class Tests(NamedTuple):
    """What a cell asks of a value: one of some tests, or none of them."""

    spans: tuple[Span, ...]  # of numbers
    values: tuple[Literal, ...]  # strings and booleans that are named
    negated: bool

    def cell(self, feature: Feature) -> str:
        """A cell of a table here that asks the same of a feature."""
        if feature.levels:
            return self._levels(feature)
        if self.values:
            raise KnowledgeError(f"'{feature.name}' is a number, and is held against a text")
        spans = join_spans(self.spans)
        spans = rest_of(spans) if self.negated else spans
        if not spans:
            raise KnowledgeError("no number satisfies it")
        return format_condition(NumberSpans(spans), feature)

    def _levels(self, feature: Feature) -> str:
        if self.spans:
            raise KnowledgeError(f"'{feature.name}' has levels, and is held against a number")
        named = {level_of(value) for value in self.values}
        chosen = [name for name in feature.levels if (name in named) != self.negated]
        if not chosen:
            raise KnowledgeError(f"no value of '{feature.name}' satisfies it")
        if len(chosen) == len(feature.levels):
            return ""
        return format_condition(Levels(tuple(map(feature.levels.index, chosen))), feature)


def level_of(value: Literal) -> str:
    """A literal as the name of a level.

    >>> level_of(True), level_of("seam A")
    ('true', 'seam A')
    """
    return str(value).lower() if kind_of(value) == "boolean" else str(value)


def kind_of(value: Literal) -> str:
    """The type of a literal, as FEEL calls it."""
    return {bool: "boolean", str: "string"}.get(type(value), "number")


def parse_literal(text: str) -> Literal:
    """A number, a string in quotes, or a boolean."""
    tokens = list(_tokens(text))
    if len(tokens) == 1:
        found = _literal(tokens[0])
        if found is not None:
            return found
    raise KnowledgeError(f"{short(text)} is an expression, and not a number, a text in quotes, or "
                         "true or false")  # fmt: skip


def parse_list(text: str) -> list[Literal]:
    """Literals with commas between them."""
    found = parse_tests(text)
    if found is None or found.negated or any(s.start.value != s.stop.value for s in found.spans):
        raise KnowledgeError(f"{short(text)} is no list of values")
    return [*found.values, *(span.start.value for span in found.spans)]


def parse_tests(text: str) -> Tests | None:
    """The unary tests of a cell; None where any value will do."""
    if text.strip() in ("", "-"):
        return None
    tokens = list(_tokens(text))
    if tokens == [Token("mark", "-")]:
        return None
    negated = tokens[:2] == [Token("word", "not"), Token("mark", "(")]
    if negated:
        if tokens[-1] != Token("mark", ")"):
            raise _strange(text)
        tokens = tokens[2:-1]
    spans: list[Span] = []
    values: list[Literal] = []
    for part in _split(tokens, text):
        span, value = _test(part, text)
        if span is not None:
            spans.extend(span)
        else:
            assert value is not None
            values.append(value)
    return Tests(tuple(spans), tuple(values), negated)


def _tokens(text: str) -> Iterator[Token]:
    place = count = 0
    text = text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        count += 1
        if found is None or found.end() == place or count > MOST_TOKENS:
            raise _strange(text)
        kind = str(found.lastgroup)
        yield Token(kind, found[kind])
        place = found.end()


def _split(tokens: Sequence[Token], text: str) -> Iterator[list[Token]]:
    """The tests between commas."""
    part: list[Token] = []
    for token in tokens:
        if token == Token("mark", ","):
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _test(tokens: list[Token], text: str) -> tuple[list[Span] | None, Literal | None]:
    """One test: the spans of a number, or a value."""
    if tokens[:1] == [Token("op", "?")]:  # the value itself, which stands there anyway
        tokens = tokens[1:]
        if tokens[:1] == [Token("op", "?")] or not tokens or tokens[0].kind != "op":
            raise _strange(text)
    match [t.kind for t in tokens]:
        case ["number" | "string" | "word"]:
            found = _literal(tokens[0])
            if found is None:
                raise _strange(text)
            return _equal(found)
        case ["op", "number" | "string" | "word"]:
            found = _literal(tokens[1])
            if found is None or tokens[0].text == "?":
                raise _strange(text)
            return _compare(tokens[0].text, found, text)
        case ["mark", "number", "mark", "number", "mark"] if tokens[2].text == "..":
            return [_range(tokens, text)], None
    raise _strange(text)


def _equal(value: Literal) -> tuple[list[Span] | None, Literal | None]:
    if kind_of(value) != "number":
        return None, value
    return [Span(Cut(float(value), False), Cut(float(value), True))], None


_SPANS: dict[str, Callable[[float], list[Span]]] = {
    "<": lambda n: [Span(START, Cut(n, False))],
    "<=": lambda n: [Span(START, Cut(n, True))],
    ">": lambda n: [Span(Cut(n, True), STOP)],
    ">=": lambda n: [Span(Cut(n, False), STOP)],
    "!=": lambda n: [Span(START, Cut(n, False)), Span(Cut(n, True), STOP)],
}


def _compare(op: str, value: Literal, text: str) -> tuple[list[Span] | None, Literal | None]:
    if op == "=":
        return _equal(value)
    if kind_of(value) != "number":
        raise KnowledgeError(f"{short(text)} puts texts in an order, which levels do not have here")
    return _SPANS[op](float(value)), None


def _range(tokens: Sequence[Token], text: str) -> Span:
    opens, closes = tokens[0].text, tokens[4].text
    low, high = (_literal(tokens[place]) for place in (1, 3))
    if opens not in "[(]" or closes not in "])[" or low is None or high is None:
        raise _strange(text)
    span = Span(Cut(float(low), opens != "["), Cut(float(high), closes == "]"))
    if span.start >= span.stop:
        raise KnowledgeError(f"the range {short(text)} is empty")
    return span


def _literal(token: Token) -> Literal | None:
    if token.kind == "number":
        found = float(token.text.replace(" ", ""))
        return found + 0.0 if abs(found) < 1e300 else None
    if token.kind == "string":
        return _ESCAPE.sub(lambda m: _ESCAPES.get(m[1]) or chr(int(m[1][1:], 16)), token.text[1:-1])
    return {"true": True, "false": False}.get(token.text)


def _strange(text: str) -> KnowledgeError:
    return KnowledgeError(
        f"{short(text)} is an expression, and not a comparison with a value, a range, a list of "
        "these, or not(...)"
    )


def quote(text: str) -> str:
    r"""A string of FEEL.

    >>> print(quote('a "b"'))
    "a \"b\""
    """
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, written)
    return f'"{text}"'
