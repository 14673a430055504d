"""Findings and reasons in words: code makes values, one file per language makes sentences.

A value has a kind, perhaps a case of that kind, and arguments by name. Another language is another
file like `en`, with the same keys.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from . import en

Arguments = Mapping[str, Any]
Sentence = str | Callable[[Arguments], str]  # a format string, or a function where words depend

LANGUAGES: dict[str, ModuleType] = {"en": en}


def say_finding(
    kind: str, case: str, arguments: Arguments, language: str = "en"
) -> tuple[str, str]:
    """What was found, and what to do about it (empty where there is nothing to do)."""
    key = f"{kind}/{case}" if case else kind
    message, suggestion = LANGUAGES[language].FINDINGS[key]
    return fill(message, arguments), fill(suggestion, arguments)


def fill(sentence: Sentence, arguments: Arguments) -> str:
    """A sentence with its arguments.

    >>> fill("{rule} repeats {before}", {"rule": "row 4", "before": "row 2"})
    'row 4 repeats row 2'
    """
    return sentence.format_map(arguments) if isinstance(sentence, str) else sentence(arguments)
