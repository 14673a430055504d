"""The list of errors: a code for each sentence, which `python -m handbook.errors` gives out."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from .sentences import SourceText

CODES = Path(__file__).with_name("codes.json")


@functools.cache
def listed() -> dict[str, str]:
    """Sentence -> code."""
    kept = json.loads(CODES.read_text(encoding="utf-8"))["codes"]
    return {sentence: code for code, sentence in kept.items()}


def code_at(file: str, line: int, names: tuple[str, ...]) -> str | None:
    """The code of the error that is made on a line of a file of ours; None for other people's."""
    sentence = sentence_at(file, line, names)
    return None if sentence is None else listed().get(sentence)


@functools.cache
def sentence_at(file: str, line: int, names: tuple[str, ...]) -> str | None:
    """What the source says there; None where there is no source."""
    try:
        return SourceText(Path(file).read_text(encoding="utf-8")).sentence_at(line, names)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
