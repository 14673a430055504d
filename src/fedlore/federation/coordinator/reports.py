"""Whom a training tells what happens, and who tells it to stop."""

import threading
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
    stop: threading.Event | None = None  # looked at while waiting: an interrupt may be lost
