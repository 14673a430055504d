"""Findings and reasons in words: code makes values, one file of data per language the sentences.

A value has a kind, perhaps a case of that kind, and arguments by name. Texts of pages stand in
English where they are used, as `say(...)`. Another language is another file like `zh.json`: the
same keys, and in `texts` its words for every text that pages say.
"""

import os
from contextvars import ContextVar
from dataclasses import dataclass, field

from .sentences import TAGS as TAGS
from .sentences import Arguments
from .sentences import read_language as read_language


def pick_language(wanted: str) -> str:
    """The language of a header such as `zh-CN,zh;q=0.9`, or English."""
    return wanted[:2] if wanted[:2] in TAGS else "en"


#: What sentences are made in where nobody names a language; a service sets it for each request.
_USUAL: str = pick_language(os.environ.get("FEDLORE_LANGUAGE", "en"))
LANGUAGE: ContextVar[str] = ContextVar("LANGUAGE", default=_USUAL)


def say_finding(
    kind: str, case: str, arguments: Arguments, language: str | None = None
) -> tuple[str, str]:
    """What was found, and what to do about it (empty where there is nothing to do)."""
    words = read_language(language or LANGUAGE.get())
    key = f"{kind}/{case}" if case else kind
    message, remedy = (*words.findings.get(key, ["{error}"]), "")[:2]  # of other packages
    return words.fill(message, arguments), words.fill(remedy, arguments)


def phrase(name: str, language: str | None = None, /, **arguments: object) -> str:
    """A part of sentences by itself.

    >>> phrase("part.cases", "en", confidence=0.9)
    ' (in 90 % of cases)'
    """
    words = read_language(language or LANGUAGE.get())
    return words.fill(words.parts[name], arguments)


@dataclass(frozen=True)
class Reason:
    """Why a row is answered as it is: one line of it, the same object for all rows it holds of."""

    kind: str
    args: Arguments = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def words(self, language: str | None = None) -> str:
        words = read_language(language or LANGUAGE.get())
        return words.fill(words.reasons[self.kind], self.args)

    @property
    def text(self) -> str:
        """In the language of the moment; a rule that holds of many rows is put into words once."""
        language = LANGUAGE.get()
        if language not in self._texts:
            words = read_language(language)
            self._texts[language] = words.fill(words.reasons[self.kind], self.args)
        return self._texts[language]

    def __str__(self) -> str:
        return self.text


def say(text: str, /, **values: object) -> str:
    """A text of a page in the language of the moment; English is what the code says itself.

    >>> say("{rows} rows of {site}", rows=3, site="plant-1")
    '3 rows of plant-1'
    """
    found = read_language(LANGUAGE.get()).texts.get(text, text)
    return found.format_map(values) if values else found
