"""How often a rule holds, as an expert writes it: `0.9`, `0,9`, `90 %`, `9 of 10`."""

import re

from ...errors import KnowledgeError
from .cells import number, short

_NUMBER = r"(\d+(?:[.,]\d+)?|[.,]\d+)"
_PLAIN = re.compile(_NUMBER)
_PERCENT = re.compile(rf"{_NUMBER}\s*%")
_CASES = re.compile(r"(?:in\s+)?(\d+)\s*(?:of|in|out of|/)\s*(\d+)(?:\s+cases)?", re.IGNORECASE)


def parse_confidence(text: str) -> float:
    """The share of cases in which a rule holds; an empty cell means always.

    >>> [parse_confidence(cell) for cell in ("0.9", "0,9", "90 %", "9 of 10", "")]
    [0.9, 0.9, 0.9, 0.9, 1.0]
    """
    plain = text.replace("\u00a0", " ").strip()
    if plain in ("", "-"):
        return 1.0
    if found := _PLAIN.fullmatch(plain):
        value = _value(found[1])
    elif found := _PERCENT.fullmatch(plain):
        value = _value(found[1]) / 100
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


def format_confidence(value: float) -> str:
    """A cell that parses back to the confidence."""
    return number(value)


def _value(text: str) -> float:
    return float(text.replace(",", "."))
