"""How the sentences of a language are read: a language is one file of data, without code.

A sentence is a format string, `{rule} repeats {before}` or `{share:.3g}`; a text takes any format.
What may stand behind the colon beside a format:

    {rows:1=row|rows}        one of several texts: the first whose key the value is, else the last
    {rules:{item}/, / and }  a list item by item, with what stands between, and before the last one
    {rules:{item}/, /5}      no more than five of its items
    {side:@held}             the part of the language that is called `held.` and the value
    {share:.4g%}             a share as per cent

A name with a point in it is a part of the language, which sees the same arguments. A list or
mapping `rows` has `rows_count`, and `rows_more` beyond five. Items of a mapping are `name` and
`value`, those of pairs `0` and `1`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

Arguments = Mapping[str, Any]
Show = Callable[["Language", Any, Arguments], str]  # how a value is shown, given all arguments

SHOWN = 5  # items named in a sentence
_FOLDER = Path(__file__).parent
_FORMAT = re.compile(r"[+.\dgf]*|\.\d%")  # of a number
_OPTION = re.compile(r"([\w.-]*)=(.*)", re.DOTALL)

TAGS: tuple[str, ...] = tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


@dataclass(frozen=True, eq=False)
class Language:
    """The sentences of one language."""

    findings: Mapping[str, list[str]]  # by kind, or kind/case: what was found, what to do
    reasons: Mapping[str, str]  # why a row is answered so
    parts: Mapping[str, str]  # of sentences
    texts: Mapping[str, str]  # of pages, by the English one

    def fill(self, text: str, arguments: Arguments) -> str:
        """A sentence with its arguments.

        >>> read_language("en").fill("{n} {n:1=row|rows} of {of:{item}/, }", {"n": 1, "of": "ab"})
        '1 row of a, b'
        """
        if "{" not in text:
            return text
        plain, pieces = _parse(text)
        if plain:  # as Python does it, several times as fast
            try:
                return text.format_map(arguments)
            except (KeyError, ValueError):  # left out, or a text in the place of a number
                pass
        found = []
        for literal, name, show in pieces:
            found.append(literal)
            if name in arguments:
                found.append(show(self, arguments[name], arguments))
            elif name:
                found.append(self._absent(name, show, arguments))
        return "".join(found)

    def _absent(self, name: str, show: Show, arguments: Arguments) -> str:
        """What stands for a name that is no argument; nothing where an argument is left out."""
        if name in self.parts:
            return self.fill(self.parts[name], arguments)
        listed, _, what = name.rpartition("_")
        if what not in ("count", "more"):
            return show(self, "", arguments)
        count = len(arguments[listed])
        return show(self, count if what == "count" else max(count - SHOWN, 0), arguments)

    def translate(self, name: str) -> str:
        """A name that people read, of parts with commas between them."""
        if name in self.texts:
            return self.texts[name]
        return self.parts["part.comma"].join(
            self.texts.get(part, part) for part in name.split(", ")
        )


@cache
def _parse(text: str) -> tuple[bool, list[tuple[str, str, Show]]]:
    """Whether Python can fill it; what stands before each name, the name, and how it is shown."""
    found = [(before, name or "", spec or "") for before, name, spec, _ in Formatter().parse(text)]
    plain = all(_FORMAT.fullmatch(spec) and "." not in name for _, name, spec in found)
    return plain, [(before, name, _read(spec)) for before, name, spec in found]


def _read(spec: str) -> Show:
    """How a value is shown, by what stands behind the colon."""
    if spec.startswith("@"):
        return lambda language, value, arguments: _part(language, spec[1:], value, arguments)
    options = _split(spec, "|")
    if len(options) > 1:
        found = [one for one in map(_OPTION.fullmatch, options) if one]
        texts, last = {one[1]: one[2] for one in found}, options[-1]
        return lambda language, value, arguments: language.fill(
            texts.get(str(value), last), arguments
        )
    item, *between = _split(spec, "/")
    if between:
        return lambda language, value, arguments: _list(language, value, item, between, arguments)
    if spec.endswith("g%"):
        return lambda _, value, __: f"{100 * value:{spec[:-1]}} %"
    return lambda _, value, __: value if isinstance(value, str) else format(value, spec)


def _part(language: Language, section: str, value: Any, arguments: Arguments) -> str:
    part = language.parts.get(f"{section}.{value}")
    return language.translate(value) if part is None else language.fill(part, arguments)


def _list(
    language: Language, value: Any, item: str, between: list[str], arguments: Arguments
) -> str:
    comma, last = (*between, between[0])[:2]
    most = SHOWN if last.isdigit() else len(value)
    texts = [language.fill(item, {**arguments, **one}) for one in list(_items(value))[:most]]
    if last.isdigit() or len(texts) < 2:
        return comma.join(texts)
    return comma.join(texts[:-1]) + last + texts[-1]


def _items(value: Any) -> Iterator[Arguments]:
    """The items of a list or mapping as the arguments that each adds."""
    if isinstance(value, Mapping):
        yield from ({"name": name, "value": one} for name, one in value.items())
        return
    for one in value:
        if isinstance(one, Mapping):
            yield one
        else:
            pair = one if isinstance(one, list | tuple) else ()
            yield {"item": one, **{str(place): part for place, part in enumerate(pair)}}


def _split(text: str, mark: str) -> list[str]:
    """A text at the marks that stand outside of any braces."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@cache
def read_language(tag: str) -> Language:
    """The language of a tag, from its file."""
    data = json.loads((_FOLDER / f"{tag}.json").read_text(encoding="utf-8"))
    return Language(**data)
