"""Whom a training tells what happens."""

from collections.abc import Callable
from dataclasses import dataclass

from ...engine import Run
from ..remote import Notice


@dataclass(frozen=True)
class Reports:
    """Whom to tell what happens."""

    line: Callable[[str], None] = lambda text: None
    notice: Callable[[Notice], None] = lambda notice: None
    round: Callable[[Run, float], None] = lambda run, seconds: None
