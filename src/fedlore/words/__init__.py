"""Findings and reasons in words: code makes values, one file per language makes sentences.

A value has a kind, perhaps a case of that kind, and arguments by name. Texts of pages stand in
English where they are used, as `say(...)`. Another language is another file like `zh`: the same
keys, and in `TEXTS` its words for every text that pages say.
"""

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import en, zh

Arguments = Mapping[str, Any]
Sentence = str | Callable[[Arguments], str]  # a format string, or a function where words depend

LANGUAGES: dict[str, ModuleType] = {"en": en, "zh": zh}


def pick_language(wanted: str) -> str:
    """The language of a header such as `zh-CN,zh;q=0.9`, or English."""
    return wanted[:2] if wanted[:2] in LANGUAGES else "en"


#: What sentences are made in where nobody names a language; a service sets it for each request.
_USUAL: str = pick_language(os.environ.get("FEDLORE_LANGUAGE", "en"))
LANGUAGE: ContextVar[str] = ContextVar("LANGUAGE", default=_USUAL)

_OTHERS: tuple[Sentence, Sentence] = ("{error}", "")


def say_finding(
    kind: str, case: str, arguments: Arguments, language: str | None = None
) -> tuple[str, str]:
    """What was found, and what to do about it (empty where there is nothing to do)."""
    key = f"{kind}/{case}" if case else kind
    message, suggestion = LANGUAGES[language or LANGUAGE.get()].FINDINGS.get(
        key, _OTHERS
    )  # of other packages
    return fill(message, arguments), fill(suggestion, arguments)


@dataclass(frozen=True)
class Reason:
    """Why a row is answered as it is: one line of it, the same object for all rows it holds of."""

    kind: str
    args: Arguments = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def words(self, language: str | None = None) -> str:
        return fill(LANGUAGES[language or LANGUAGE.get()].REASONS[self.kind], self.args)

    @property
    def text(self) -> str:
        """In the language of the moment; a rule that holds of many rows is put into words once."""
        language = LANGUAGE.get()
        if language not in self._texts:
            self._texts[language] = self.words(language)
        return self._texts[language]

    def __str__(self) -> str:
        return self.text


def say(text: str, /, **values: object) -> str:
    """A text of a page in the language of the moment; English is what the code says itself.

    >>> say("{rows} rows of {site}", rows=3, site="plant-1")
    '3 rows of plant-1'
    """
    found = LANGUAGES[LANGUAGE.get()].TEXTS.get(text, text)
    return str(found).format_map(values) if values else str(found)


def fill(sentence: Sentence, arguments: Arguments) -> str:
    """A sentence with its arguments.

    >>> fill("{rule} repeats {before}", {"rule": "row 4", "before": "row 2"})
    'row 4 repeats row 2'
    """
    return sentence.format_map(arguments) if isinstance(sentence, str) else sentence(arguments)
