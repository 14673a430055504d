"""Findings and reasons in words: code makes values, one file per language makes sentences.

A value has a kind, perhaps a case of that kind, and arguments by name. Another language is another
file like `en`, with the same keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

from . import en

Arguments = Mapping[str, Any]
Sentence = str | Callable[[Arguments], str]  # a format string, or a function where words depend

LANGUAGES: dict[str, ModuleType] = {"en": en}

_OTHERS: tuple[Sentence, Sentence] = ("{error}", "")


def say_finding(
    kind: str, case: str, arguments: Arguments, language: str = "en"
) -> tuple[str, str]:
    """What was found, and what to do about it (empty where there is nothing to do)."""
    key = f"{kind}/{case}" if case else kind
    message, suggestion = LANGUAGES[language].FINDINGS.get(key, _OTHERS)  # of other packages
    return fill(message, arguments), fill(suggestion, arguments)


@dataclass(frozen=True)
class Reason:
    """Why a row is answered as it is: one line of it, the same object for all rows it holds of."""

    kind: str
    args: Arguments = field(default_factory=dict)

    def words(self, language: str = "en") -> str:
        return fill(LANGUAGES[language].REASONS[self.kind], self.args)

    @cached_property
    def text(self) -> str:
        """In English; a rule that holds of many rows is put into words once."""
        return self.words()

    def __str__(self) -> str:
        return self.text


def fill(sentence: Sentence, arguments: Arguments) -> str:
    """A sentence with its arguments.

    >>> fill("{rule} repeats {before}", {"rule": "row 4", "before": "row 2"})
    'row 4 repeats row 2'
    """
    return sentence.format_map(arguments) if isinstance(sentence, str) else sentence(arguments)
