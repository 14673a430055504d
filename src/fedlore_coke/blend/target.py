"""What is wanted: grades, or a number, between two ends."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedlore.errors import FedloreError, unknown

_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*(>=|<=|==|=|>|<)\s*(.+?)\s*")


@dataclass(frozen=True)
class BlendTarget:
    """Everything from `low` to `high`, both included: numbers, or positions of classes."""

    text: str  # as a person reads it
    low: float = -math.inf
    high: float = math.inf


def class_target(text: str, classes: Sequence[str], label: str = "grade") -> BlendTarget:
    """A target such as 'grade>=12' or 'grade>=CSR50, grade<=CSR56'.

    What stands behind the sign is the name of a class, or else its position counted from 0.

    >>> class_target("grade>=1", ("poor", "fair", "good")).text
    'grade >= fair'
    """

    def position(word: str) -> int:
        if word in classes:
            return list(classes).index(word)
        if re.fullmatch(r"\d+", word):
            if int(word) < len(classes):
                return int(word)
            raise FedloreError(
                f"target '{text}': there is no class '{word}', and positions end at "
                f"{len(classes) - 1} ({classes[-1]})"
            )
        raise FedloreError(f"target '{text}': {unknown('class', word, classes)}")

    low, high, said = 0, len(classes) - 1, []
    for sign, word in _conditions(text, (label, "grade")):
        at = position(word)
        said.append(f"{label} {sign} {classes[at]}")
        if sign in (">=", ">", "="):
            low = max(low, at + (sign == ">"))
        if sign in ("<=", "<", "="):
            high = min(high, at - (sign == "<"))
    if low > high:
        raise FedloreError(f"target '{text}' holds for no class")
    return BlendTarget(" and ".join(said), float(low), float(high))


def number_target(text: str, label: str, *, lower: float, upper: float) -> BlendTarget:
    """A target such as 'csr>=60' for a number between the bounds."""
    low, high, said = lower, upper, []
    for sign, word in _conditions(text, (label,)):
        try:
            at = float(word)
        except ValueError:
            at = math.nan
        if not math.isfinite(at):
            raise FedloreError(f"target '{text}': '{word}' is not a finite number")
        said.append(f"{label} {sign} {word}")
        if sign in (">=", ">", "="):
            low = max(low, math.nextafter(at, math.inf) if sign == ">" else at)
        if sign in ("<=", "<", "="):
            high = min(high, math.nextafter(at, -math.inf) if sign == "<" else at)
    if low > high:
        raise FedloreError(f"target '{text}' holds for no number in [{lower:g}, {upper:g}]")
    return BlendTarget(" and ".join(said), low, high)


def _conditions(text: str, labels: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for part in text.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise FedloreError(
                f"a target must read like '{labels[0]}>=VALUE', conditions parted by commas, "
                f"got '{text}'"
            )
        name, sign, word = match.groups()
        if name not in labels:
            raise FedloreError(f"target '{text}': {unknown('label', name, labels)}")
        found.append(("=" if sign == "==" else sign, word))
    return found
